//! The places for connections to the peers' port.
//!
//! The other side of a connection is a stranger until it has sent a message with a valid envelope.
//! Strangers have a part of the places, and few for each network. If there are too many, a new
//! stranger replaces the longest-waiting stranger of the network with the most strangers. The bytes
//! of strangers are accounted separately. A stranger therefore cannot keep a member out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_net::tls::Certified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::frame::MOST_COST;

/// The largest number of concurrent connections if there are enough descriptors: 64 members with
/// five links each, and twice that while they reconnect.
pub(super) const CONNECTIONS: usize = MEMBERS + STRANGERS;
pub(super) const MEMBERS: usize = 768;

/// A quarter of the connections.
pub(super) const STRANGERS: usize = 256;

/// The strangers of one network are limited to all strangers divided by this: enough for the nodes
/// of a test cluster on one host.
const STRANGERS_PER_NETWORK_DIVISOR: usize = 4;

/// The largest number of message bytes held for all members together.
const ROOM: usize = 128 << 20;

/// The largest number of message bytes held for one stranger before reading stops. The rest stays
/// in its connection.
const STRANGER_BYTES: usize = 64 << 10;

/// `STRANGER_BYTES` plus the largest frame: 32 MiB for all strangers.
const STRANGER_ROOM: usize = STRANGER_BYTES + MOST_COST;

/// The largest number of concurrent calls of one stranger. A joining node has one. The calls of a
/// member wait in its connection until its first message was checked.
const STRANGER_CALLS: usize = 4;

pub(super) struct Places {
    strangers: Lock<Strangers>,
    members: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

struct Strangers {
    most: usize,
    last: u64,
    /// The strangers, in the order of arrival.
    waiting: VecDeque<Stranger>,
}

struct Stranger {
    number: u64,
    from: Option<IpAddr>,
    evict: oneshot::Sender<()>,
}

/// Returns the network of an address. For IPv6 it is the first half, because one host may own all
/// of it.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

impl Strangers {
    /// Returns the stranger that a new one of this network replaces.
    fn leaves(&self, from: Option<IpAddr>) -> Option<usize> {
        let mut counts = HashMap::new();
        for stranger in &self.waiting {
            *counts.entry(stranger.from).or_insert(0) += 1;
        }
        let first_of = |most: usize| {
            let mut waiting = self.waiting.iter();
            waiting.position(|one| counts[&one.from] == most)
        };
        if counts
            .get(&from)
            .is_some_and(|count| *count >= self.most.div_ceil(STRANGERS_PER_NETWORK_DIVISOR))
        {
            return self.waiting.iter().position(|one| one.from == from);
        }
        if self.waiting.len() < self.most {
            return None;
        }
        counts.values().max().copied().and_then(first_of)
    }
}

/// The place of a connection. It is freed when this is dropped.
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    number: u64,
    member: OnceLock<OwnedSemaphorePermit>,
    /// The node named by the certificate, if the connection has TLS.
    certified: Option<Certified>,
    /// The ID of that node, once it is known.
    known: OnceLock<u64>,
    /// The room for the bytes of the other side while it is a stranger.
    own: Arc<Semaphore>,
    /// Signals that the connection may read again.
    readable: Notify,
}

impl Places {
    #[cfg(test)]
    pub(super) fn new() -> Arc<Self> {
        Self::of(CONNECTIONS)
    }

    /// Creates places for this many connections, at least two.
    pub(super) fn of(connections: usize) -> Arc<Self> {
        let strangers = (connections * STRANGERS).div_ceil(CONNECTIONS);
        Self::parted(connections.saturating_sub(strangers), strangers, ROOM)
    }

    #[cfg(test)]
    pub(super) fn with(members: usize, room: usize) -> Arc<Self> {
        Self::parted(members, STRANGERS, room)
    }

    fn parted(members: usize, strangers: usize, room: usize) -> Arc<Self> {
        Arc::new(Self {
            strangers: Lock::new(Strangers {
                most: strangers,
                last: 0,
                waiting: VecDeque::new(),
            }),
            members: Arc::new(Semaphore::new(members)),
            room: Arc::new(Semaphore::new(room)),
        })
    }

    /// Gives a stranger a place. The receiver fires when another stranger takes over that place.
    pub(super) fn enter(
        self: &Arc<Self>,
        from: Option<IpAddr>,
        certified: Option<Certified>,
    ) -> (Arc<ConnectionPlace>, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let mut strangers = self.strangers.lock();
        let from = from.map(network);
        let leaves = strangers.leaves(from);
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
        let place = ConnectionPlace {
            places: Arc::clone(self),
            number,
            member: OnceLock::new(),
            certified,
            known: OnceLock::new(),
            own: Arc::new(Semaphore::new(STRANGER_ROOM)),
            readable: Notify::new(),
        };
        (Arc::new(place), evicted)
    }

    /// Returns the free places and bytes of members.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize) {
        (
            self.members.available_permits(),
            self.room.available_permits(),
        )
    }

    fn leave(&self, number: u64) {
        let mut strangers = self.strangers.lock();
        strangers.waiting.retain(|one| one.number != number);
    }
}

impl ConnectionPlace {
    pub(super) fn is_member(&self) -> bool {
        self.member.get().is_some()
    }

