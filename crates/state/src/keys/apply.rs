//! Applies a [`KeyCommand`] to the table of keys.

use seqd_guards::is_out;

use super::commands::{BeginKey, KeyCommand, KeyOutcome, KeyRefusal};
use super::commands::{MAX_KEY_BYTES_IN_ALL, MAX_KEYS};
use super::record::{KeyClaim, KeyName, KeyRecord, KeySpace};
use crate::cluster::settings::{Counter, draw};
use crate::codec::Bytes;
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::newtypes::ClusterMs;
use crate::table::Table;

/// Returns the cluster's own clock, so that no step of a wall clock ends a key.
fn time_of(context: &ApplyContext<'_>) -> ClusterMs {
    if is_out!(KeyEndsByClusterTime) {
        return ClusterMs(context.wall_ms.0);
    }
    context.cluster_ms
}

impl Table<KeyRecord> {
    pub(crate) fn apply(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        command: &KeyCommand,
    ) -> Result<KeyOutcome, KeyRefusal> {
        command.check()?;
        let now = time_of(context);
        match command {
            KeyCommand::Begin(begin) => self.begin(counter, deadlines, now, begin),
            KeyCommand::Complete {
                name,
                claim,
                result,
            } => self.complete(deadlines, now, (name, *claim), result),
            KeyCommand::Abandon { name, claim } => self.abandon(deadlines, now, name, *claim),
            KeyCommand::Remove { names } => Ok(self.forget(deadlines, names)),
        }
    }

    fn begin(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        now: ClusterMs,
        begin: &BeginKey,
    ) -> Result<KeyOutcome, KeyRefusal> {
        let Some(mut record) = self.live(&begin.name, now).cloned() else {
            // An expired key that has not been dropped yet makes room for its successor.
            if self.get(&begin.name).is_none() && self.len() >= MAX_KEYS {
                return Err(KeyRefusal::TooManyKeys);
            }
            let record = KeyRecord {
                tenant: begin.tenant,
                fingerprint: begin.fingerprint.clone(),
                attempt: 0,
                claim: None,
                claim_until: now,
                nonce: String::new(),
                until: now,
                result: None,
            };
            let bytes = self.holdings().all().bytes + record.cost(&begin.name);
            if bytes > MAX_KEY_BYTES_IN_ALL {
                return Err(KeyRefusal::TooManyBytes);
            }
            return Ok(self.claim(counter, deadlines, now, begin, record));
        };
        if record.fingerprint != begin.fingerprint {
            return Ok(KeyOutcome::Mismatch);
        }
        if record.result.is_some() {
            let attempt = record.attempt;
            return Ok(KeyOutcome::Done { attempt });
        }
        let Some(claim) = record.claim.filter(|_| record.is_claimed(now)) else {
            return Ok(self.claim(counter, deadlines, now, begin, record));
        };
        record.until = record.until.max(now.after(begin.ttl_ms));
        let (attempt, claim_until, until) = (record.attempt, record.claim_until, record.until);
        let is_repeated =
            !begin.nonce.is_empty() && record.nonce == begin.nonce && !is_out!(KeyRetryRecognised);
        self.keep(deadlines, &begin.name, record);
        if is_repeated || is_out!(KeyFirstOnce) {
            return Ok(KeyOutcome::First {
                claim,
                attempt,
                claim_until,
                until,
                now,
            });
        }
        Ok(KeyOutcome::InProgress {
            attempt,
            claim_until,
            now,
        })
    }

    /// Grants the next claim of a key and charges the key to the caller's tenant. The key must not
    /// expire before its claim, or another caller would begin the key again in the meantime.
    fn claim(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        now: ClusterMs,
        begin: &BeginKey,
        mut record: KeyRecord,
    ) -> KeyOutcome {
        let claim = KeyClaim(draw(counter));
        let is_new = record.attempt == 0;
        if is_new || !is_out!(KeyAttemptRises) {
            record.attempt = record.attempt.saturating_add(1);
        }
        record.tenant = begin.tenant;
        record.claim = Some(claim);
        record.claim_until = now.after(begin.claim_ttl_ms);
        record.nonce.clone_from(&begin.nonce);
        let until = now.after(begin.ttl_ms).max(record.claim_until);
        record.until = record.until.max(until);
        let outcome = KeyOutcome::First {
            claim,
            attempt: record.attempt,
            claim_until: record.claim_until,
            until: record.until,
            now,
        };
        self.keep(deadlines, &begin.name, record);
        outcome
    }

    /// Completes a key. An expired claim can still complete the key as long as no other caller has
    /// taken over.
    fn complete(
        &mut self,
        deadlines: &mut Deadlines,
        now: ClusterMs,
        (name, claim): (&KeyName, KeyClaim),
        result: &Bytes,
    ) -> Result<KeyOutcome, KeyRefusal> {
        let mut record = self.claimed(name, claim, now)?.clone();
        match &record.result {
            Some(kept) if kept == result => return Ok(KeyOutcome::Completed),
            Some(_) if !is_out!(KeyResultKept) => return Err(lost(name)),
            _ => {}
        }
        let before = record.cost(name);
        record.result = Some(result.clone());
        let more = record.cost(name).saturating_sub(before);
        if more > 0 && self.holdings().all().bytes + more > MAX_KEY_BYTES_IN_ALL {
            return Err(KeyRefusal::TooManyBytes);
        }
        self.keep(deadlines, name, record);
        Ok(KeyOutcome::Completed)
    }

