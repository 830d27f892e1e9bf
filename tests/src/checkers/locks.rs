//! Locks: the holds in the log of a replica (holder, cluster time, token and end), the responses to
//! each client, and the times in which a client counted itself as the holder.
//!
//! [`Hold`]s come from the log, [`Counted`] from the clients. `apart` checks both by one rule. A
//! lock has only a few spans at a time, so the check is cheap.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::At;

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldEnd {
    /// The hold had not ended at the last entry.
    Open,
    Released,
    Withdrawn,
    /// The time of the hold expired.
    RanOut,
    /// The hold disappeared for none of these reasons.
    Unexplained,
}

/// A hold in a replica's log; times are the cluster's, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub lock: usize,
    pub token: u64,
    pub owner: String,
    pub nonce: u128,
    pub permits: u32,
    pub shared: bool,
    pub ttl_ms: u64,
    pub delay_ms: u64,
    pub from_ms: u64,
    /// The end of the hold's time, after its last renewal.
    pub until_ms: u64,
    /// The time at which the hold ended.
    pub end_ms: u64,
    pub end: HoldEnd,
    pub renewals: u64,
    /// True if the end of the hold's time was ever moved to an earlier time.
    pub was_shortened: bool,
}

/// A span of a hold: the time in which a client counts itself as a holder, in nanoseconds of the
/// run's clock, or the time from grant to end, in milliseconds of the cluster's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub lock: usize,
    pub token: u64,
    pub permits: u32,
    pub shared: bool,
    pub from: At,
    pub to: At,
}

/// Checks that holds of a lock overlap only if they share it or it has enough permits. Returns the
/// number of spans.
fn apart(mut spans: Vec<Counted>, invariant: &'static str) -> Result<usize, Violation> {
    spans.sort_by_key(|span| (span.from, span.to));
    let mut open: BTreeMap<usize, Vec<Counted>> = BTreeMap::new();
    for span in &spans {
        let open = open.entry(span.lock).or_default();
        open.retain(|other| other.to > span.from);
        let others = open.iter().filter(|other| other.token != span.token);
        let tokens: std::collections::BTreeSet<u64> = others.clone().map(|one| one.token).collect();
        let fits = if span.shared {
            others.clone().all(|other| other.shared)
        } else {
            tokens.len() < span.permits as usize && !others.clone().any(|other| other.shared)
        };
        if !fits && span.from < span.to {
            let others: Vec<_> = others.collect();
            let detail = format!("{span:?} beside {others:?}");
            return Err(Violation::new(invariant, detail));
        }
        open.push(*span);
    }
    Ok(spans.len())
}

/// Holds by the cluster's own time: exclusive ones never overlap, and permits are never exceeded.
pub fn held_apart(holds: &[Hold]) -> Result<usize, Violation> {
    let span = |hold: &Hold| Counted {
        lock: hold.lock,
        token: hold.token,
        permits: hold.permits,
        shared: hold.shared,
        from: At(hold.from_ms),
        to: At(hold.end_ms),
    };
    apart(
        holds.iter().map(span).collect(),
        "one holder by cluster time",
    )
}

/// Like [`held_apart`], for the times in which clients count themselves as the holder, in real
/// time.
pub fn counted_apart(counted: &[Counted]) -> Result<usize, Violation> {
    apart(counted.to_vec(), "one counts itself as the holder")
}

/// Each grant has a larger token than all before it; the holds are in the order of the log.
pub fn tokens_rise(holds: &[Hold]) -> Result<(), Violation> {
    for pair in holds.windows(2) {
        if pair[1].token <= pair[0].token {
            let detail = format!("{:?} after {:?}", pair[1], pair[0]);
            return Err(Violation::new("tokens rise with every grant", detail));
        }
    }
    Ok(())
}

/// A hold ends by its release, its withdrawal or its time, which is never moved back. After an
/// expired hold the lock is not granted before its delay has ended.
pub fn ends(holds: &[Hold]) -> Result<(), Violation> {
    let mut delayed: BTreeMap<usize, u64> = BTreeMap::new();
    let mut by_lock: BTreeMap<usize, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        by_lock.entry(hold.lock).or_default().push(hold);
        let is_short = hold.until_ms < hold.from_ms + hold.ttl_ms;
        if hold.end == HoldEnd::Unexplained || is_short || hold.was_shortened {
            let detail = format!("{hold:?}");
            return Err(Violation::new("no hold ends early", detail));
        }
    }
    for (lock, holds) in by_lock {
        let mut ended: Vec<&Hold> = holds.clone();
        ended.retain(|hold| hold.end == HoldEnd::RanOut && hold.delay_ms > 0);
        ended.sort_by_key(|hold| hold.end_ms);
        let mut ended = ended.into_iter().peekable();
        for hold in holds {
            while let Some(before) = ended.next_if(|before| before.end_ms <= hold.from_ms) {
                delayed.insert(lock, before.end_ms + before.delay_ms);
            }
            if delayed
                .get(&lock)
                .is_some_and(|until| hold.from_ms < *until)
            {
                let detail = format!("{hold:?}, delayed until {:?}", delayed.get(&lock));
                return Err(Violation::new("nobody is granted a delayed lock", detail));
            }
        }
    }
    Ok(())
}

