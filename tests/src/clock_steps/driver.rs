//! The driver sets the clocks, ends and starts processes, checks that each fault has an effect, and
//! records the duty of each node over time.

use std::time::{Duration, Instant};

use super::draws::{RIGHT_MS, TOGETHER_MS, Wrong};
use super::duty::{Duty, change};
use super::streams::Shared;
use super::{RESTARTED, RETURNED};
use crate::checkers::Violation;
use crate::clock::{Clocks, EXACT_MS};
use crate::cluster::Cluster;
use crate::history::{At, Timeline};
use crate::http;
use crate::report::{Counts, count};
use crate::seed::Random;
use crate::strikes::Strike;

/// The interval at which due endings and starts are carried out: a step of a strobe.
const SLICE: Duration = Duration::from_millis(20);

/// The time limits for a node to show that its clock was set, and to answer after its start.
const SHOWN: Duration = Duration::from_secs(1);
const UP: Duration = Duration::from_secs(20);

/// The time after which a started node has measured the others, and they have measured it.
const MEASURED: Duration = Duration::from_secs(4);

/// The planned end of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) node: usize,
    pub(super) strike: Strike,
    pub(super) at: Instant,
    /// The time from the end of the process to its start.
    pub(super) down: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Process {
    Up,
    Down {
        start: Instant,
    },
    /// Started, but the process has not answered yet.
    Starting,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) is_right: bool,
    pub(super) right_since: Instant,
    pub(super) process: Process,
    /// The time at which the process began to run.
    pub(super) began: Instant,
    /// The time at which the process was last ended.
    pub(super) down_since: At,
    /// True if the process was started recently, so that its mark on the disk may still delay it.
    pub(super) is_fresh: bool,
    pub(super) duties: Vec<(At, Duty)>,
}

impl Member {
    fn new(began: Instant) -> Self {
        Self {
            is_right: true,
            right_since: began,
            process: Process::Up,
            began,
            down_since: At::default(),
            is_fresh: false,
            duties: vec![(At::default(), Some(RETURNED))],
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.process, Process::Up)
    }
}

/// An event and its time, with the length of each node's log file.
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
    pub(super) clocks: Clocks,
    pub(super) members: Vec<Member>,
    pub(super) wrong: Wrong,
    /// The faults that the nodes have shown.
    pub(super) faults: Counts,
    /// The times until both other nodes named a wrong clock, and until another node led.
    pub(super) named: Vec<Duration>,
    pub(super) moved: Vec<Duration>,
    pub(super) notes: Vec<Note>,
    /// The times in which a node had no process, or a process that had not answered yet.
    pub(super) downs: Vec<(usize, At, At)>,
    /// The duties of clients of the whole cluster.
    pub(super) all: Vec<(At, Duty)>,
    pub(super) ending: Option<Ending>,
    pub(super) shared: std::sync::Arc<Shared>,
    /// True if all durations are halved.
    pub(super) is_short: bool,
    /// True if two clocks are wrong, so that all nodes may refuse.
    is_split: bool,
    /// The additional time until nodes must serve again, because IDs were minted ahead of time.
    ahead: Duration,
}

impl Driver {
    pub(super) fn new(
        cluster: Cluster,
        (clocks, began): (Clocks, Instant),
        (timeline, random): (Timeline, Random),
        shared: std::sync::Arc<Shared>,
        is_short: bool,
    ) -> Self {
        Self {
            cluster,
            timeline,
            random,
            clocks,
            members: (0..3).map(|_| Member::new(began)).collect(),
            wrong: Wrong::default(),
            faults: Counts::new(),
            named: Vec::new(),
            moved: Vec::new(),
            notes: Vec::new(),
            downs: Vec::new(),
            all: vec![(At::default(), Some(RETURNED))],
            ending: None,
            shared,
            is_short,
            is_split: false,
            ahead: Duration::ZERO,
        }
    }

    /// The duties of a node, or of a generator.
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

    /// Sets a clock. It counts as one step.
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

    /// Like [`Driver::step`], but the duties of the node stay as they are.
    pub(super) fn set(&mut self, node: usize, ms: i64) {
        self.wrong.had(node, self.clocks.ms[node]);
        self.wrong.had(node, ms);
        self.clocks.set(node, ms);
    }

