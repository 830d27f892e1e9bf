//! Idempotency keys, over all responses to all callers: a key has one current claim at a time,
//! claims and attempts increase, and a result never changes while its key lives.
//!
//! All events of a key are compared with each other, since a key has only some tens of them.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::At;

/// A response about a key, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    pub key: u64,
    /// The nonce of the request: its caller, and the index among the caller's nonces.
    pub nonce: (u8, u32),
    pub call: At,
    pub back: At,
    pub told: KeyTold,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTold {
    First {
        claim: u64,
        attempt: u64,
    },
    InProgress,
    Done {
        attempt: u64,
        result: KeyResult,
        expires_in_ms: u64,
    },
    /// The caller's own result is stored.
    Completed(KeyResult),
    /// The caller's claim is not the current claim of the key.
    Lost,
}

/// The results of a run contain the claim to which they belong, and a number that distinguishes
/// several results of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyResult {
    pub claim: u64,
    pub variant: u64,
}

/// The counts for the figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyCounts {
    pub keys: usize,
    pub grants: usize,
    /// Grants with an attempt above 1.
    pub takeovers: usize,
    /// Lives of keys after the first one: attempt 1 after an expiry.
    pub anew: usize,
    /// `first` responses that were repeated for the same nonce.
    pub repeated: usize,
}

/// Checks all events. A key for which `may_end` is true may expire and begin again during the run.
pub fn check(events: &[KeyEvent], may_end: impl Fn(u64) -> bool) -> Result<KeyCounts, Violation> {
    let mut by_key: BTreeMap<u64, Vec<&KeyEvent>> = BTreeMap::new();
    for event in events {
        by_key.entry(event.key).or_default().push(event);
    }
    let mut counts = KeyCounts::default();
    let mut claims = BTreeMap::new();
    for (key, events) in by_key {
        let grants = grants(&events, &mut counts)?;
        for claim in grants.keys() {
            if let Some(other) = claims.insert(*claim, key) {
                let detail = format!("claim {claim} is of the keys {other} and {key}");
                return Err(Violation::new("claims are given once", detail));
            }
        }
        counts.keys += 1;
        counts.grants += grants.len();
        let begun = grants.values().filter(|grant| grant.attempt == 1).count();
        counts.anew += begun.saturating_sub(1);
        counts.takeovers += grants.values().filter(|grant| grant.attempt > 1).count();
        claims_rise(&events)?;
        results_are_of_grants(&events, &grants)?;
        results_stay(&events, may_end(key))?;
        if !may_end(key) {
            one_life(key, &events, &grants)?;
        }
    }
    Ok(counts)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grant {
    attempt: u64,
    nonce: (u8, u32),
}

/// The claims of a key. Each was granted to one nonce with one attempt.
fn grants(events: &[&KeyEvent], counts: &mut KeyCounts) -> Result<BTreeMap<u64, Grant>, Violation> {
    let mut grants = BTreeMap::new();
    for event in events {
        let KeyTold::First { claim, attempt } = event.told else {
            continue;
        };
        let grant = Grant {
            attempt,
            nonce: event.nonce,
        };
        match grants.insert(claim, grant) {
            Some(other) if other != grant => {
                let detail = format!("{event:?}, and before: {other:?}");
                return Err(Violation::new("first is told once", detail));
            }
            Some(_) => counts.repeated += 1,
            None => {}
        }
    }
    Ok(grants)
}

/// A later claim is never below an earlier one.
fn claims_rise(events: &[&KeyEvent]) -> Result<(), Violation> {
    for (earlier, later) in in_order(events) {
        let (KeyTold::First { claim, .. }, KeyTold::First { claim: next, .. }) =
            (&earlier.told, &later.told)
        else {
            continue;
        };
        if next < claim {
            let detail = format!("{later:?} after {earlier:?}");
            return Err(Violation::new("claims rise", detail));
        }
    }
    Ok(())
}

/// Pairs of events in which the first response arrived before the second call.
fn in_order<'a>(events: &'a [&KeyEvent]) -> impl Iterator<Item = (&'a KeyEvent, &'a KeyEvent)> {
    events.iter().flat_map(move |earlier| {
        let later = events.iter().filter(move |it| earlier.back < it.call);
        later.map(move |later| (*earlier, *later))
    })
}

