//! The holds in a replica's log. Its entries are applied again, one command at a time, and the
//! locks are compared after each.
//!
//! The whole entries are also applied to a second state, as a node does. That state must have the
//! digest that the node showed, and the same holders after each entry.

use std::fmt;
use std::path::Path;

use seqd_disk::OsDisk;
use seqd_state::{Command, Entry, LockCommand, LockOutcome, LogPosition, Outcome, State};
use seqd_store::records::{self, EntryPayload};

use crate::checkers::Violation;
use crate::checkers::locks::{Hold, HoldEnd};

/// The contents of the log for these locks.
#[derive(Debug)]
pub struct Replayed {
    /// In the order of their grants.
    pub holds: Vec<Hold>,
    /// For each lock, the claims that began to wait, in order.
    pub arrivals: Vec<Vec<u128>>,
    entries: u64,
    /// The number of terms with an entry.
    terms: usize,
    /// The largest steps, forward and back, between the wall clocks of two consecutive entries.
    wall_steps_ms: (u64, u64),
    pub digest: String,
}

impl fmt::Display for Replayed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entries, terms, (forth, back)) = (self.entries, self.terms, self.wall_steps_ms);
        write!(
            out,
            "{entries} entries of {terms} terms, their times up to {forth} ms forth, {back} back"
        )
    }
}

struct Watch<'a> {
    names: &'a [String],
    holds: Vec<Hold>,
    /// For each lock, the indices of the holds that have not ended.
    open: Vec<Vec<usize>>,
    arrivals: Vec<Vec<u128>>,
}

/// Applies the log in a stopped node's folder up to this entry.
///
/// # Errors
/// The log is incomplete, or applying commands one by one gives another state than applying whole
/// entries.
pub fn replay(data: &Path, applied: u64, names: &[String]) -> Result<Replayed, Violation> {
    let log = seqd_wal::inspect(&OsDisk, &data.join("wal"));
    let log = log.map_err(|error| unreadable(error.to_string()))?;
    let (mut whole, mut parts) = (State::new(), State::new());
    let mut watch = Watch {
        names,
        holds: Vec::new(),
        open: vec![Vec::new(); names.len()],
        arrivals: vec![Vec::new(); names.len()],
    };
    let (mut membership, mut entries) = (None, 0);
    let (mut terms, mut wall, mut wall_steps_ms) = (Vec::new(), None::<u64>, (0, 0));
    for index in 0..=applied {
        let bytes = log
            .entry(index)
            .map_err(|error| unreadable(error.to_string()))?;
        let Some(bytes) = bytes else {
            if index == 0 {
                continue;
            }
            return Err(unreadable(format!("entry {index} is not there")));
        };
        let entry = records::decode_entry(&bytes).map_err(|error| unreadable(error.to_string()))?;
        entries += 1;
        terms.push(LogPosition::from(entry.id).term);
        terms.dedup();
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(_) => membership = Some(entry.id.into()),
            EntryPayload::Normal(commands) => {
                let now = commands.stamp.wall_ms.0;
                let before = wall.replace(now).unwrap_or(now);
                wall_steps_ms.0 = now.saturating_sub(before).max(wall_steps_ms.0);
                wall_steps_ms.1 = before.saturating_sub(now).max(wall_steps_ms.1);
                whole.apply(&commands, membership);
                watch.apply(&mut parts, &commands, membership);
                same_holders(&whole, &parts, names, index)?;
            }
        }
    }
    let last_ms = parts.cluster_ms().0;
    for hold in &mut watch.holds {
        if hold.end == HoldEnd::Open {
            hold.end_ms = last_ms;
        }
    }
    Ok(Replayed {
        holds: watch.holds,
        arrivals: watch.arrivals,
        entries,
        terms: terms.len(),
        wall_steps_ms,
        digest: whole.digest().to_string(),
    })
}

fn unreadable(why: String) -> Violation {
    Violation::new("a log that can be read from its beginning", why)
}

fn same_holders(
    whole: &State,
    parts: &State,
    names: &[String],
    index: u64,
) -> Result<(), Violation> {
    for name in names {
        let of = |state: &State| {
            let lock = state.lock(name);
            let holders = lock.into_iter().flat_map(|lock| lock.holders());
            holders
                .map(|one| (one.token.0, one.until.0))
                .collect::<Vec<_>>()
        };
        if of(whole) != of(parts) {
            let detail = format!("{name} after entry {index}");
            return Err(Violation::new(
                "an entry in parts is the same entry",
                detail,
            ));
        }
    }
    Ok(())
}