    /// Ends a claim. A key of a request is removed together with its claim: the request was refused
    /// and had no effect, and the client may send the corrected request with the same key.
    fn abandon(
        &mut self,
        deadlines: &mut Deadlines,
        now: ClusterMs,
        name: &KeyName,
        claim: KeyClaim,
    ) -> Result<KeyOutcome, KeyRefusal> {
        let mut record = self.claimed(name, claim, now)?.clone();
        if record.result.is_some() {
            return Err(lost(name));
        }
        let attempt = record.attempt;
        if name.space != KeySpace::Users {
            deadlines.remove::<KeyRecord>(record.until, name);
            self.remove(name);
            return Ok(KeyOutcome::Abandoned { attempt });
        }
        record.claim = None;
        record.claim_until = now;
        self.keep(deadlines, name, record);
        Ok(KeyOutcome::Abandoned { attempt })
    }

    fn forget(&mut self, deadlines: &mut Deadlines, names: &[KeyName]) -> KeyOutcome {
        let mut count = 0;
        for name in names {
            if let Some(record) = self.remove(name) {
                deadlines.remove::<KeyRecord>(record.until, name);
                count += 1;
            }
        }
        KeyOutcome::Removed { count }
    }

    fn claimed(
        &self,
        name: &KeyName,
        claim: KeyClaim,
        now: ClusterMs,
    ) -> Result<&KeyRecord, KeyRefusal> {
        self.live(name, now)
            .filter(|record| record.claim == Some(claim))
            .ok_or_else(|| lost(name))
    }

    fn keep(&mut self, deadlines: &mut Deadlines, name: &KeyName, record: KeyRecord) {
        if let Some(before) = self.get(name) {
            deadlines.remove::<KeyRecord>(before.until, name);
        }
        deadlines.insert::<KeyRecord>(record.until, name);
        self.put(name.clone(), record);
    }

    /// Returns a key that has not expired, independently of the index of deadlines.
    pub(crate) fn live(&self, name: &KeyName, now: ClusterMs) -> Option<&KeyRecord> {
        self.get(name).filter(|record| !record.is_ended(now))
    }
}

