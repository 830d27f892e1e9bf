//! The number of bytes of entries that one message carries to a peer.
//!
//! A message carries at most [`MOST`] bytes, or one entry. The limit halves after a message that
//! timed out and doubles after an answered message, so that a message that was too large for a slow
//! link is not repeated at the same size. Messages with larger entries share the [`Room`] of all
//! peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::types::{Entry, Payload};

/// Equal to the bytes that one read of the log returns.
pub(crate) const MOST: usize = 1 << 20;

const LEAST: usize = 16 << 10;

/// Bytes of an entry in addition to its commands.
const ENTRY_COST: usize = 64;

/// The approximate size of an entry in a message.
fn bytes(entry: &Entry) -> usize {
    let commands = match &entry.payload {
        Payload::Normal(proposal) => proposal.0.bytes().0.len(),
        Payload::Blank | Payload::Membership(_) => 0,
    };
    commands + ENTRY_COST
}

/// Largest total of bytes in flight, for all peers, in messages with an entry above [`MOST`]. Other
/// messages are bounded by the number of members, one each, so none of them waits for a large
/// message on another peer's slow link.
const LARGE_UNDER_WAY: usize = 64 << 20;

/// The room for large messages that all peers share.
#[derive(Clone)]
pub(crate) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_UNDER_WAY)))
    }
}

impl Room {
    /// Waits until a message with these entries may be sent. The message occupies the room until
    /// the returned permit is dropped.
    pub(crate) async fn take(&self, entries: &[Entry]) -> Option<OwnedSemaphorePermit> {
        let bytes: usize = entries.iter().map(bytes).sum();
        self.take_bytes(bytes).await
    }

    async fn take_bytes(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= MOST {
            return None;
        }
        let bytes = u32::try_from(bytes.min(LARGE_UNDER_WAY)).ok()?;
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(bytes).await.ok()
    }
}

pub(crate) struct Batch {
    bytes: AtomicUsize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: AtomicUsize::new(MOST),
        }
    }

    /// The number of these entries that fit into the next message.
    pub(crate) fn fitting(&self, entries: &[Entry]) -> usize {
        let mut left = self.bytes.load(Ordering::Relaxed);
        let fitting = entries.iter().take_while(|entry| {
            let fits = left.checked_sub(bytes(entry));
            left = fits.unwrap_or(0);
            fits.is_some()
        });
        fitting.count().max(1).min(entries.len())
    }

    pub(crate) fn answered(&self) {
        self.change(|bytes| (bytes * 2).min(MOST));
    }

    pub(crate) fn timed_out(&self) {
        self.change(|bytes| (bytes / 2).max(LEAST));
    }

    /// A plain load and store suffice, because a peer receives one message with entries at a time.
    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(change(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use seqd_state::{EncodedEntry, Entry as StateEntry, Level, Stamp};

    use super::*;
    use crate::tests::harness::create;
    use crate::types::{self, Proposal};
    use openraft::entry::RaftEntry;

    fn entries(count: u64) -> Vec<Entry> {
        let commands: Vec<_> = (0..500).map(|n| create(&format!("s{n}"))).collect();
        let entry = StateEntry {
            stamp: Stamp::default(),
            commands,
        };
        let entry = Arc::new(EncodedEntry::new(entry, Level::FIRST).unwrap());
        let indexes = 1..=count;
        indexes
            .map(|index| Entry::new_normal(types::log_id(1, index), Proposal(Arc::clone(&entry))))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn large_entries_to_all_peers_wait_for_room_and_small_ones_do_not() {
        let room = Room::default();
        let largest = 8 << 20;
        let mut taken = Vec::new();
        for _ in 0..LARGE_UNDER_WAY / largest {
            taken.push(room.take_bytes(largest).await);
        }
        let further = room.take_bytes(MOST + 1);
        let limit = Duration::from_secs(3600);
        assert!(timeout(limit, further).await.is_err());
        assert!(room.take_bytes(MOST).await.is_none());
        taken.pop();
        assert!(room.take_bytes(MOST + 1).await.is_some());
    }

    #[test]
    fn a_batch_shrinks_to_one_entry_and_grows_again() {
        let entries = entries(200);
        let batch = Batch::new();
        let all = batch.fitting(&entries);
        assert!(all > 4 && all < 200, "{all}");
        batch.timed_out();
        let half = batch.fitting(&entries);
        assert!(half < all && half >= all / 2, "{half} of {all}");
        for _ in 0..20 {
            batch.timed_out();
        }
        assert_eq!(batch.fitting(&entries), 1);
        assert_eq!(batch.fitting(&[]), 0);
        for _ in 0..20 {
            batch.answered();
        }
        assert_eq!(batch.fitting(&entries), all);
    }
}
