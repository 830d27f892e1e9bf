//! Who may hold a connection to the peers' port.
//!
//! A connection is a stranger's until a message with a valid envelope has come on it. Strangers have a
//! part of the places, and few for each address; one too many takes the place of the one that has
//! waited longest. So no number of them keeps a member out.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// Connections at once: 64 members with five links each, twice while they connect anew.
pub(super) const CONNECTIONS: usize = MEMBERS + STRANGERS;
const MEMBERS: usize = 768;
const STRANGERS: usize = 256;

/// Strangers of one address: the nodes of a cluster that is tried out on one host.
const STRANGERS_OF_ONE: usize = 64;

/// Bytes of messages that are held for all connections together.
const ROOM: usize = 128 << 20;

/// Bytes of messages that are held for one stranger; what else it sends stays in its connection.
const STRANGER_BYTES: u64 = 64 << 10;

/// Strangers leave room for members.
const _: () = assert!(STRANGERS as u64 * 2 * STRANGER_BYTES <= ROOM as u64 / 2);

pub(super) struct Places {
    strangers: Mutex<Strangers>,
    members: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

#[derive(Default)]
struct Strangers {
    last: u64,
    /// Those that came first stand first.
    waiting: VecDeque<Stranger>,
}

struct Stranger {
    number: u64,
    from: Option<IpAddr>,
    evict: oneshot::Sender<()>,
}

/// A connection's place; free again when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    member: OnceLock<OwnedSemaphorePermit>,
    /// The connection may read on.
    readable: Notify,
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        Self::with(MEMBERS, ROOM)
    }

    pub(super) fn with(members: usize, room: usize) -> Arc<Self> {
        Arc::new(Self {
            strangers: Mutex::default(),
            members: Arc::new(Semaphore::new(members)),
            room: Arc::new(Semaphore::new(room)),
        })
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a stranger a place. It is asked to leave by the receiver.
    pub(super) fn enter(
        self: &Arc<Self>,
        from: Option<IpAddr>,
    ) -> (Arc<Place>, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let mut strangers = self.strangers();
        let of_one = strangers.waiting.iter().filter(|one| one.from == from);
        let leaves = if of_one.count() >= STRANGERS_OF_ONE {
            strangers.waiting.iter().position(|one| one.from == from)
        } else {
            (strangers.waiting.len() >= STRANGERS).then_some(0)
        };
        if let Some(left) = leaves.and_then(|at| strangers.waiting.remove(at)) {
            let _ = left.evict.send(());
        }
        strangers.last += 1;
        let number = strangers.last;
        strangers.waiting.push_back(Stranger {
            number,
            from,
            evict,
        });
        let place = Place {
            places: Arc::clone(self),
            number,
            member: OnceLock::new(),
            readable: Notify::new(),
        };
        (Arc::new(place), evicted)
    }

    /// Members' places and bytes that are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize) {
        (
            self.members.available_permits(),
            self.room.available_permits(),
        )
    }

    fn leave(&self, number: u64) {
        let mut strangers = self.strangers();
        strangers.waiting.retain(|one| one.number != number);
    }
}

impl Place {
    pub(super) fn is_member(&self) -> bool {
        self.member.get().is_some()
    }

    /// Makes it a member's; `false` if there is no such place left.
    pub(super) fn admit(&self) -> bool {
        if self.is_member() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.places.members).try_acquire_owned() else {
            return false;
        };
        if self.member.set(permit).is_ok() {
            self.places.leave(self.number);
            self.readable.notify_one();
        }
        true
    }

    /// Some of what was read is not held any more.
    pub(super) fn freed(&self) {
        if !self.is_member() {
            self.readable.notify_one();
        }
    }

    /// Waits until more may be read: of a stranger, until little of what came is held.
    pub(super) async fn may_read(&self, held: impl Fn() -> u64) {
        while !self.is_member() && held() >= STRANGER_BYTES {
            self.readable.notified().await;
        }
    }

    /// Room for so many bytes of a message; `None` if there is none left.
    pub(super) fn room(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.places.room);
        room.try_acquire_many_owned(bytes).ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_member() {
            self.places.leave(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[test]
    fn one_stranger_too_many_takes_the_place_of_the_first_of_its_address() {
        let places = Places::new();
        let (_other, mut other) = places.enter(from(2));
        let mut held: Vec<_> = (0..STRANGERS_OF_ONE)
            .map(|_| places.enter(from(1)))
            .collect();
        for (_, evicted) in &mut held {
            assert!(evicted.try_recv().is_err());
        }
        let _more = places.enter(from(1));
        assert!(held[0].1.try_recv().is_ok());
        assert!(held[1].1.try_recv().is_err());
        assert!(other.try_recv().is_err());
    }

    #[test]
    fn members_are_not_evicted_however_many_strangers_come() {
        let places = Places::with(1, 0);
        let (member, mut evicted) = places.enter(from(0));
        assert!(member.admit());
        let mut held = Vec::new();
        for host in 1..=8 {
            held.extend((0..STRANGERS_OF_ONE).map(|_| places.enter(from(host))));
        }
        assert!(evicted.try_recv().is_err());
        let all = held.len();
        let left = held
            .iter_mut()
            .map(|(_, evicted)| evicted.try_recv().is_ok());
        assert_eq!(left.filter(|left| *left).count(), all - STRANGERS);
        // The places of members are bounded as well.
        assert!(!held[8 * STRANGERS_OF_ONE - 1].0.admit());
        drop(member);
        assert!(held[8 * STRANGERS_OF_ONE - 1].0.admit());
    }
}
