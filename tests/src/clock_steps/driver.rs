//! Sets the clocks, ends and starts processes, checks that each fault has an effect, and records
//! the duties of each node.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::draws::{RIGHT_MS, TOGETHER_MS, Wrong, between};
use super::duty::{Duty, change};
use super::figures::Faults;
use super::member::{Ending, Member, Process};
use super::notice::member_of;
use super::streams::Shared;
use super::{RESTARTED, RETURNED};
use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::history::{At, Timeline};
use crate::seed::Random;
use crate::{http, wait};

/// The interval in which restarts are handled: one step of a strobe.
const SLICE: Duration = Duration::from_millis(20);

/// The time limits for a node to show a new setting of its clock, and to respond after its start.
const SHOWN: Duration = Duration::from_secs(1);
const UP: Duration = Duration::from_secs(20);

/// The precision with which a node's clock is known from its own view: half a round trip of a ping.
const EXACT_MS: i64 = 30;

/// The time that a started node and the other nodes need to measure each other's clocks.
const MEASURED: Duration = Duration::from_secs(4);

/// An event with its time, and the length of each node's log at that time.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) at: At,
    pub(super) text: String,
    pub(super) logs: [u64; 3],
}

pub(super) struct Driver {
    pub(super) cluster: Cluster,
    pub(super) timeline: Timeline,
    pub(super) random: Random,
    pub(super) members: Vec<Member>,
    pub(super) wrong: Wrong,
    pub(super) faults: Faults,
    pub(super) notes: Vec<Note>,
    /// Periods in which a node had no process, or a process that had not responded yet.
    pub(super) downs: Vec<(usize, At, At)>,
    /// The duties of the streams without a particular node.
    pub(super) all: Vec<(At, Duty)>,
    pub(super) ending: Option<Ending>,
    pub(super) shared: std::sync::Arc<Shared>,
    /// `true` if all phases take half the time.
    pub(super) is_short: bool,
    /// `true` if two clocks are wrong, so that all nodes may refuse.
    is_split: bool,
    /// The extra time that the next return may take because IDs were minted ahead of time.
    ahead: Duration,
}

impl Driver {
    pub(super) fn new(
        cluster: Cluster,
        members: Vec<Member>,
        (timeline, random): (Timeline, Random),
        shared: std::sync::Arc<Shared>,
        is_short: bool,
    ) -> Self {
        Self {
            cluster,
            timeline,
            random,
            members,
            wrong: Wrong::default(),
            faults: Faults::default(),
            notes: Vec::new(),
            downs: Vec::new(),
            all: vec![(At::default(), Duty::Serve { first: RETURNED })],
            ending: None,
            shared,
            is_short,
            is_split: false,
            ahead: Duration::ZERO,
        }
    }

    /// The duties of a node, or of the generators.
    pub(super) fn duties_of(&self, node: Option<usize>) -> &[(At, Duty)] {
        node.map_or(&self.all, |node| &self.members[node].duties)
    }

    pub(super) fn note(&mut self, text: String) {
        let length = |node| {
            let file = self.cluster.node(node).stderr_file();
            std::fs::metadata(file).map_or(0, |file| file.len())
        };
        let logs = [length(0), length(1), length(2)];
        let at = self.timeline.at();
        self.notes.push(Note { at, text, logs });
    }

    /// Sets a clock. Counts as one step.
    pub(super) fn step(&mut self, node: usize, ms: i64) {
        let is_right = ms.abs() <= RIGHT_MS;
        if !is_right {
            self.becomes_wrong(node);
        }
        self.set(node, ms);
        if is_right {
            self.becomes_right(node);
        }
    }

    /// Like [`Driver::step`], but without a change of the node's duties.
    pub(super) fn set(&mut self, node: usize, ms: i64) {
        let before = self.members[node].ms;
        self.members[node].clock.shift_ms(ms);
        self.wrong.had(node, before);
        self.wrong.had(node, ms);
        self.members[node].ms = ms;
        self.faults.steps += 1;
    }

    pub(super) fn becomes_wrong(&mut self, node: usize) {
        self.members[node].is_right = false;
        self.set_duties();
    }

    pub(super) fn becomes_right(&mut self, node: usize) {
        let member = &mut self.members[node];
        if !member.is_right {
            member.is_right = true;
            member.right_since = Instant::now();
            self.set_duties();
        }
    }

    /// Two clocks become wrong, by the same offset or by different ones.
    pub(super) fn begin_split(&mut self, are_together: bool) {
        self.is_split = true;
        self.set_duties();
        if are_together {
            self.off_ms(TOGETHER_MS);
        }
    }

    /// From now on at most one clock is wrong.
    pub(super) fn end_split(&mut self, were_together: bool) {
        if were_together {
            // Plus a second, since the layout with the longest ticks waits for the next tick.
            self.ahead = Duration::from_millis(TOGETHER_MS) + Duration::from_secs(1);
        }
        self.off_ms(0);
        self.is_split = false;
        self.set_duties();
        self.ahead = Duration::ZERO;
    }

    fn off_ms(&self, ms: u64) {
        let order = std::sync::atomic::Ordering::Relaxed;
        self.shared.off_ms.store(ms, order);
    }

    /// Records the duties from now on, where they have changed.
    fn set_duties(&mut self) {
        let at = self.timeline.at();
        let of_all = self.returning(false);
        change(&mut self.all, at, of_all);
        for node in 0..self.members.len() {
            let member = &mut self.members[node];
            member.is_fresh &= member.began.elapsed() < RESTARTED;
            let member = &self.members[node];
            let is_free = matches!(member.process, Process::Down { .. }) || !member.is_right;
            let duty = if is_free {
                Duty::Free
            } else {
                self.returning(member.is_fresh)
            };
            change(&mut self.members[node].duties, at, duty);
        }
    }

