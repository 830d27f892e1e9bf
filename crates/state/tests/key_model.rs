//! A key has one claim holder at a time, its result never changes, and a one-time token is consumed
//! once, regardless of clocks, retries and restarts.
//!
//! The test implements the rules independently, over plain lists from which nothing is ever
//! removed. The wall clock steps in both directions; only the cluster's time must matter.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use seqd_state::{
    BeginKey, ClusterMs, Command, KeyClaim, KeyCommand, KeyName, KeyOutcome, KeyRefusal, KeySpace,
    OneTimeId, OneTimeOutcome, Outcome, Refusal, Stamp, State,
};
use support::commands::{abandon, apply_one, complete, consume, issue, remove_keys, remove_tokens};
use support::{founded, stamp};

#[derive(Debug, Clone)]
enum Step {
    Begin(BeginKey),
    /// Completes a key with any claim that was ever granted, of any key.
    Complete {
        key: KeyName,
        which: Index,
        result: String,
    },
    Abandon {
        key: KeyName,
        which: Index,
    },
    Issue {
        id: u64,
        ttl_ms: u64,
    },
    Consume {
        id: u64,
        secret: u64,
        nonce: String,
    },
    Remove {
        keys: Vec<KeyName>,
        ids: Vec<u64>,
    },
    Restart,
}

fn keys() -> impl Strategy<Value = KeyName> {
    let space = prop_oneof![
        4 => Just(KeySpace::Users),
        1 => (0u64..2).prop_map(|access| KeySpace::Requests { access }),
    ];
    (space, "[kl]").prop_map(|(space, key)| KeyName { space, key })
}

fn begins() -> impl Strategy<Value = BeginKey> {
    let fingerprint = prop_oneof![6 => Just("f"), 1 => Just("g")];
    let begin = (
        keys(),
        1_000u64..20_000,
        100u64..9_000,
        fingerprint,
        "[abc]?",
    );
    begin.prop_map(
        |(name, ttl_ms, claim_ttl_ms, fingerprint, nonce)| BeginKey {
            tenant: seqd_state::Tenant::OPERATOR,
            name,
            ttl_ms,
            claim_ttl_ms,
            fingerprint: fingerprint.to_owned(),
            nonce,
        },
    )
}

/// Steps, each with its wall clock and the cluster time that passes before it.
fn steps() -> impl Strategy<Value = Vec<(u64, u64, Step)>> {
    let step = prop_oneof![
        8 => begins().prop_map(Step::Begin),
        5 => (keys(), any::<Index>(), "[rs]")
            .prop_map(|(key, which, result)| Step::Complete { key, which, result }),
        2 => (keys(), any::<Index>()).prop_map(|(key, which)| Step::Abandon { key, which }),
        2 => (0u64..6, 1_000u64..20_000).prop_map(|(id, ttl_ms)| Step::Issue { id, ttl_ms }),
        4 => (0u64..6, prop_oneof![5 => Just(None), 1 => (0u64..6).prop_map(Some)], "[ab]?")
            .prop_map(|(id, secret, nonce)| {
                let secret = secret.unwrap_or(id);
                Step::Consume { id, secret, nonce }
            }),
        1 => (vec(keys(), 0..3), vec(0u64..6, 0..3))
            .prop_map(|(keys, ids)| Step::Remove { keys, ids }),
        1 => Just(Step::Restart),
    ];
    vec((0u64..90_000_000, 0u64..2_500, step), 1..150)
}

/// One lifetime of a key, from the first begin to its end.
#[derive(Debug, Clone)]
struct Life {
    fingerprint: String,
    /// Each claim with its end and its nonce, in order.
    claims: Vec<(KeyClaim, u64, String)>,
    abandoned: bool,
    until: u64,
    result: Option<String>,
}

impl Life {
    fn claim(&self) -> Option<KeyClaim> {
        let latest = self.claims.last().map(|(claim, ..)| *claim);
        latest.filter(|_| !self.abandoned)
    }

    fn attempt(&self) -> u64 {
        self.claims.len() as u64
    }
}

#[derive(Debug)]
struct World {
    state: State,
    now: u64,
    wall: u64,
    lives: BTreeMap<KeyName, Vec<Life>>,
    claims: Vec<KeyClaim>,
    tokens: BTreeMap<u64, (u64, Option<String>)>,
}

impl World {
    fn apply(&mut self, command: Command) -> Outcome {
        let stamp: Stamp = stamp(self.wall, self.now);
        apply_one(&mut self.state, stamp, command)
    }

    fn live(&mut self, key: &KeyName) -> Option<&mut Life> {
        let now = self.now;
        let latest = self.lives.get_mut(key)?.last_mut()?;
        (now < latest.until).then_some(latest)
    }

