//! The clock changes in each kind of phase.

use std::time::{Duration, Instant};

use seqd_client::SystemClock;
use seqd_client::idgen::WallClock;

use super::NOTICED;
use super::draws::{self, Kind, RIGHT_MS};
use super::driver::{Driver, Ending};
use super::notice::Notice;
use crate::checkers::{Violation, require};
use crate::faults::FAULT_WITHOUT_EFFECT;
use crate::strikes::Strike;
use crate::wait;

/// Half of a strobe's period.
const STROBE: Duration = Duration::from_millis(20);

/// The number of strobe steps between two checks. A check takes longer than a step.
const LOOK_EVERY: u64 = 16;

/// The precision with which the time of a drifting or stopped clock can be computed from outside,
/// in ms.
const ABOUT_MS: i64 = 60;

/// A clock that is wrong for this long certainly causes a refusal.
const SURELY_ASKED: Duration = Duration::from_millis(1_500);

/// After this time, the third node has detected that the other two agree.
const SURELY_NOTICED: Duration = Duration::from_millis(2_500);

impl Driver {
    /// Runs one phase. At its end all clocks are right and all processes respond.
    pub(super) fn phase(&mut self, kind: Kind) -> Result<(), Violation> {
        let leader = self.cluster.leader_claims();
        let others = self.random.below(3) as usize;
        // The leader in most cases.
        let victim = leader
            .filter(|_| self.random.below(10) < 6)
            .unwrap_or(others);
        let leads = leader == Some(victim);
        self.counts(format!("{kind:?}"));
        let leads = if leads { ", the leader" } else { "" };
        self.counts(format!("phases{leads}"));
        self.note(format!("phase {kind:?} of n{}{leads}", victim + 1));
        self.plan_ending(kind, victim);
        match kind {
            Kind::Steps => self.steps(victim)?,
            Kind::Strobe => self.strobe(victim)?,
            Kind::Held => self.held(victim)?,
            Kind::Drift => self.drift(victim)?,
            Kind::Frozen => self.frozen(victim)?,
            Kind::TwoApart => self.two_apart(victim)?,
            Kind::TwoTogether => self.two_together(victim)?,
        }
        self.note(format!("n{} is right again", victim + 1));
        self.all_up();
        if self.random.below(2) == 0 {
            let settle = self.span(500, 2_000);
            self.pause(settle);
        }
        Ok(())
    }

    /// In some phases, plans the end of a process: that with the wrong clock, or another one.
    fn plan_ending(&mut self, kind: Kind, victim: usize) {
        let may_be = matches!(kind, Kind::Steps | Kind::Strobe | Kind::Frozen);
        let is_spared = !self.is_short && self.random.below(3) == 0;
        if !may_be || is_spared {
            return;
        }
        let other = (victim + 1 + self.random.below(2) as usize) % 3;
        let node = if self.random.below(2) == 0 {
            victim
        } else {
            other
        };
        let (after, down) = (self.span(0, 2_500), self.span(0, 2_500));
        let strike = [Strike::Ended, Strike::Killed, Strike::Killed][self.random.below(3) as usize];
        self.ending = Some(Ending {
            node,
            strike,
            at: Instant::now() + after,
            down,
        });
    }

    fn steps(&mut self, node: usize) -> Result<(), Violation> {
        let (begin, refused) = (Instant::now(), self.shared.refused(node));
        let (mut wrong, mut longest_wrong) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..3 + self.random.below(10) {
            let before = self.clocks.ms[node];
            let ms = match self.random.below(5) {
                0 => 0,
                _ => self.wrong.any(&mut self.random, node),
            };
            self.step(node, ms);
            self.note(format!("step of n{} to {ms} ms", node + 1));
            self.see_step(node, before)?;
            let hold = self.span(200, 800);
            self.pause(hold);
            let is_wrong = ms.abs() > RIGHT_MS;
            wrong = if is_wrong {
                wrong + hold
            } else {
                Duration::ZERO
            };
            longest_wrong = longest_wrong.max(wrong);
        }
        self.right_again(node)?;
        if longest_wrong > SURELY_ASKED && self.has_run_since(begin) {
            self.see_refusals(node, refused)?;
        }
        Ok(())
    }