    fn returning(&self, is_fresh: bool) -> Duty {
        if self.is_split {
            return Duty::Free;
        }
        let first = if is_fresh { RESTARTED } else { RETURNED };
        Duty::Serve {
            first: first + self.ahead,
        }
    }

    /// Draws a duration, in milliseconds.
    pub(super) fn span(&mut self, least: u64, most: u64) -> Duration {
        let length = between(&mut self.random, least, most);
        if self.is_short { length / 2 } else { length }
    }

    /// Waits, and in the meantime ends and starts processes when they are due.
    pub(super) fn pause(&mut self, length: Duration) {
        let end = Instant::now() + length;
        loop {
            self.attend();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    fn attend(&mut self) {
        if let Some(ending) = self.ending
            && ending.at <= Instant::now()
            && self.may_end(ending.node)
        {
            self.ending = None;
            self.end(ending);
        }
        for node in 0..self.members.len() {
            match self.members[node].process {
                Process::Down { start } if start <= Instant::now() => self.start(node),
                Process::Starting => self.look_for(node),
                _ => {}
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        let node = ending.node;
        let pid = self.cluster.node(node).pid();
        self.members[node].down_since = self.timeline.at();
        self.members[node].process = Process::Down {
            start: Instant::now() + ending.down,
        };
        self.set_duties();
        let (ms, is_right) = (self.members[node].ms, self.members[node].is_right);
        let state = if is_right { "right" } else { "wrong" };
        let how = if ending.is_killed {
            "kill -9"
        } else {
            "SIGTERM"
        };
        self.note(format!(
            "{how} of n{}, whose clock is {state} ({ms} ms)",
            node + 1
        ));
        if ending.is_killed {
            self.cluster.node_mut(node).kill();
            self.faults.kills += 1;
        } else {
            let status = self.cluster.node_mut(node).stop();
            assert_eq!(status.code(), Some(0), "{}", self.cluster.node(node).tail());
            self.faults.stops += 1;
        }
        self.faults.ended_wrong += u64::from(!is_right);
        assert!(!is_running(pid), "n{} runs on after {how}", node + 1);
    }

    fn start(&mut self, node: usize) {
        let member = &mut self.members[node];
        member.began = Instant::now();
        member.process = Process::Starting;
        member.is_fresh = true;
        self.faults.started_wrong += u64::from(!member.is_right);
        self.cluster.node_mut(node).start();
        self.note(format!("start of n{}", node + 1));
        self.set_duties();
    }

    fn look_for(&mut self, node: usize) {
        let url = format!("{}/livez", self.cluster.node(node).url());
        if http::get(&url).patience(SHOWN).send().is_ok() {
            self.members[node].process = Process::Up;
            let down = (node, self.members[node].down_since, self.timeline.at());
            self.downs.push(down);
        } else if self.members[node].began.elapsed() > UP {
            let tail = self.cluster.node(node).tail();
            panic!(
                "n{} does not answer {UP:?} after its start\n{tail}",
                node + 1
            );
        }
    }

    /// Waits until every process responds.
    pub(super) fn all_up(&mut self) {
        self.ending = None;
        while !self.members.iter().all(Member::is_up) {
            self.pause(SLICE);
        }
    }

    /// Returns whether a process may be ended: all other nodes have measured it and its clock.
    fn may_end(&self, node: usize) -> bool {
        let is_known = |member: &Member| member.is_up() && member.began.elapsed() > MEASURED;
        let member = &self.members[node];
        let is_right = member.right_since.elapsed() > MEASURED || !member.is_right;
        is_right && self.members.iter().all(is_known)
    }

    /// Returns whether every process has run since before this time, and long enough to have
    /// measured the other clocks.
    pub(super) fn has_run_since(&self, begin: Instant) -> bool {
        self.members.iter().all(|member| {
            member.is_up() && member.began < begin && member.began.elapsed() > MEASURED
        })
    }

    /// The time by which a node's clock is ahead in its own view, compared with another node whose
    /// clock is right, in milliseconds.
    pub(super) fn shown_ms(&self, node: usize) -> Option<i64> {
        let others = (0..self.members.len()).filter(|other| *other != node);
        let right = others.filter(|other| self.members[*other].is_right);
        let oldest = right.min_by_key(|other| self.members[*other].right_since)?;
        let view = self.cluster.node(node).cluster_view()?;
        let offset_ms =
            member_of(&view, self.cluster.node(oldest).name())?["clock_offset_ms"].as_f64()?;
        Some(self.members[oldest].ms - offset_ms.round() as i64)
    }

    /// Waits until a clock shows its new setting. `before` is the previous setting.
    pub(super) fn see_step(&mut self, node: usize, before: i64) -> Result<(), Violation> {
        let ms = self.members[node].ms;
        if (ms - before).abs() <= 2 * EXACT_MS {
            self.faults.too_small += 1;
            return Ok(());
        }
        let is_shown = |driver: &Self| {
            let shown = driver.shown_ms(node)?;
            ((shown - ms).abs() <= EXACT_MS).then_some(())
        };
        if !self.members[node].is_up() {
            self.faults.while_down += 1;
            return Ok(());
        }
        if wait::within(SHOWN, || is_shown(self)).is_some() {
            self.faults.shown += 1;
            return Ok(());
        }
        if self.members[node].began.elapsed() < MEASURED {
            self.faults.while_down += 1;
            return Ok(());
        }
        let shown = self.shown_ms(node);
        let detail = format!("n{} shows {shown:?} ms and was set to {ms} ms", node + 1);
        Err(Violation::new("a fault that never bit", detail))
    }
}

/// Returns whether a process with this ID exists.
fn is_running(pid: Pid) -> bool {
    std::path::Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists()
}