fn lost(name: &KeyName) -> KeyRefusal {
    let name = name.clone();
    KeyRefusal::ClaimLost { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlines::PASSED_PER_ENTRY;
    use crate::domains::{Command, Outcome, Refusal};
    use crate::entry::Entry;
    use crate::keys::record::{KEY_OVERHEAD_BYTES, MAX_ANSWER_BYTES, RESERVED_RESULT_BYTES};
    use crate::state::State;
    use crate::testing::{entry, founded};
    use crate::tokens::commands::OneTimeCommand;
    use crate::{OneTimeId, TokenHash};
    use seqd_idgen::WallMs;

    fn name(key: &str) -> KeyName {
        KeyName {
            space: KeySpace::Requests { access: 0 },
            key: key.to_owned(),
        }
    }

    fn begin(key: &str, nonce: &str) -> Command {
        KeyCommand::Begin(BeginKey {
            tenant: crate::Tenant::OPERATOR,
            name: name(key),
            ttl_ms: 10_000,
            claim_ttl_ms: 1_000,
            fingerprint: String::new(),
            nonce: nonce.to_owned(),
        })
        .into()
    }

    fn complete(key: &str, claim: KeyClaim, result: &Bytes) -> Command {
        KeyCommand::Complete {
            name: name(key),
            claim,
            result: result.clone(),
        }
        .into()
    }

    fn apply(state: &mut State, at: u64, command: Command) -> Outcome {
        state.apply(&entry(at, vec![command]), None).remove(0)
    }

    #[track_caller]
    fn first(outcome: &Outcome) -> (KeyClaim, u64) {
        match outcome {
            Outcome::Keys(KeyOutcome::First { claim, attempt, .. }) => (*claim, *attempt),
            other => panic!("not told to go on: {other:?}"),
        }
    }

    #[test]
    fn one_caller_gets_the_claim_and_a_takeover_gets_the_next_number() {
        let mut state = founded();
        let (claim, attempt) = first(&apply(&mut state, 0, begin("k", "a")));
        assert_eq!(attempt, 1);
        let other = apply(&mut state, 999, begin("k", "b"));
        let told = matches!(other, Outcome::Keys(KeyOutcome::InProgress { .. }));
        assert!(told, "two callers were told to go on: {other:?}");
        assert_eq!(first(&apply(&mut state, 999, begin("k", "a"))), (claim, 1));
        let (later, attempt) = first(&apply(&mut state, 1_001, begin("k", "b")));
        assert!(later > claim);
        assert_eq!(attempt, 2, "an attempt number was given twice");
    }

    #[test]
    fn a_result_never_changes() {
        let mut state = founded();
        let (claim, _) = first(&apply(&mut state, 0, begin("k", "")));
        let [one, other] = [b"one", b"two"].map(|result| Bytes::from(result.to_vec()));
        for _ in 0..2 {
            let completed = apply(&mut state, 1, complete("k", claim, &one));
            assert_eq!(completed, Outcome::Keys(KeyOutcome::Completed));
        }
        apply(&mut state, 1, complete("k", claim, &other));
        let kept = state.key(&name("k")).unwrap().result.clone();
        assert_eq!(kept, Some(one), "a result was changed");
    }

    #[test]
    fn a_key_ends_by_the_cluster_s_time() {
        let mut state = founded();
        let (claim, _) = first(&apply(&mut state, 0, begin("k", "")));
        apply(
            &mut state,
            0,
            complete("k", claim, &Bytes::from(Vec::new())),
        );
        let mut year_later = entry(10_000, vec![begin("k", "")]);
        year_later.stamp.wall_ms = WallMs(31_536_000_000);
        let done = state.apply(&year_later, None).remove(0);
        assert_eq!(
            done,
            Outcome::Keys(KeyOutcome::Done { attempt: 1 }),
            "the wall clock ended a key"
        );
    }

    #[test]
    fn an_expired_key_is_unknown_before_its_row_is_dropped() {
        let mut state = founded();
        let keys: Vec<String> = (0..=PASSED_PER_ENTRY)
            .map(|at| format!("{at:05}"))
            .collect();
        let commands = keys.iter().map(|key| begin(key, "")).collect();
        state.apply(&entry(0, commands), None);
        let last = keys.last().unwrap();
        state.apply(&entry(10_001, Vec::new()), None);
        assert_eq!((state.keys_count(), state.key(&name(last))), (1, None));
        let (_, attempt) = first(&apply(&mut founded_at(&state), 10_001, begin(last, "")));
        assert_eq!(attempt, 1);
    }

    /// The exact numbers matter: replicas that run two versions of the program must drop the same
    /// rows.
    #[test]
    fn an_entry_drops_256_rows_or_as_many_as_it_makes() {
        let mut state = founded();
        let begins = |from: u32, to: u32| {
            let keys = from..to;
            keys.map(|at| begin(&format!("{at:05}"), ""))
                .collect::<Vec<_>>()
        };
        state.apply(&entry(0, begins(0, 1_000)), None);
        state.apply(&entry(10_001, Vec::new()), None);
        assert_eq!(state.keys_count(), 1_000 - 256);
        state.apply(&entry(10_001, begins(1_000, 1_300)), None);
        assert_eq!(state.keys_count(), 1_000 - 256);
        let tokens = vec![(OneTimeId(1), TokenHash([0; 32])); 400];
        let issue = Command::OneTime(OneTimeCommand::Issue {
            tenant: crate::Tenant::OPERATOR,
            tokens,
            ttl_ms: 1_000,
        });
        state.apply(&entry(10_001, vec![issue]), None);
        assert_eq!(state.keys_count(), 1_000 - 256 - 400);
    }

    /// Returns the same state, loaded from its rows.
    fn founded_at(state: &State) -> State {
        State::from_rows(state.rows()).unwrap()
    }

    #[test]
    fn the_keys_and_their_results_are_bounded() {
        let mut state = founded();
        let result = Bytes::from(vec![b'r'; MAX_ANSWER_BYTES]);
        let each = (MAX_ANSWER_BYTES + KEY_OVERHEAD_BYTES + 2 * 5) as u64;
        for at in 0..MAX_KEY_BYTES_IN_ALL / each {
            let key = format!("{at:05}");
            let (claim, _) = first(&apply(&mut state, 0, begin(&key, "")));
            let completed = apply(&mut state, 0, complete(&key, claim, &result));
            assert_eq!(completed, Outcome::Keys(KeyOutcome::Completed));
        }
        let (claim, _) = first(&apply(&mut state, 0, begin("large", "")));
        let refused = Outcome::Refused(Refusal::Keys(KeyRefusal::TooManyBytes));
        assert_eq!(
            apply(&mut state, 0, complete("large", claim, &result)),
            refused
        );
        // The space reserved for the key is available.
        let small = Bytes::from(vec![b'r'; RESERVED_RESULT_BYTES]);
        let completed = apply(&mut state, 0, complete("large", claim, &small));
        assert_eq!(completed, Outcome::Keys(KeyOutcome::Completed));
        let before = state.key_bytes();
        assert!(before <= MAX_KEY_BYTES_IN_ALL);
        // Expired keys make room.
        let end = Entry {
            stamp: entry(10_001, Vec::new()).stamp,
            commands: Vec::new(),
        };
        state.apply(&end, None);
        assert_eq!(state.key_bytes(), before - PASSED_PER_ENTRY as u64 * each);
    }
}
