//! The record of the clients' actions and the responses to them, on one clock, and of the writes to
//! the resource of each lock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checkers::locks::{Asked, Counted, Write};
use crate::history::At;

/// The number of locks.
pub const LOCKS: usize = 10;

/// The lock with three permits.
const PERMITS: usize = 8;

/// The lock that some of its clients share.
const SHARED: usize = 9;

/// The lock with a delay after a hold that expired.
const DELAYED: usize = 7;

/// The range of the holds' TTLs in ms. They are short, so that stopped nodes and pauses outlast
/// them.
pub const TTL_MS: (u64, u64) = (1_000, 3_000);

/// The delay of the lock that has one, in ms.
pub const DELAY_MS: u64 = 500;

/// The parameters with which a lock is requested.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub permits: u32,
    /// `true` if some clients share it.
    pub may_share: bool,
    pub delay_ms: u64,
    /// `true` if most holds are undisturbed, and therefore short.
    pub is_busy: bool,
}

pub fn manner(lock: usize) -> Manner {
    Manner {
        permits: if lock == PERMITS { 3 } else { 1 },
        may_share: lock == SHARED,
        delay_ms: if lock == DELAYED { DELAY_MS } else { 0 },
        is_busy: lock.is_multiple_of(2),
    }
}

impl Manner {
    /// Returns whether there is one writer at a time, so that the resource can check its token.
    pub fn has_resource(self) -> bool {
        self.permits == 1 && !self.may_share
    }
}

pub fn name(lock: usize) -> String {
    format!("soak/{lock}")
}

/// The end of a hold, as its client observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The run ended first.
    Open,
    Released,
    /// The client slept past the end of its hold, and continued.
    Paused,
    /// The client died without a release.
    Died,
    /// The client renewed, but received that the hold is lost.
    Lost,
    /// The client tried to renew for long without a response.
    Unanswered,
}

/// A hold, as its client recorded it.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub lock: usize,
    pub token: u64,
    pub ttl_ms: u64,
    /// The times of the first request of the claim, and of the response.
    pub call: At,
    pub back: At,
    pub waited: bool,
    pub fate: Fate,
    /// The time at which its client was done.
    pub over: At,
    /// The time at which the last request that extended it was sent.
    pub renewed: At,
    /// The end in that request's response, on which the client relies.
    pub until: At,
    /// The largest delay of a renewal after its planned time.
    pub late: Duration,
    /// The longest time that a renewal request, sent after `renewed`, was without a response.
    pub unanswered: Duration,
    /// The times of the acknowledged release.
    pub released: Option<(At, At)>,
}

/// The complete record.
#[derive(Debug, Default)]
pub struct Book {
    pub asked: Vec<Asked>,
    pub held: Vec<Held>,
    pub counted: Vec<Counted>,
    pub writes: Vec<Write>,
    /// The largest token of the writes for each lock.
    newest: BTreeMap<usize, u64>,
    /// The times of all responses to requests that went through the log.
    pub acknowledged: Vec<At>,
    /// The times and lengths of the stalls of this process.
    pub stalls: Vec<(At, Duration)>,
    /// The number of responses by code, and the responses that no client may receive.
    pub codes: BTreeMap<String, u64>,
    pub unexpected: Vec<String>,
    pub renewals: u64,
}

impl Book {
    /// Records a write to the resource of a lock.
    pub fn write(&mut self, lock: usize, token: u64, counts_on_it: bool) {
        if !manner(lock).has_resource() {
            return;
        }
        let newest = self.newest.entry(lock).or_insert(0);
        *newest = token.max(*newest);
        self.writes.push(Write {
            lock,
            token,
            counts_on_it,
        });
    }

    /// Returns whether a holder with a larger token has written.
    pub fn has_newer(&self, lock: usize, token: u64) -> bool {
        self.newest.get(&lock).is_some_and(|newest| *newest > token)
    }

    /// The longest time in a period in which no client received a response to a request that went
    /// through the log. The responses are sorted by time.
    pub fn longest_silence(&self, from: At, to: At) -> Duration {
        let first = self.acknowledged.partition_point(|at| *at < from);
        let last = self.acknowledged.partition_point(|at| *at <= to);
        let within = self.acknowledged[first..last].iter().copied();
        let mut before = from;
        let mut longest = Duration::ZERO;
        for at in within.chain([to]) {
            longest = longest.max(at.since(before));
            before = at;
        }
        longest
    }
}
