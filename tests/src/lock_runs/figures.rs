//! The verdict of a run, and its figures.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::clients::later;
use super::had_within;
use super::records::{Book, Fate, Held};
use super::replay::Replayed;
use super::striker::{Striker, Struck};
use crate::checkers::Violation;
use crate::checkers::locks::{
    Answered, Hold, HoldEnd, Stamped, UnansweredGrants, WriteCounts, answered, counted_apart, ends,
    held_apart, never_fast, tokens_rise, writes,
};
use crate::history::At;

/// The longest time from a holder's death to the next grant, beyond its `ttl` and delay, if no
/// fault was near: a round of consensus, plus a margin for a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// A fault is near a hold for this long after it, because the waiters may have moved to other
/// nodes.
const NEAR: Duration = Duration::from_secs(3);

/// A grant after the death of a holder.
#[derive(Debug, Clone, Copy, Default)]
struct Behind {
    took: Duration,
    /// The part of the time beyond the `ttl` and the delay.
    beyond: Duration,
}

pub struct Figures {
    book: Book,
    struck: Vec<Struck>,
    faults: BTreeMap<&'static str, u64>,
    /// The number of steps, the number that was checked, and the furthest that a clock was set.
    steps: (u64, u64, u64),
    serves: Duration,
    had: Vec<Duration>,
    grants: usize,
    ends: BTreeMap<HoldEnd, usize>,
    entries: u64,
    terms: usize,
    wall_steps_ms: (u64, u64),
    unanswered: UnansweredGrants,
    /// The grants that no client received and that lasted until their deadline without a fault
    /// near.
    unanswered_alone: usize,
    writes: WriteCounts,
    stamped: usize,
    lost: BTreeMap<String, u64>,
    /// The longest times, with a fault near and without, and the number of deaths.
    behind: [Behind; 2],
    deaths: usize,
}

impl Figures {
    pub(super) fn of(book: Book, striker: &Striker, had: Vec<Duration>) -> Self {
        Self {
            book,
            struck: striker.struck.clone(),
            faults: striker.counts().clone(),
            steps: (striker.steps, striker.shown, striker.furthest_ms),
            serves: striker.serves,
            had,
            grants: 0,
            ends: BTreeMap::new(),
            entries: 0,
            terms: 0,
            wall_steps_ms: (0, 0),
            unanswered: UnansweredGrants::default(),
            unanswered_alone: 0,
            writes: WriteCounts::default(),
            stamped: 0,
            lost: BTreeMap::new(),
            behind: [Behind::default(); 2],
            deaths: 0,
        }
    }

    pub(super) fn judged(mut self, replayed: &Replayed) -> (Self, Result<(), Violation>) {
        self.grants = replayed.holds.len();
        (self.entries, self.terms) = (replayed.entries, replayed.terms);
        self.wall_steps_ms = replayed.wall_steps_ms;
        for hold in &replayed.holds {
            *self.ends.entry(hold.end).or_default() += 1;
        }
        let verdict = self.check(&replayed.holds);
        (self, verdict)
    }

    fn check(&mut self, holds: &[Hold]) -> Result<(), Violation> {
        held_apart(holds)?;
        tokens_rise(holds)?;
        ends(holds)?;
        counted_apart(&self.book.counted)?;
        self.writes = writes(&self.book.writes)?;
        // The probes' holds have no clients in the book.
        let own: Vec<Hold> = holds
            .iter()
            .filter(|hold| is_of_client(hold))
            .cloned()
            .collect();
        self.unanswered = answered(&self.book.asked, &own)?;
        self.unanswered_alone = self.unanswered_alone(&own);
        self.stamped = never_fast(self.stamps(&own))?;
        self.losses(&own)?;
        self.deaths(&own)?;
        if let Some(unexpected) = self.book.unexpected.first() {
            let detail = format!("{} times, as {unexpected}", self.book.unexpected.len());
            return Err(Violation::new("expected answers", detail));
        }
        for (lock, had) in self.had.iter().enumerate() {
            if *had > had_within(lock) {
                let detail = format!("soak/{lock} after {had:?}");
                return Err(Violation::new(
                    "a lock can be had after the last fault",
                    detail,
                ));
            }
        }
        if self.writes.outdated == 0 {
            let detail = format!("{:?}", self.writes);
            return Err(Violation::new("a run in which holders went on", detail));
        }
        Ok(())
    }

