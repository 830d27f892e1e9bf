//! The synced position of this node's own log, which a leader sends to its followers.

use seqd_net::Lock;

use crate::records::{LogIdRecord, ToRecord};
use crate::types::{LogId, Vote, farther};

/// The vote and the last log ID that are on this node's disk.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    inner: Lock<(Option<Vote>, Option<LogId>)>,
}

impl Synced {
    pub(crate) fn new(vote: Option<Vote>, last: Option<LogId>) -> Self {
        Self {
            inner: Lock::new((vote, last)),
        }
    }

    /// Records that a vote was synced.
    pub(crate) fn voted(&self, vote: Vote) {
        self.inner.lock().0 = Some(vote);
    }

    /// Records that the entries up to this one were synced.
    pub(crate) fn appended(&self, last: LogId) {
        self.inner.lock().1 = Some(last);
    }

    /// Records that all entries after this one were cut off, and that the cut was synced.
    pub(crate) fn cut(&self, last: Option<LogId>) {
        self.inner.lock().1 = last;
    }

    /// Records that a synced snapshot contains the entries up to this one.
    pub(crate) fn purged(&self, upto: LogId) {
        let mut inner = self.inner.lock();
        inner.1 = farther(inner.1, Some(upto));
    }

    /// The last log ID, for a message under this vote; `None` until that vote is synced.
    pub(crate) fn last_under(&self, vote: &Vote) -> Option<LogIdRecord> {
        let inner = self.inner.lock();
        inner
            .1
            .as_ref()
            .filter(|_| inner.0.as_ref() == Some(vote))
            .map(ToRecord::record)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openraft::entry::RaftEntry;
    use openraft::storage::{IOFlushed, RaftLogStorage};
    use seqd_wal::{Wal, WalOptions};

    use super::*;
    use crate::storage::log_store::LogStore;
    use crate::types::{self, Entry};

    async fn append(log: &mut LogStore, term: u64, index: u64) {
        let entry = Entry::new_blank(types::log_id(term, index));
        log.append([entry], IOFlushed::noop()).await.unwrap();
        // A vote waits for the writes that were queued before it.
        let vote = log.vote().unwrap();
        log.save_vote(&vote).await.unwrap();
    }

    fn opened(dir: &std::path::Path) -> (LogStore, Arc<Synced>) {
        let (wal, recovered) = Wal::open(WalOptions::new(dir)).unwrap();
        let log = LogStore::new(wal, &recovered, Arc::default()).unwrap();
        let synced = log.synced();
        (log, synced)
    }

    #[tokio::test]
    async fn only_synced_entries_are_reported_and_only_under_a_synced_vote() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, synced) = opened(dir.path());
        let (voted, leads) = (types::vote(1, 1, false), types::vote(1, 1, true));
        log.save_vote(&voted).await.unwrap();
        assert_eq!(synced.last_under(&voted), None);
        append(&mut log, 1, 0).await;
        append(&mut log, 1, 1).await;
        assert_eq!(synced.last_under(&leads), None);
        log.save_vote(&leads).await.unwrap();
        let at = |index| Some(LogIdRecord { term: 1, index });
        assert_eq!(synced.last_under(&leads), at(1));
        log.truncate_after(Some(types::log_id(1, 0))).await.unwrap();
        assert_eq!(synced.last_under(&leads), at(0));
        // A snapshot replaces entries that the log never had.
        synced.purged(types::log_id(1, 7));
        assert_eq!(synced.last_under(&leads), at(7));
        drop((log, synced));
        let (_log, synced) = opened(dir.path());
        assert_eq!(synced.last_under(&leads), at(0));
    }
}