impl Watch<'_> {
    fn apply(&mut self, state: &mut State, entry: &Entry, membership: Option<LogPosition>) {
        let stamp = entry.stamp;
        let part = |commands| Entry { stamp, commands };
        state.apply(&part(Vec::new()), membership);
        self.look(state, None);
        for command in &entry.commands {
            let outcome = state.apply(&part(vec![command.clone()]), membership).pop();
            self.note_arrival(command, outcome.as_ref());
            self.look(state, outcome.as_ref().map(|outcome| (command, outcome)));
        }
    }

    fn note_arrival(&mut self, command: &Command, outcome: Option<&Outcome>) {
        let Command::Locks(LockCommand::Acquire(asked)) = command else {
            return;
        };
        let waits = matches!(outcome, Some(Outcome::Locks(LockOutcome::Waiting { .. })));
        let lock = self
            .names
            .iter()
            .position(|name| name == asked.name.as_str());
        if let Some(arrivals) = lock.filter(|_| waits).map(|lock| &mut self.arrivals[lock])
            && !arrivals.contains(&asked.nonce.0)
        {
            arrivals.push(asked.nonce.0);
        }
    }

    /// Compares the holders with those before. The order of grants in one step, of any locks, is
    /// not visible; they are taken in the order of their tokens.
    fn look(&mut self, state: &State, cause: Option<(&Command, &Outcome)>) {
        let now = state.cluster_ms().0;
        let mut granted = Vec::new();
        for (lock, name) in self.names.iter().enumerate() {
            let Some(view) = state.lock(name) else {
                self.end_all(lock, now, cause);
                continue;
            };
            let holds = &mut self.holds;
            self.open[lock].retain(|at| {
                let hold = &mut holds[*at];
                let found = view.holders().find(|holder| holder.token.0 == hold.token);
                let Some(holder) = found else {
                    hold.ends(now, cause);
                    return false;
                };
                if holder.until.0 != hold.until_ms {
                    hold.was_shortened |= holder.until.0 < hold.until_ms;
                    hold.until_ms = holder.until.0;
                    hold.renewals += 1;
                }
                true
            });
            for holder in view.holders() {
                let mut open = self.open[lock].iter();
                if open.any(|at| holds[*at].token == holder.token.0) {
                    continue;
                }
                granted.push(Hold {
                    lock,
                    token: holder.token.0,
                    owner: holder.claim.shown_owner(),
                    nonce: holder.claim.nonce.0,
                    permits: view.record.permits,
                    shared: holder.claim.shared,
                    ttl_ms: holder.claim.ttl_ms,
                    delay_ms: holder.claim.lock_delay_ms,
                    from_ms: now,
                    until_ms: holder.until.0,
                    end_ms: u64::MAX,
                    end: HoldEnd::Open,
                    renewals: 0,
                    was_shortened: false,
                });
            }
        }
        granted.sort_by_key(|hold| hold.token);
        for hold in granted {
            self.open[hold.lock].push(self.holds.len());
            self.holds.push(hold);
        }
    }

    fn end_all(&mut self, lock: usize, now: u64, cause: Option<(&Command, &Outcome)>) {
        for at in self.open[lock].drain(..) {
            self.holds[at].ends(now, cause);
        }
    }
}

impl Hold {
    /// Ends the hold after this command, or after time has passed.
    fn ends(&mut self, now: u64, cause: Option<(&Command, &Outcome)>) {
        let named = match cause {
            Some((
                Command::Locks(LockCommand::Release { token, .. }),
                Outcome::Locks(LockOutcome::Released),
            )) => (token.0 == self.token).then_some(HoldEnd::Released),
            Some((
                Command::Locks(LockCommand::Withdraw { nonce, .. }),
                Outcome::Locks(LockOutcome::Withdrawn { ended: true }),
            )) => (nonce.0 == self.nonce).then_some(HoldEnd::Withdrawn),
            _ => None,
        };
        (self.end, self.end_ms) = match named {
            Some(end) => (end, now),
            None if self.until_ms <= now => (HoldEnd::RanOut, self.until_ms),
            None => (HoldEnd::Unexplained, now),
        };
    }
}