fn results_are_of_grants(
    events: &[&KeyEvent],
    grants: &BTreeMap<u64, Grant>,
) -> Result<(), Violation> {
    for event in events {
        let KeyTold::Done {
            attempt, result, ..
        } = &event.told
        else {
            continue;
        };
        let of = grants.get(&result.claim).map(|grant| grant.attempt);
        if of != Some(*attempt) {
            let detail = format!("{event:?}, and the claim's attempt is {of:?}");
            return Err(Violation::new(
                "a result is of a claim that was told",
                detail,
            ));
        }
    }
    Ok(())
}

fn result_of(event: &KeyEvent) -> Option<KeyResult> {
    match &event.told {
        KeyTold::Done { result, .. } | KeyTold::Completed(result) => Some(*result),
        _ => None,
    }
}

/// After a key is known to be completed, no response contradicts this before the key expires.
fn results_stay(events: &[&KeyEvent], may_end: bool) -> Result<(), Violation> {
    for (earlier, later) in in_order(events) {
        let Some(result) = result_of(earlier) else {
            continue;
        };
        let lives = match earlier.told {
            KeyTold::Done { expires_in_ms, .. } => lives_at(earlier, expires_in_ms, later.back),
            _ => !may_end,
        };
        if !lives {
            continue;
        }
        let invariant = match (&later.told, result_of(later)) {
            (KeyTold::First { .. }, _) => "nobody is first after done",
            (KeyTold::InProgress, _) => "done is not in progress",
            (_, Some(other)) if other != result => "a result never changes",
            _ => continue,
        };
        let detail = format!("{later:?} after {earlier:?}");
        return Err(Violation::new(invariant, detail));
    }
    Ok(())
}

/// Returns whether a key that was completed at `event` is certainly alive at `at`. The cluster's
/// clock may run one percent faster than this one.
fn lives_at(event: &KeyEvent, expires_in_ms: u64, at: At) -> bool {
    let ms = expires_in_ms.saturating_mul(99) / 100;
    at.0 < event.call.0.saturating_add(ms.saturating_mul(1_000_000))
}