    pub(super) fn counts(&mut self, what: impl Into<String>) {
        count(&mut self.faults, what);
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

    /// Two clocks begin to be wrong, by the same offset or not.
    pub(super) fn begin_split(&mut self, are_together: bool) {
        self.is_split = true;
        self.set_duties();
        if are_together {
            self.off_ms(TOGETHER_MS);
        }
    }

    /// At most one clock is wrong again.
    pub(super) fn end_split(&mut self, were_together: bool) {
        if were_together {
            // The additional second is for the layout with the longest ticks, which waits for the
            // next tick.
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

    /// Records the new duties of all streams, if they have changed.
    fn set_duties(&mut self) {
        let at = self.timeline.at();
        let of_all = self.returning(false);
        change(&mut self.all, at, of_all);
        for node in 0..self.members.len() {
            let member = &mut self.members[node];
            member.is_fresh &= member.began.elapsed() < RESTARTED;
            let member = &self.members[node];
            let is_free = matches!(member.process, Process::Down { .. }) || !member.is_right;
            let duty = self.returning(member.is_fresh).filter(|_| !is_free);
            change(&mut self.members[node].duties, at, duty);
        }
    }

    fn returning(&self, is_fresh: bool) -> Duty {
        let first = if is_fresh { RESTARTED } else { RETURNED };
        (!self.is_split).then_some(first + self.ahead)
    }

    /// Draws a duration between two numbers of milliseconds.
    pub(super) fn span(&mut self, least: u64, most: u64) -> Duration {
        let length = self.random.between((least, most));
        if self.is_short { length / 2 } else { length }
    }

    /// Waits, and ends and starts due processes meanwhile.
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
        let Ending { node, strike, .. } = ending;
        self.members[node].down_since = self.timeline.at();
        self.members[node].process = Process::Down {
            start: Instant::now() + ending.down,
        };
        self.set_duties();
        let (ms, is_right) = (self.clocks.ms[node], self.members[node].is_right);
        let state = if is_right { "right" } else { "wrong" };
        let name = self.cluster.node(node).name();
        self.note(format!(
            "{strike:?} of {name}, whose clock is {state} ({ms} ms)"
        ));
        self.counts(format!("{strike:?} with a {state} clock"));
        strike.impose(&mut self.cluster, node);
        let runs = self.cluster.node_mut(node).is_running();
        assert!(!runs, "n{} runs on after {strike:?}", node + 1);
    }

    fn start(&mut self, node: usize) {
        let member = &mut self.members[node];
        member.began = Instant::now();
        member.process = Process::Starting;
        member.is_fresh = true;
        let state = if member.is_right { "right" } else { "wrong" };
        self.counts(format!("started with a {state} clock"));
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

    /// Waits until every process answers.
    pub(super) fn all_up(&mut self) {
        self.ending = None;
        while !self.members.iter().all(Member::is_up) {
            self.pause(SLICE);
        }
    }

    /// Returns whether a process may be ended: all others have measured it and its clock as they
    /// are.
    fn may_end(&self, node: usize) -> bool {
        let is_known = |member: &Member| member.is_up() && member.began.elapsed() > MEASURED;
        let member = &self.members[node];
        let is_right = member.right_since.elapsed() > MEASURED || !member.is_right;
        is_right && self.members.iter().all(is_known)
    }

    /// Returns whether every process has run since before this time, and long enough to have
    /// measured the others' clocks.
    pub(super) fn has_run_since(&self, begin: Instant) -> bool {
        self.members.iter().all(|member| {
            member.is_up() && member.began < begin && member.began.elapsed() > MEASURED
        })
    }

    /// The other node whose clock has been right for the longest time.
    fn right_one(&self, node: usize) -> usize {
        let others = (0..3).filter(|other| *other != node);
        let age = |other: &usize| {
            (
                !self.members[*other].is_right,
                self.members[*other].right_since,
            )
        };
        others.min_by_key(age).expect("another node")
    }

    /// The offset of a node's clock from another node's right clock, in ms, in the node's own view.
    pub(super) fn shown_ms(&self, node: usize) -> Option<i64> {
        self.clocks
            .shown_ms(&self.cluster, node, self.right_one(node))
    }

    /// Checks that the node shows its clock's new offset; `before` is the offset that it showed
    /// before.
    pub(super) fn see_step(&mut self, node: usize, before: i64) -> Result<(), Violation> {
        if (self.clocks.ms[node] - before).abs() <= 2 * EXACT_MS {
            self.counts("steps too small to be seen");
            return Ok(());
        }
        let is_up = self.members[node].is_up();
        let nodes = (node, self.right_one(node));
        let see = || self.clocks.see(&self.cluster, nodes, EXACT_MS, SHOWN);
        let seen = if is_up { see() } else { Ok(()) };
        let is_young = !is_up || self.members[node].began.elapsed() < MEASURED;
        match seen {
            Ok(()) if is_up => self.counts("steps shown"),
            Err(violation) if !is_young => return Err(violation),
            _ => self.counts("steps while it started"),
        }
        Ok(())
    }
}