    /// Returns the name in the certificate of the other side, or `None` without TLS. It is
    /// available once something was received.
    pub(super) fn certified(&self) -> Option<&str> {
        let certified = self.certified.as_ref()?;
        Some(certified.get().map_or("", String::as_str))
    }

    /// Returns whether the certificate is known to be that of node `id`.
    pub(super) fn is_known(&self, id: u64) -> bool {
        self.known.get() == Some(&id)
    }

    /// Records that the certificate is that of node `id`. The name of a node never changes.
    pub(super) fn know(&self, id: u64) {
        let _ = self.known.set(id);
    }

    /// Makes this place that of a member. Returns `false` if all places of members are taken.
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

    /// Called when some of the received bytes were released.
    pub(super) fn freed(&self) {
        if !self.is_member() {
            self.readable.notify_one();
        }
    }

    /// Waits until more may be read. Only a few bytes and calls of a stranger are held at the same
    /// time.
    pub(super) async fn may_read(&self, calls: impl Fn() -> usize) {
        let is_full = || self.held() >= STRANGER_BYTES || calls() >= STRANGER_CALLS;
        while !self.is_member() && is_full() && !is_out!(StrangersBounded) {
            self.readable.notified().await;
        }
    }

    /// Returns the bytes held for the other side as a stranger.
    fn held(&self) -> usize {
        STRANGER_ROOM - self.own.available_permits()
    }

    /// Reserves room for this many bytes of a message, or returns `None` if there is not enough. A
    /// stranger always has room for the bytes that may be read.
    pub(super) fn room(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let room = if self.is_member() || is_out!(StrangersApart) {
            &self.places.room
        } else {
            &self.own
        };
        Arc::clone(room).try_acquire_many_owned(bytes).ok()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        if !self.is_member() {
            self.places.leave(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK_STRANGERS: usize = STRANGERS / STRANGERS_PER_NETWORK_DIVISOR;

    fn from(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[test]
    fn one_stranger_too_many_takes_the_place_of_the_first_of_its_address() {
        let places = Places::new();
        let (_other, mut other) = places.enter(from(2), None);
        let mut held: Vec<_> = (0..NETWORK_STRANGERS)
            .map(|_| places.enter(from(1), None))
            .collect();
        for (_, evicted) in &mut held {
            assert!(evicted.try_recv().is_err());
        }
        let _more = places.enter(from(1), None);
        assert!(held[0].1.try_recv().is_ok());
        assert!(held[1].1.try_recv().is_err());
        assert!(other.try_recv().is_err());
    }

    #[test]
    fn the_network_that_has_most_places_loses_one() {
        let places = Places::new();
        let (_member, mut member) = places.enter(from(9), None);
        let mut held = Vec::new();
        for host in 1..=4 {
            held.extend((0..NETWORK_STRANGERS).map(|_| places.enter(from(host), None)));
        }
        let first_of_most = held[0].1.try_recv();
        assert!(first_of_most.is_ok());
        let of_a_host = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, last]));
        held.extend((0..200).map(|last| places.enter(of_a_host(last), None)));
        let waiting = places.strangers.lock().waiting.len();
        assert_eq!(waiting, STRANGERS);
        assert!(member.try_recv().is_err());
    }

    #[tokio::test]
    async fn members_have_room_whatever_strangers_send() {
        let places = Places::with(2, 100);
        let (stranger, _stays) = places.enter(from(1), None);
        let (member, _stays) = places.enter(from(2), None);
        let first = member.room(60).unwrap();
        assert!(member.admit());
        let part = || stranger.room(16 << 10);
        let parts: Option<Vec<_>> = (0..4).map(|_| part()).collect();
        assert!(parts.is_some(), "a stranger is given room of members");
        let reads = stranger.may_read(|| 0);
        tokio::pin!(reads);
        assert!(
            futures_util::FutureExt::now_or_never(reads.as_mut()).is_none(),
            "more is read of a stranger than may be held"
        );
        // There is room for the last frame that was read before.
        assert!(stranger.room(MOST_COST as u32).is_some());
        assert!(stranger.room(u32::MAX).is_none());
        let second = member.room(100).unwrap();
        assert!(member.room(1).is_none());
        drop((first, second));
        assert!(member.room(100).is_some());
        drop(parts);
        stranger.freed();
        reads.await;
    }

    #[test]
    fn members_are_not_evicted_however_many_strangers_come() {
        let places = Places::with(1, 0);
        let (member, mut evicted) = places.enter(from(0), None);
        assert!(member.admit());
        let mut held = Vec::new();
        for host in 1..=8 {
            held.extend((0..NETWORK_STRANGERS).map(|_| places.enter(from(host), None)));
        }
        assert!(evicted.try_recv().is_err());
        let all = held.len();
        let left = held
            .iter_mut()
            .map(|(_, evicted)| evicted.try_recv().is_ok());
        assert_eq!(left.filter(|left| *left).count(), all - STRANGERS);
        // The places of members are limited as well.
        assert!(!held[8 * NETWORK_STRANGERS - 1].0.admit());
        drop(member);
        assert!(held[8 * NETWORK_STRANGERS - 1].0.admit());
    }
}
