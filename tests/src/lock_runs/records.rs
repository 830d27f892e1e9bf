//! The record of a run on one clock: the clients' actions and the responses to them, and the writes
//! to the resource of each lock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::asker::Tally;
use crate::checkers::locks::{Asked, Counted, Write};
use crate::history::At;

pub const LOCKS: usize = 10;

/// The lock with three permits.
const PERMITS: usize = 8;

/// The lock that some clients share.
const SHARED: usize = 9;

/// The lock with a delay after an expired hold.
const DELAYED: usize = 7;

/// The durations of holds: short, so that stopped nodes and pauses outlast them.
pub const TTL_MS: (u64, u64) = (1_000, 3_000);

/// The delay of the lock that has one.
pub const DELAY_MS: u64 = 500;

/// The parameters of requests for a lock.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub permits: u32,
    /// True if some clients share the lock.
    pub may_share: bool,
    pub delay_ms: u64,
    /// True if most holds are undisturbed, and therefore short.
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
    /// Returns whether there is one writer at a time, so that the lock's resource can check its
    /// token.
    pub fn has_resource(self) -> bool {
        self.permits == 1 && !self.may_share
    }
}

pub fn name(lock: usize) -> String {
    format!("soak/{lock}")
}

/// The end of a hold for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The run ended first.
    Open,
    Released,
    /// The client slept past the end of the hold, and continued.
    Paused,
    /// The client died without a release.
    Died,
    /// The client received the response that the hold is lost, although it renewed.
    Lost,
    /// The client renewed for a long time, and received no response.
    Unanswered,
}

/// A hold from the view of its client.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub lock: usize,
    pub token: u64,
    pub ttl_ms: u64,
    /// The times of the claim's first request and of the response.
    pub call: At,
    pub back: At,
    pub waited: bool,
    pub fate: Fate,
    /// The time at which the client was done with the hold.
    pub over: At,
    /// The time of the last request that extended the hold.
    pub renewed: At,
    /// The end of the hold by the response to that request.
    pub until: At,
    /// The largest delay of a renewal.
    pub late: Duration,
    /// The longest time for which a renewal that was sent after `renewed` had no response.
    pub unanswered: Duration,
    /// The times of the acknowledged release.
    pub released: Option<(At, At)>,
}

/// All records of a run.
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
    /// The times at which this process was held up, and for how long.
    pub stalls: Vec<(At, Duration)>,
    pub tally: Tally,
    pub renewals: u64,
}

impl Book {
    /// Writes to the resource of a lock.
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

    /// The longest time between `from` and `to` in which no client received a response to a request
    /// that went through the log. The responses are in order.
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