    fn right_again(&mut self, node: usize) -> Result<(), Violation> {
        let before = self.clocks.ms[node];
        self.step(node, 0);
        self.see_step(node, before)
    }

    fn strobe(&mut self, node: usize) -> Result<(), Violation> {
        let first = self.wrong.any(&mut self.random, node);
        let second = self.wrong.any(&mut self.random, node);
        let ends = match self.random.below(3) {
            0 => [0, first],
            _ if first.abs() <= RIGHT_MS => [-first, first],
            _ => [first, second],
        };
        let is_right = ends.iter().all(|ms| ms.abs() <= RIGHT_MS);
        let times = 50 + self.random.below(150);
        self.note(format!(
            "strobe of n{}: {times} times {ends:?} ms",
            node + 1
        ));
        if !is_right {
            self.becomes_wrong(node);
        }
        let apart = ends[0].abs_diff(ends[1]) > 2 * ABOUT_MS.unsigned_abs();
        let (begin, mut seen) = (Instant::now(), [0, 0]);
        for time in 0..times {
            let end = (time % 2) as usize;
            self.set(node, ends[end]);
            if time % LOOK_EVERY >= LOOK_EVERY - 2 && self.members[node].is_up() {
                let shown = self.shown_ms(node);
                seen[end] += u32::from(shown.is_some_and(|ms| (ms - ends[end]).abs() <= ABOUT_MS));
            }
            self.pause(STROBE);
        }
        if !apart {
            self.counts("steps too small to be seen");
        } else if seen.iter().all(|times| *times > 0) {
            self.counts("strobes shown");
        } else if self.has_run_since(begin) {
            let detail = format!("n{} showed {ends:?} ms {seen:?} times", node + 1);
            return Err(Violation::new(FAULT_WITHOUT_EFFECT, detail));
        }
        self.right_again(node)
    }

    /// Measures which nodes name the wrong clock, when another node leads, and when the node serves
    /// again.
    fn held(&mut self, node: usize) -> Result<(), Violation> {
        let leads = self.cluster.leader_claims() == Some(node);
        let refused = self.shared.refused(node);
        let before = self.clocks.ms[node];
        let ms = self.wrong.surely(&mut self.random, node);
        self.step(node, ms);
        self.note(format!("n{} is held at {ms} ms", node + 1));
        let begin = Instant::now();
        self.see_step(node, before)?;
        let others: Vec<usize> = (0..3).filter(|other| *other != node).collect();
        let mut notice = Notice::since(begin, self.cluster.node(node).name());
        let is_it = |ahead: f64| (ahead - ms as f64).abs() < 1_000.0;
        while !notice.is_complete() && begin.elapsed() < NOTICED {
            let views = others
                .iter()
                .map(|other| self.cluster.node(*other).cluster_view());
            notice.look(&views.collect::<Vec<_>>(), is_it);
            self.pause(STROBE);
        }
        let Notice { named, moved, .. } = notice;
        let (Some(named), Some(moved)) = (named, moved) else {
            let times = format!("named after {named:?}, another led after {moved:?}");
            let detail = format!(
                "n{} at {ms} ms: {times}, {NOTICED:?} is the limit",
                node + 1
            );
            return Err(Violation::new("a wrong clock is noticed", detail));
        };
        self.named.push(named);
        self.moved.extend(leads.then_some(moved));
        let rest = self.span(1_500, 3_500);
        self.pause(rest);
        self.right_again(node)?;
        self.see_refusals(node, refused)
    }

    fn see_refusals(&mut self, node: usize, before: u64) -> Result<(), Violation> {
        self.see_some_refusals(before, self.shared.refused(node))
    }

    /// Requests reached nodes with wrong clocks, so some must have been refused because of the
    /// clock.
    fn see_some_refusals(&mut self, before: u64, after: u64) -> Result<(), Violation> {
        self.counts("wrong clocks refused with");
        let detail = "no node refused IDs for its clock, which was wrong";
        require(after > before, FAULT_WITHOUT_EFFECT, detail)
    }

