//! What the clients of a run do and are answered, written down on one clock; and the writes to what
//! each lock is for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::asker::Tally;
use crate::checkers::locks::{Asked, Counted, Write};
use crate::history::At;

/// How many locks there are.
pub const LOCKS: usize = 10;

/// Held by three at once.
const PERMITS: usize = 8;

/// Shared by some of its clients.
const SHARED: usize = 9;

/// Delayed behind a hold that ran out.
const DELAYED: usize = 7;

/// The lives of holds: short, so that stopped nodes and pauses outlast them.
pub const TTL_MS: (u64, u64) = (1_000, 3_000);

/// The delay of the lock that has one.
pub const DELAY_MS: u64 = 500;

/// How a lock is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub permits: u32,
    /// Whether some share it.
    pub may_share: bool,
    pub delay_ms: u64,
    /// Whether most holds are undisturbed, and so short.
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
    /// Whether there is one writer at a time, so that what the lock is for can check its token.
    pub fn has_resource(self) -> bool {
        self.permits == 1 && !self.may_share
    }
}

pub fn name(lock: usize) -> String {
    format!("soak/{lock}")
}

/// How a client is done with a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The run ended first.
    Open,
    Released,
    /// It slept past its end, and went on.
    Paused,
    /// It is gone without a release.
    Died,
    /// It was answered that the hold is lost, although it renewed.
    Lost,
    /// It renewed for long, and nobody answered.
    Unanswered,
}

/// A hold as its client knows it.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub lock: usize,
    pub token: u64,
    pub ttl_ms: u64,
    /// Of the first request of the claim, and of the answer.
    pub call: At,
    pub back: At,
    pub waited: bool,
    pub fate: Fate,
    /// When its client was done.
    pub over: At,
    /// When the last request was sent that prolonged it.
    pub renewed: At,
    /// Of its answer, the end that it counts on.
    pub until: At,
    /// How much later than planned a renewal was sent, at most.
    pub late: Duration,
    /// The longest time that a request to renew, sent after `renewed`, was not answered.
    pub unanswered: Duration,
    /// Of the release that was acknowledged.
    pub released: Option<(At, At)>,
}

/// Everything that was written down.
#[derive(Debug, Default)]
pub struct Book {
    pub asked: Vec<Asked>,
    pub held: Vec<Held>,
    pub counted: Vec<Counted>,
    pub writes: Vec<Write>,
    /// The largest token of the writes for each lock.
    newest: BTreeMap<usize, u64>,
    /// When any request was answered that went through the log.
    pub acknowledged: Vec<At>,
    /// When this process itself was held up, and for how long.
    pub stalls: Vec<(At, Duration)>,
    pub tally: Tally,
    pub renewals: u64,
}

impl Book {
    /// Writes to what a lock is for.
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

    /// Whether a holder with a larger token has written.
    pub fn has_newer(&self, lock: usize, token: u64) -> bool {
        self.newest.get(&lock).is_some_and(|newest| *newest > token)
    }

    /// The longest time in a stretch in which no request of anybody was answered that went through
    /// the log. The answers are in order.
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