    fn unanswered_alone(&self, holds: &[Hold]) -> usize {
        let ran_out = holds.iter().filter(|hold| hold.end == HoldEnd::RanOut);
        let ran_out: BTreeMap<u128, u64> = ran_out.map(|hold| (hold.nonce, hold.token)).collect();
        let alone = self.book.asked.iter().filter(|asked| {
            let over = match asked.answered {
                Answered::Held { token, back } => (Some(token), back),
                Answered::Refused { back } => (None, back),
                Answered::Gone { since } => (None, since),
            };
            let found = ran_out.get(&asked.nonce);
            found.is_some_and(|token| Some(*token) != over.0)
                && near(&self.struck, asked.call, later(over.1, NEAR)).is_none()
        });
        alone.count()
    }

    /// The grants and releases whose times are known on both clocks.
    fn stamps(&self, holds: &[Hold]) -> Vec<Stamped> {
        let by_token: BTreeMap<u64, &Hold> = holds.iter().map(|hold| (hold.token, hold)).collect();
        let mut stamps = Vec::new();
        for held in &self.book.held {
            let Some(hold) = by_token.get(&held.token) else {
                continue;
            };
            stamps.push(Stamped {
                ms: hold.from_ms,
                call: held.call,
                back: held.back,
            });
            if let Some((call, back)) = held.released
                && hold.end == HoldEnd::Released
            {
                let ms = hold.end_ms;
                stamps.push(Stamped { ms, call, back });
            }
        }
        stamps
    }

    /// A holder that renewed may lose its hold only if something prevented the renewal.
    fn losses(&mut self, holds: &[Hold]) -> Result<(), Violation> {
        let by_token: BTreeMap<u64, &Hold> = holds.iter().map(|hold| (hold.token, hold)).collect();
        let mut lost = BTreeMap::new();
        for held in &self.book.held {
            if held.fate != Fate::Lost && held.fate != Fate::Unanswered {
                continue;
            }
            let hold = by_token.get(&held.token);
            if held.fate == Fate::Lost && hold.is_none_or(|hold| hold.end != HoldEnd::RanOut) {
                let detail = format!("{held:?}, by the log {hold:?}");
                return Err(Violation::new("a hold is lost by its time alone", detail));
            }
            let why = self.why_lost(held).ok_or_else(|| {
                let detail = format!("{held:?}, by the log {hold:?}");
                Violation::new("who renews in time keeps its hold", detail)
            })?;
            *lost.entry(why).or_default() += 1;
        }
        self.lost = lost;
        Ok(())
    }

    fn why_lost(&self, held: &Held) -> Option<String> {
        let ttl = Duration::from_millis(held.ttl_ms);
        if let Some(struck) = near(&self.struck, held.renewed, held.over) {
            return Some(struck.name.to_owned());
        }
        if held.late > ttl / 6 {
            return Some("renewed late, the harness was held up".to_owned());
        }
        let stalls = self.book.stalls.iter();
        let during = stalls.filter(|(at, _)| *at >= held.renewed && *at <= held.over);
        if during.map(|(_, late)| *late).sum::<Duration>() > ttl / 6 {
            return Some("the harness was held up".to_owned());
        }
        if held.waited && held.renewed == held.call {
            return Some("granted before, and answered too late".to_owned());
        }
        // Two thirds of the time are left at the first renewal, and a request without a response
        // takes a third of the time before it is sent to the next node. With the shortest ttl that
        // is 333 ms, for which a busy machine may delay a node without any fault.
        if held.unanswered >= ttl / 3 {
            return Some("a node did not answer its renewal".to_owned());
        }
        // The same applies if every node refuses at once: no client received a response for most of
        // the remaining time.
        let silence = self.book.longest_silence(held.renewed, held.over);
        (silence > ttl / 3).then(|| "nobody was answered".to_owned())
    }