/// A claim of a client, with all its retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub lock: usize,
    pub owner: String,
    pub nonce: u128,
    pub call: At,
    pub answered: Answered,
}

/// The last response to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Held {
        token: u64,
        back: At,
    },
    /// Others hold the lock.
    Refused {
        back: At,
    },
    /// No response arrived, because the client had died.
    Gone {
        since: At,
    },
}

/// Grants that no client received, since none waited for them any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnansweredGrants {
    pub grants: usize,
    /// The number of these grants that lasted until their end.
    pub ran_out: usize,
    /// The duration of the longest of these grants.
    pub longest_ms: u64,
}

/// A client that received *held* was granted the lock, and its hold is not withdrawn. A client that
/// was refused, or has died, holds it for no longer than its `ttl`.
pub fn answered(asked: &[Asked], holds: &[Hold]) -> Result<UnansweredGrants, Violation> {
    let by_token: BTreeMap<u64, &Hold> = holds.iter().map(|hold| (hold.token, hold)).collect();
    let mut known = BTreeMap::new();
    for one in asked {
        let Answered::Held { token, .. } = one.answered else {
            continue;
        };
        let hold = by_token.get(&token).filter(|hold| {
            hold.lock == one.lock && hold.owner == one.owner && hold.nonce == one.nonce
        });
        if hold.is_none() {
            let detail = format!("{one:?}, and the log has {:?}", by_token.get(&token));
            return Err(Violation::new(
                "who is answered held was granted it",
                detail,
            ));
        }
        if let Some(other) = known.insert(token, one) {
            let detail = format!("{one:?} and {other:?}");
            return Err(Violation::new("a token is answered to one request", detail));
        }
    }
    let mut unanswered = UnansweredGrants::default();
    for hold in holds {
        let is_known = known.contains_key(&hold.token);
        if is_known && hold.end == HoldEnd::Withdrawn {
            let detail = format!("{hold:?}, of {:?}", known.get(&hold.token));
            return Err(Violation::new(
                "who is answered held is not withdrawn",
                detail,
            ));
        }
        if is_known {
            continue;
        }
        let lasted_ms = hold.end_ms - hold.from_ms;
        // The time of an entry is rounded down to milliseconds, so an end is a millisecond later.
        if lasted_ms > hold.ttl_ms + 1 || hold.renewals > 0 {
            let detail = format!("{hold:?}");
            return Err(Violation::new("who is gone holds for its ttl", detail));
        }
        unanswered.grants += 1;
        unanswered.ran_out += usize::from(hold.end == HoldEnd::RanOut);
        unanswered.longest_ms = unanswered.longest_ms.max(lasted_ms);
    }
    Ok(unanswered)
}

/// A write to the resource of a lock, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    pub lock: usize,
    pub token: u64,
    /// True if the writer counts itself as the holder.
    pub counts_on_it: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteCounts {
    pub writes: usize,
    /// Writes with an older token after a newer one.
    pub outdated: usize,
}

/// A client that counts itself as the holder writes with the newest token, so a resource that
/// checks tokens refuses no holder. Returns the number of writes that such a resource refuses, and
/// the number of writes that overwrite a newer write in a resource without a check.
pub fn writes(writes: &[Write]) -> Result<WriteCounts, Violation> {
    let mut newest = BTreeMap::new();
    let mut counts = WriteCounts::default();
    for write in writes {
        counts.writes += 1;
        let newest = newest.entry(write.lock).or_insert(0);
        if write.token < *newest {
            counts.outdated += 1;
            if write.counts_on_it {
                let detail = format!("{write:?} after token {newest}");
                return Err(Violation::new("no holder is refused", detail));
            }
        }
        *newest = (*newest).max(write.token);
    }
    Ok(counts)
}

/// A log entry with bounds of its real time: a request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamped {
    pub ms: u64,
    pub call: At,
    pub back: At,
}

/// Rounding of both clocks to milliseconds.
const ROUNDED_MS: u64 = 3;

/// The cluster's time never runs faster than real time, whatever happens to the clocks: otherwise
/// holds would end early. Returns the number of compared entries.
pub fn never_fast(mut entries: Vec<Stamped>) -> Result<usize, Violation> {
    entries.sort_by_key(|entry| entry.ms);
    let real = |at: At| at.0 as i128 / 1000;
    let cluster = |entry: &Stamped| i128::from(entry.ms) * 1000;
    let mut latest: Option<Stamped> = None;
    // The order of two entries with the same time is unknown: the cluster's time may stop.
    for at_once in entries.chunk_by(|one, other| one.ms == other.ms) {
        for entry in at_once {
            let Some(before) = latest else {
                continue;
            };
            let passed = real(entry.back) - real(before.call);
            let gained = (cluster(entry) - cluster(&before)) - passed;
            if gained > i128::from(ROUNDED_MS) * 1000 {
                let detail = format!("{entry:?} and {before:?}: {gained} us too fast");
                return Err(Violation::new("the cluster's time is never fast", detail));
            }
        }
        let ahead = |one: &Stamped| real(one.call) - cluster(one);
        let all = at_once.iter().copied().chain(latest);
        latest = all.max_by_key(ahead);
    }
    Ok(entries.len())
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