    fn begin(&mut self, begin: BeginKey) {
        let command = KeyCommand::Begin(begin.clone()).into();
        let Outcome::Keys(outcome) = self.apply(command) else {
            panic!("a begin was refused");
        };
        let now = self.now;
        let Some(life) = self.live(&begin.name) else {
            let life = Life {
                fingerprint: begin.fingerprint.clone(),
                claims: Vec::new(),
                abandoned: false,
                until: 0,
                result: None,
            };
            self.lives.entry(begin.name.clone()).or_default().push(life);
            return self.claimed(&begin, outcome);
        };
        let attempt = life.attempt();
        if life.fingerprint != begin.fingerprint {
            assert_eq!(outcome, KeyOutcome::Mismatch);
        } else if life.result.is_some() {
            assert_eq!(outcome, KeyOutcome::Done { attempt });
        } else if let Some((claim, until, nonce)) = life.claims.last().cloned()
            && !life.abandoned
            && now < until
        {
            life.until = life.until.max(now + begin.ttl_ms + 1);
            let claim_until = ClusterMs(until);
            let is_retry = !nonce.is_empty() && nonce == begin.nonce;
            let expected = if is_retry {
                KeyOutcome::First {
                    claim,
                    attempt,
                    claim_until,
                    until: ClusterMs(life.until),
                    now: ClusterMs(now),
                }
            } else {
                KeyOutcome::InProgress {
                    attempt,
                    claim_until,
                    now: ClusterMs(now),
                }
            };
            let broken = if is_retry {
                "a retry was not recognised"
            } else {
                "two callers were told to go on"
            };
            assert_eq!(outcome, expected, "{broken}");
        } else {
            self.claimed(&begin, outcome);
        }
    }

    /// Checks a new claim: it is above all claims of any key and has the next attempt number.
    fn claimed(&mut self, begin: &BeginKey, outcome: KeyOutcome) {
        let KeyOutcome::First { claim, attempt, .. } = outcome else {
            panic!("the first caller was told {outcome:?}");
        };
        assert!(self.claims.iter().all(|earlier| *earlier < claim));
        self.claims.push(claim);
        let now = self.now;
        let life = self.lives.get_mut(&begin.name).unwrap().last_mut().unwrap();
        let claim_until = now + begin.claim_ttl_ms + 1;
        life.claims.push((claim, claim_until, begin.nonce.clone()));
        life.abandoned = false;
        life.until = life.until.max(claim_until).max(now + begin.ttl_ms + 1);
        assert_eq!(attempt, life.attempt(), "an attempt number was given twice");
        let expected = KeyOutcome::First {
            claim,
            attempt,
            claim_until: ClusterMs(claim_until),
            until: ClusterMs(life.until),
            now: ClusterMs(now),
        };
        assert_eq!(outcome, expected);
    }

    fn any_claim(&self, which: Index) -> KeyClaim {
        match self.claims.as_slice() {
            [] => KeyClaim(9),
            claims => *which.get(claims),
        }
    }

    fn complete(&mut self, key: &KeyName, claim: KeyClaim, result: &str) {
        let outcome = self.apply(complete(key.clone(), claim, result));
        let life = self.live(key).filter(|life| life.claim() == Some(claim));
        let taken = match life {
            Some(life) if life.result.is_none() => {
                life.result = Some(result.to_owned());
                true
            }
            Some(life) => life.result.as_deref() == Some(result),
            None => false,
        };
        if taken {
            assert_eq!(outcome, Outcome::Keys(KeyOutcome::Completed));
        } else {
            assert_lost(outcome, key);
        }
    }

    fn abandon(&mut self, key: &KeyName, claim: KeyClaim) {
        let outcome = self.apply(abandon(key.clone(), claim));
        let now = self.now;
        let life = self.live(key);
        let life = life.filter(|life| life.claim() == Some(claim) && life.result.is_none());
        let Some(life) = life else {
            return assert_lost(outcome, key);
        };
        life.abandoned = true;
        if key.space != KeySpace::Users {
            life.until = now;
        }
        let attempt = life.attempt();
        assert_eq!(outcome, Outcome::Keys(KeyOutcome::Abandoned { attempt }));
    }

    fn issue(&mut self, id: u64, ttl_ms: u64) {
        // The row of an expired token may still exist. The entry before the issue drops it.
        self.apply_time();
        let outcome = self.apply(issue([id], ttl_ms));
        let until = self.now + ttl_ms + 1;
        if self.tokens.get(&id).is_some_and(|(end, _)| self.now < *end) {
            assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
            return;
        }
        let issued = OneTimeOutcome::Issued {
            until: ClusterMs(until),
        };
        assert_eq!(outcome, Outcome::OneTime(issued));
        self.tokens.insert(id, (until, None));
    }

