//! The check of a run: the holds of the log against the record of the clients.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clients::later;
use super::records::{Book, Fate, Held};
use super::replay::Replayed;
use crate::checkers::Violation;
use crate::checkers::locks::{
    Answered, Hold, HoldEnd, Stamped, answered, counted_apart, ends, held_apart, never_fast,
    tokens_rise, writes,
};
use crate::history::At;
use crate::report::{Counts, Report, count};
use crate::strikes::Struck;

/// The time limit from a holder's death to the next grant, in addition to its `ttl` and delay, if
/// no fault was near: a round of consensus, and the delays of a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// A fault counts as near for this time after its end: waiters may have been at another node.
const NEAR: Duration = Duration::from_secs(3);

pub(super) struct Judge<'a> {
    pub(super) book: Book,
    pub(super) struck: &'a [Struck],
}

impl Judge<'_> {
    pub(super) fn judge(&self, replayed: &Replayed, report: &mut Report) {
        let (book, holds) = (&self.book, &replayed.holds);
        report.checked(held_apart(holds));
        report.checked(tokens_rise(holds));
        report.checked(ends(holds));
        report.checked(counted_apart(&book.counted));
        let writes = report.checked(writes(&book.writes)).unwrap_or_default();
        // The probes' holds are left out, since their clients are not in the book.
        let is_of_client = |hold: &&Hold| hold.owner.starts_with("client-");
        let own: Vec<Hold> = holds.iter().filter(is_of_client).cloned().collect();
        let unanswered = report
            .checked(answered(&book.asked, &own))
            .unwrap_or_default();
        let stamped = report
            .checked(never_fast(self.stamps(&own)))
            .unwrap_or_default();
        let lost = report.checked(self.losses(&own)).unwrap_or_default();
        self.deaths(&own, report);
        book.tally.judge(report);
        report.require(
            writes.outdated > 0,
            "a run in which holders went on",
            format!("{writes:?}"),
        );

        let (mut fates, mut endings) = (Counts::new(), Counts::new());
        book.held
            .iter()
            .for_each(|held| count(&mut fates, format!("{:?}", held.fate)));
        holds
            .iter()
            .for_each(|hold| count(&mut endings, format!("{:?}", hold.end)));
        println!("  {replayed}; {} grants, {endings:?}", holds.len());
        let (claims, held, spans) = (book.asked.len(), book.held.len(), book.counted.len());
        let renewals = book.renewals;
        println!(
            "  {claims} claims, {held} held, {renewals} renewals, {spans} spans counted on; {fates:?}"
        );
        println!("  lost although renewed: {lost:?}");
        let alone = self.unanswered_alone(&own);
        println!("  grants without an answer: {unanswered:?}, {alone} without a fault near");
        println!("  {writes:?}; {stamped} entries on both clocks, the cluster's never fast");
        let longest = book.stalls.iter().map(|stall| stall.1).max();
        println!(
            "  the harness was held up {} times, {longest:.0?}",
            book.stalls.len()
        );
    }

    /// Returns the number of grants that no client received, that expired, and that had no fault
    /// near.
    fn unanswered_alone(&self, holds: &[Hold]) -> usize {
        let ran_out = holds.iter().filter(|hold| hold.end == HoldEnd::RanOut);
        let ran_out: BTreeMap<u128, u64> = ran_out.map(|hold| (hold.nonce, hold.token)).collect();
        let alone = self.book.asked.iter().filter(|asked| {
            let (token, over) = match asked.answered {
                Answered::Held { token, back } => (Some(token), back),
                Answered::Refused { back: over } | Answered::Gone { since: over } => (None, over),
            };
            let found = ran_out.get(&asked.nonce);
            found.is_some_and(|found| Some(*found) != token)
                && self.near(asked.call, later(over, NEAR)).is_none()
        });
        alone.count()
    }

    /// The grants and releases whose times are known on both clocks.
    fn stamps(&self, holds: &[Hold]) -> Vec<Stamped> {
        let by_token: BTreeMap<u64, &Hold> = holds.iter().map(|hold| (hold.token, hold)).collect();
        let stamps = self.book.held.iter().filter_map(|held| {
            let hold = by_token.get(&held.token)?;
            let released = held.released.filter(|_| hold.end == HoldEnd::Released);
            let stamp = |ms, (call, back)| Stamped { ms, call, back };
            let granted = stamp(hold.from_ms, (held.call, held.back));
            Some([
                Some(granted),
                released.map(|times| stamp(hold.end_ms, times)),
            ])
        });
        stamps.flatten().flatten().collect()
    }

    /// Checks that a holder that renews lost its hold only if something kept it from renewing in
    /// time.
    fn losses(&self, holds: &[Hold]) -> Result<Counts, Violation> {
        let by_token: BTreeMap<u64, &Hold> = holds.iter().map(|hold| (hold.token, hold)).collect();
        let mut lost = Counts::new();
        for held in &self.book.held {
            if held.fate != Fate::Lost && held.fate != Fate::Unanswered {
                continue;
            }
            let hold = by_token.get(&held.token);
            let detail = || format!("{held:?}, by the log {hold:?}");
            if held.fate == Fate::Lost && hold.is_none_or(|hold| hold.end != HoldEnd::RanOut) {
                return Err(Violation::new("a hold is lost by its time alone", detail()));
            }
            let why = self.why_lost(held);
            let why =
                why.ok_or_else(|| Violation::new("who renews in time keeps its hold", detail()))?;
            count(&mut lost, why);
        }
        Ok(lost)
    }

    fn why_lost(&self, held: &Held) -> Option<&str> {
        let ttl = Duration::from_millis(held.ttl_ms);
        if let Some(struck) = self.near(held.renewed, held.over) {
            return Some(&struck.name);
        }
        if held.late > ttl / 6 {
            return Some("renewed late, the harness was held up");
        }
        let stalls = self.book.stalls.iter();
        let during = stalls.filter(|(at, _)| *at >= held.renewed && *at <= held.over);
        if during.map(|(_, late)| *late).sum::<Duration>() > ttl / 6 {
            return Some("the harness was held up");
        }
        if held.waited && held.renewed == held.call {
            return Some("granted before, and answered too late");
        }
        // Two thirds of the time are left at the first renewal, and a request without a response
        // takes a third of the time before it is sent to the next node. With the shortest ttl that
        // is 333 ms, for which a busy machine may hold up a node without any fault.
        if held.unanswered >= ttl / 3 {
            return Some("a node did not answer its renewal");
        }
        // A third of the ttl is also the limit if every node refuses at once, for most of the
        // remaining time and to all clients.
        let silence = self.book.longest_silence(held.renewed, held.over);
        (silence > ttl / 3).then_some("nobody was answered")
    }

    /// Measures the times from a holder's death to the next grant.
    fn deaths(&self, holds: &[Hold], report: &mut Report) {
        let held = self.book.held.iter().map(|held| (held.token, held));
        let held: BTreeMap<u64, &Held> = held.collect();
        // The times beyond the hold's ttl and delay: without a fault near, and with one.
        let mut beyond = [Vec::new(), Vec::new()];
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
            // Count only deaths after which a client waited for the only permit.
            if next.waited && next.call.since(dead.over) <= ttl && hold.permits == 1 && !hold.shared
            {
                let is_near = self.near(dead.over, next.back).is_some();
                let took = next.back.since(dead.over).saturating_sub(ttl);
                beyond[usize::from(is_near)].push(took);
            }
        }
        let count = beyond[0].len() + beyond[1].len();
        let [alone, near] = beyond.map(|times| times.into_iter().max().unwrap_or_default());
        println!(
            "  {count} deaths with one waiting: next grant at most {alone:.0?} beyond ttl and delay, \
             {near:.0?} with a fault near"
        );
        report.at_most("a dead holder's lock goes on", alone, SOON);
    }

    fn near(&self, from: At, to: At) -> Option<&Struck> {
        let near = |struck: &&Struck| struck.from <= to && later(struck.to, NEAR) >= from;
        self.struck.iter().find(near)
    }
}