/// A key that does not expire: attempts increase with the claims, and there is exactly one result,
/// which belongs to the last claim.
fn one_life(
    key: u64,
    events: &[&KeyEvent],
    grants: &BTreeMap<u64, Grant>,
) -> Result<(), Violation> {
    for (one, next) in grants.iter().zip(grants.iter().skip(1)) {
        if next.1.attempt <= one.1.attempt {
            let detail = format!("key {key}: {next:?} after {one:?}");
            return Err(Violation::new("attempts rise", detail));
        }
    }
    let mut results = events.iter().filter_map(|event| result_of(event));
    let Some(result) = results.next() else {
        return Err(Violation::new("every key is done", format!("key {key}")));
    };
    if let Some(other) = results.find(|other| *other != result) {
        let detail = format!("key {key}: {other:?} and {result:?}");
        return Err(Violation::new("a result never changes", detail));
    }
    match grants.last_key_value() {
        Some((last, grant)) if *last > result.claim => {
            let detail = format!("key {key}: {grant:?} beyond {result:?}");
            Err(Violation::new("nobody is first after done", detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 3_600_000;

    fn event(caller: u8, call: u64, back: u64, told: KeyTold) -> KeyEvent {
        KeyEvent {
            key: 7,
            nonce: (caller, 0),
            call: At(call * 1_000_000),
            back: At(back * 1_000_000),
            told,
        }
    }

    fn first(claim: u64, attempt: u64) -> KeyTold {
        KeyTold::First { claim, attempt }
    }

    fn result(claim: u64, variant: u64) -> KeyResult {
        KeyResult { claim, variant }
    }

    fn done(claim: u64, attempt: u64, expires_in_ms: u64) -> KeyTold {
        KeyTold::Done {
            attempt,
            result: result(claim, 0),
            expires_in_ms,
        }
    }

    /// A key that was taken over once and is completed with the second claim.
    fn sound() -> Vec<KeyEvent> {
        vec![
            event(0, 0, 1, first(5, 1)),
            event(1, 0, 2, KeyTold::InProgress),
            event(0, 3, 4, first(5, 1)),
            event(1, 10, 11, first(9, 2)),
            event(0, 12, 13, KeyTold::Lost),
            event(1, 14, 20, KeyTold::Completed(result(9, 0))),
            event(2, 15, 16, done(9, 2, LONG)),
            event(0, 30, 31, done(9, 2, LONG)),
        ]
    }

    #[track_caller]
    fn found(more: KeyEvent, invariant: &str) {
        let mut events = sound();
        events.push(more);
        let violation = check(&events, |_| false).unwrap_err();
        assert_eq!(violation.invariant, invariant, "{violation}");
    }

    #[test]
    fn a_sound_history_passes_and_is_counted() {
        let counts = KeyCounts {
            keys: 1,
            grants: 2,
            takeovers: 1,
            anew: 0,
            repeated: 1,
        };
        assert_eq!(check(&sound(), |_| false), Ok(counts));
        assert_eq!(check(&sound(), |_| true), Ok(counts));
    }

    #[test]
    fn a_claim_granted_to_two_callers_is_found() {
        found(event(2, 5, 6, first(5, 1)), "first is told once");
        found(event(2, 5, 6, first(6, 1)), "attempts rise");
        found(event(2, 10, 11, first(8, 2)), "attempts rise");
        let mut other = sound();
        other.push(KeyEvent {
            key: 8,
            ..event(3, 0, 1, first(5, 1))
        });
        let violation = check(&other, |_| true).unwrap_err();
        assert_eq!(violation.invariant, "claims are given once");
    }

    #[test]
    fn a_claim_confirmed_after_its_takeover_is_found() {
        found(event(0, 12, 13, first(5, 1)), "claims rise");
    }

    #[test]
    fn a_first_claim_after_the_result_is_found() {
        found(event(3, 32, 33, first(11, 3)), "nobody is first after done");
        // This is found even if the request is concurrent with all events that show the completion.
        found(event(3, 13, 40, first(11, 3)), "nobody is first after done");
        found(
            event(3, 32, 33, KeyTold::InProgress),
            "done is not in progress",
        );
    }

    #[test]
    fn a_result_that_changes_is_found() {
        let other = KeyTold::Completed(result(9, 1));
        found(event(1, 32, 33, other.clone()), "a result never changes");
        found(event(1, 14, 40, other), "a result never changes");
        let foreign = "a result is of a claim that was told";
        found(event(3, 32, 33, done(5, 2, LONG)), foreign);
        found(event(3, 32, 33, done(10, 3, LONG)), foreign);
    }

    #[test]
    fn a_key_that_is_never_done_is_found() {
        let events = &sound()[..5];
        let violation = check(events, |_| false).unwrap_err();
        assert_eq!(violation.invariant, "every key is done");
    }

    #[test]
    fn a_key_may_begin_again_after_its_end_and_not_before() {
        let ends = |begins: u64| {
            let mut events = sound();
            events.retain(|event| !matches!(event.told, KeyTold::Done { .. }));
            events.push(event(2, 21, 22, done(9, 2, 1000)));
            events.push(event(3, begins, begins + 1, first(11, 1)));
            check(&events, |_| true).map(|counts| counts.anew)
        };
        assert_eq!(ends(1022), Ok(1));
        let early = ends(500).unwrap_err();
        assert_eq!(early.invariant, "nobody is first after done");
    }
}