    fn consume(&mut self, id: u64, secret: u64, nonce: &str) {
        let outcome = self.apply(consume(id, secret, nonce));
        let now = self.now;
        let token = self.tokens.get_mut(&id);
        let token = token.filter(|(until, _)| now < *until && id == secret);
        let expected = match token {
            None => OneTimeOutcome::Unknown,
            Some((_, used @ None)) => {
                *used = Some(nonce.to_owned());
                OneTimeOutcome::First
            }
            Some((_, Some(by))) if !by.is_empty() && by == nonce => OneTimeOutcome::First,
            Some(_) => OneTimeOutcome::Used,
        };
        let consumed = Outcome::OneTime(expected);
        assert_eq!(outcome, consumed, "a token was consumed twice, or not");
    }

    fn remove(&mut self, keys: &[KeyName], ids: &[u64]) {
        self.apply_time();
        let now = self.now;
        if !keys.is_empty() {
            let outcome = self.apply(remove_keys(keys));
            let named: BTreeSet<_> = keys.iter().collect();
            let there = named.into_iter().filter(|key| {
                let life = self.live(key);
                life.map(|life| life.until = now).is_some()
            });
            let count = there.count() as u64;
            assert_eq!(outcome, Outcome::Keys(KeyOutcome::Removed { count }));
        }
        if !ids.is_empty() {
            let outcome = self.apply(remove_tokens(ids.iter().copied()));
            let tokens = self.tokens.iter_mut();
            let there = tokens.filter(|(id, (until, _))| ids.contains(id) && now < *until);
            let count = there.map(|(_, (until, _))| *until = now).count() as u64;
            assert_eq!(outcome, Outcome::OneTime(OneTimeOutcome::Removed { count }));
        }
    }

    fn apply_time(&mut self) {
        let entry = seqd_state::Entry {
            stamp: stamp(self.wall, self.now),
            commands: Vec::new(),
        };
        self.state.apply(&entry, None);
    }

    fn assert_reads_agree(&mut self) {
        self.apply_time();
        let mut bytes = 0;
        for (key, lives) in &self.lives {
            let kept = self.state.key(key);
            let life = lives.last().filter(|life| self.now < life.until);
            assert_eq!(kept.is_some(), life.is_some(), "{key}");
            let (Some(kept), Some(life)) = (kept, life) else {
                continue;
            };
            let result = kept.result.as_ref().map(|result| result.0.to_vec());
            assert_eq!(
                result,
                life.result.clone().map(String::into_bytes),
                "the result changed"
            );
            assert_eq!(
                (kept.attempt, kept.until.0, kept.claim),
                (life.attempt(), life.until, life.claim())
            );
            let texts = 2 * key.key.len() + kept.fingerprint.len() + kept.nonce.len();
            bytes += (384 + texts + result.map_or(256, |result| result.len())) as u64;
        }
        assert_eq!(self.state.key_bytes(), bytes, "the running sum");
        for (id, (until, used)) in &self.tokens {
            let kept = self.state.one_time(OneTimeId(*id));
            assert_eq!(kept.is_some(), self.now < *until);
            let by = kept.and_then(|kept| kept.used.as_ref());
            assert!(kept.is_none() || by.is_some() == used.is_some());
        }
    }
}

#[track_caller]
fn assert_lost(outcome: Outcome, name: &KeyName) {
    let name = name.clone();
    let lost = Refusal::Keys(KeyRefusal::ClaimLost { name });
    assert_eq!(outcome, Outcome::Refused(lost));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_caller_at_a_time_has_a_claim_results_stay_and_tokens_are_consumed_once(steps in steps()) {
        let mut world = World {
            state: founded(),
            now: 0,
            wall: 0,
            lives: BTreeMap::new(),
            claims: Vec::new(),
            tokens: BTreeMap::new(),
        };
        for (wall, passes, step) in steps {
            world.wall = wall;
            world.now += passes;
            match step {
                Step::Begin(begin) => world.begin(begin),
                Step::Complete { key, which, result } => {
                    let claim = world.any_claim(which);
                    world.complete(&key, claim, &result);
                }
                Step::Abandon { key, which } => {
                    let claim = world.any_claim(which);
                    world.abandon(&key, claim);
                }
                Step::Issue { id, ttl_ms } => world.issue(id, ttl_ms),
                Step::Consume { id, secret, nonce } => world.consume(id, secret, &nonce),
                Step::Remove { keys, ids } => world.remove(&keys, &ids),
                Step::Restart => {
                    let rows: Vec<_> = world.state.rows().collect();
                    world.state = State::from_rows(rows).unwrap();
                }
            }
            world.assert_reads_agree();
        }
    }
}