    fn drift(&mut self, node: usize) -> Result<(), Violation> {
        let rate = draws::rate(&mut self.random);
        let length = self.span(3_000, 14_000);
        let ms = (length.as_millis() as f64 * (rate - 1.0)).round() as i64;
        if ms.abs() > RIGHT_MS {
            self.becomes_wrong(node);
        }
        self.note(format!("n{} runs at {rate:.5} for {length:?}", node + 1));
        let begin = Instant::now();
        let running = self.members[node].began.elapsed();
        self.clocks.clock(node).drift(rate, running);
        self.clocks.steps += 1;
        self.pause(length);
        let expected = |at: Instant| ((at - begin).as_millis() as f64 * (rate - 1.0)) as i64;
        self.see_about(node, "drifts", expected)?;
        self.wrong.had(node, ms);
        self.clocks.ms[node] = ms;
        self.step(node, 0);
        Ok(())
    }

    fn frozen(&mut self, node: usize) -> Result<(), Violation> {
        // libfaketime freezes clocks at whole seconds.
        let rest = 1_000 - SystemClock.wall().0 % 1_000;
        self.pause(Duration::from_millis(rest));
        let wall = SystemClock.wall().0;
        let length = self.span(1_000, 6_000);
        self.becomes_wrong(node);
        self.note(format!("n{} stands still for {length:?}", node + 1));
        self.clocks.clock(node).freeze(wall / 1_000);
        let begin = Instant::now();
        self.clocks.steps += 1;
        self.pause(length);
        if self.members[node].is_up() {
            let expected = |at: Instant| -((at - begin).as_millis() as i64) - (wall % 1_000) as i64;
            self.see_about(node, "stands still", expected)?;
        }
        self.clocks.ms[node] = -(length.as_millis() as i64);
        self.step(node, 0);
        Ok(())
    }

    /// Checks that a moving clock shows approximately the expected time.
    fn see_about(
        &mut self,
        node: usize,
        what: &str,
        expected: impl Fn(Instant) -> i64,
    ) -> Result<(), Violation> {
        let mut last = None;
        let seen = wait::within(Duration::from_secs(3), || {
            let shown = self.shown_ms(node)?;
            let expected = expected(Instant::now());
            last = Some((shown, expected));
            ((shown - expected).abs() <= ABOUT_MS).then_some(expected)
        });
        let detail = format!("n{} {what}: (shown, expected) {last:?} ms", node + 1);
        require(seen.is_some(), FAULT_WITHOUT_EFFECT, detail)?;
        match seen {
            Some(ms) if ms.abs() > 2 * ABOUT_MS => self.counts("drifts and standstills shown"),
            _ => self.counts("steps too small to be seen"),
        }
        Ok(())
    }

    fn two_apart(&mut self, first: usize) -> Result<(), Violation> {
        let second = (first + 1 + self.random.below(2) as usize) % 3;
        let refused = self.shared.refused(first) + self.shared.refused(second);
        self.begin_split(false);
        for _ in 0..2 + self.random.below(4) {
            for node in [first, second] {
                let before = self.clocks.ms[node];
                let ms = self.wrong.surely(&mut self.random, node);
                self.step(node, ms);
                self.note(format!("step of n{} to {ms} ms, one of two", node + 1));
                self.see_step(node, before)?;
                let hold = self.span(200, 1_000);
                self.pause(hold);
            }
        }
        for node in [first, second] {
            self.right_again(node)?;
        }
        self.end_split(false);
        let after = self.shared.refused(first) + self.shared.refused(second);
        self.see_some_refusals(refused, after)
    }

    fn two_together(&mut self, first: usize) -> Result<(), Violation> {
        // The measurements of the other clocks must be of their right times.
        while !self.wrong.is_none() {
            self.pause(STROBE);
        }
        let second = (first + 1 + self.random.below(2) as usize) % 3;
        let third = 3 - first - second;
        let refused = self.shared.refused(third);
        let ms = draws::together(&mut self.random);
        self.begin_split(true);
        for node in [first, second] {
            let apart = (self.random.share() * 100.0) as i64;
            let before = self.clocks.ms[node];
            self.step(node, ms + apart);
            self.note(format!(
                "step of n{} to {} ms, together",
                node + 1,
                ms + apart
            ));
            self.see_step(node, before)?;
        }
        let hold = self.span(2_500, 6_000).max(SURELY_NOTICED);
        self.pause(hold);
        for node in [first, second] {
            self.right_again(node)?;
        }
        self.end_split(true);
        let after = self.shared.refused(third);
        self.see_some_refusals(refused, after)
    }
}