    /// The times from a holder's death to the next grant.
    fn deaths(&mut self, holds: &[Hold]) -> Result<(), Violation> {
        let held: BTreeMap<u64, &Held> = self
            .book
            .held
            .iter()
            .map(|held| (held.token, held))
            .collect();
        let (mut behind, mut deaths) = ([Behind::default(); 2], 0);
        for dead in self.book.held.iter().filter(|held| held.fate == Fate::Died) {
            let Some(at) = holds.iter().position(|hold| hold.token == dead.token) else {
                continue;
            };
            let hold = &holds[at];
            let next = holds[at + 1..].iter().find(|next| next.lock == hold.lock);
            let Some(next) = next.and_then(|next| held.get(&next.token)) else {
                continue;
            };
            let ttl = Duration::from_millis(hold.ttl_ms + hold.delay_ms);
            // A client waited when the hold ended, and there was one permit.
            if !next.waited || next.call.since(dead.over) > ttl || hold.permits > 1 || hold.shared {
                continue;
            }
            let took = next.back.since(dead.over);
            let one = Behind {
                took,
                beyond: took.saturating_sub(ttl),
            };
            let is_near = near(&self.struck, dead.over, next.back).is_some();
            deaths += 1;
            if one.beyond > SOON && !is_near {
                let detail = format!("{one:?}: {dead:?}, then {next:?}");
                return Err(Violation::new("a dead holder's lock goes on", detail));
            }
            let longest = &mut behind[usize::from(is_near)];
            if one.beyond >= longest.beyond {
                *longest = one;
            }
        }
        (self.behind, self.deaths) = (behind, deaths);
        Ok(())
    }
}

fn is_of_client(hold: &Hold) -> bool {
    hold.owner.starts_with("client-")
}

fn near(struck: &[Struck], from: At, to: At) -> Option<Struck> {
    let near = |struck: &&Struck| {
        let end = struck.to.0.saturating_add(NEAR.as_nanos() as u64);
        struck.from <= to && end >= from.0
    };
    struck.iter().find(near).copied()
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let book = &self.book;
        writeln!(f, "faults that bit: {:?}", self.faults)?;
        let (steps, shown, furthest_ms) = self.steps;
        writeln!(
            f,
            "{steps} steps of clocks, by up to {furthest_ms} ms, {shown} of them looked for in the \
             nodes' views; the largest between two entries: {} ms forth, {} ms back",
            self.wall_steps_ms.0, self.wall_steps_ms.1
        )?;
        writeln!(
            f,
            "{} entries of {} terms, {} grants, {:?}",
            self.entries, self.terms, self.grants, self.ends
        )?;
        let mut fates: BTreeMap<Fate, u64> = BTreeMap::new();
        for held in &book.held {
            *fates.entry(held.fate).or_default() += 1;
        }
        writeln!(
            f,
            "clients: {} claims, {} answered held, {} renewals, {} spans counted on; {fates:?}",
            book.asked.len(),
            book.held.len(),
            book.renewals,
            book.counted.len()
        )?;
        writeln!(f, "not acknowledged: {:?}", book.codes)?;
        writeln!(f, "lost although renewed: {:?}", self.lost)?;
        writeln!(
            f,
            "{} grants that no client was answered, {} of them until their time ({} without a \
             fault near), the longest {} ms",
            self.unanswered.grants,
            self.unanswered.ran_out,
            self.unanswered_alone,
            self.unanswered.longest_ms
        )?;
        writeln!(
            f,
            "resources: {} writes, {} of an older token behind a newer one: refused where tokens are \
             checked, else overwriting",
            self.writes.writes, self.writes.outdated
        )?;
        writeln!(
            f,
            "{} entries on both clocks, the cluster's never fast",
            self.stamped
        )?;
        let [alone, with_fault] = self.behind;
        writeln!(
            f,
            "{} deaths of holders with one waiting: next grant at most {:.0?} beyond ttl and delay \
             ({:.2?} after the death); with a fault near {:.0?} ({:.2?})",
            self.deaths, alone.beyond, alone.took, with_fault.beyond, with_fault.took
        )?;
        let had = self.had.iter().max().copied().unwrap_or_default();
        write!(
            f,
            "after a fault every node served locks within {:.2?}; after the last each lock was had \
             within {had:.2?}; the harness was held up {} times, {:.0?} at most",
            self.serves,
            book.stalls.len(),
            book.stalls
                .iter()
                .map(|stall| stall.1)
                .max()
                .unwrap_or_default()
        )
    }
}
