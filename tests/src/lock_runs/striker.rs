//! The faults of a run, one after another, with their times: processes killed and stopped, links
//! cut, leaders moved, clocks set.

use std::time::{Duration, Instant};

use crate::checkers::Violation;
use crate::clock::ShiftedClock;
use crate::cluster::Cluster;
use crate::faults::never_bit;
use crate::history::{At, Timeline};
use crate::seed::Random;
use crate::strikes::{Counts, Strike, Strikes};
use crate::{http, wait};

/// Longer than any hold, in ms.
const BEYOND_HOLDS_MS: (u64, u64) = (3_300, 4_500);

/// The largest step of a clock, in milliseconds.
const MOST_STEP_MS: f64 = 3_600_000.0;

/// The precision with which a step shows in a node's view of the other clocks. Smaller steps are
/// not checked.
const EXACT_MS: i64 = 100;

/// The longest time until a node shows a step. It polls the others every second.
const SHOWN: Duration = Duration::from_secs(6);

/// The time after a fault within which every node must serve locks again.
const SERVES: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node(Strike),
    Steps,
    AllSteps,
}

/// One round: the kind, and whether it concerns the leader.
const ROUND: [(Kind, bool); 14] = [
    (Kind::Node(Strike::Killed), true),
    (Kind::Node(Strike::Killed), false),
    (Kind::Node(Strike::Stopped), true),
    (Kind::Node(Strike::Stopped), false),
    (Kind::Node(Strike::Cut), true),
    (Kind::Node(Strike::Cut), false),
    (Kind::Node(Strike::Silent), true),
    (Kind::Node(Strike::Silent), false),
    (Kind::Node(Strike::Moved), true),
    (Kind::Node(Strike::Moved), true),
    (Kind::Steps, true),
    (Kind::Steps, false),
    (Kind::Steps, false),
    (Kind::AllSteps, false),
];

/// The round of a story, which has less time.
const SHORT_ROUND: [(Kind, bool); 5] = [
    (Kind::Node(Strike::Killed), true),
    (Kind::Steps, true),
    (Kind::Node(Strike::Stopped), true),
    (Kind::Node(Strike::Moved), true),
    (Kind::AllSteps, false),
];

/// A fault of a process or a link, after which a hold that could not be renewed may be lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Struck {
    pub(super) name: &'static str,
    pub(super) from: At,
    pub(super) to: At,
}

pub(super) struct Striker {
    pub(super) cluster: Cluster,
    clocks: Vec<ShiftedClock>,
    ms: [i64; 3],
    strikes: Strikes,
    timeline: Timeline,
    next_clock: usize,
    pub(super) struck: Vec<Struck>,
    /// The number of clock steps, and the number of these that a node's view showed.
    pub(super) steps: u64,
    pub(super) shown: u64,
    /// The furthest that a clock was set.
    pub(super) furthest_ms: u64,
    /// The longest time from the end of a fault until every node served locks again.
    pub(super) serves: Duration,
}

impl Striker {
    pub(super) fn new(
        cluster: Cluster,
        clocks: Vec<ShiftedClock>,
        (random, timeline): (Random, Timeline),
        has_links: bool,
    ) -> Self {
        Self {
            cluster,
            clocks,
            ms: [0; 3],
            strikes: Strikes::new(random, has_links, BEYOND_HOLDS_MS),
            timeline,
            next_clock: 0,
            struck: Vec::new(),
            steps: 0,
            shown: 0,
            furthest_ms: 0,
            serves: Duration::ZERO,
        }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.strikes.counts
    }

    /// Injects faults for this long, and at least one short round.
    pub(super) fn strike_for(&mut self, length: Duration) -> Result<(), Violation> {
        let begun = Instant::now();
        let mut progress = Instant::now();
        let mut rounds = 0;
        while rounds == 0 || begun.elapsed() < length {
            let is_short = length.is_zero();
            let mut round = if is_short {
                SHORT_ROUND.to_vec()
            } else {
                ROUND.to_vec()
            };
            self.strikes.random.shuffle(&mut round);
            for (kind, of_leader) in round {
                if rounds > 0 && begun.elapsed() >= length {
                    break;
                }
                let rest = self.strikes.between(200, 1_500);
                std::thread::sleep(rest);
                self.strike(kind, of_leader)?;
                if progress.elapsed() > Duration::from_secs(60) {
                    println!("{:.0?}: {:?}", begun.elapsed(), self.counts());
                    progress = Instant::now();
                }
            }
            rounds += 1;
        }
        Ok(())
    }

    fn strike(&mut self, kind: Kind, of_leader: bool) -> Result<(), Violation> {
        if matches!(kind, Kind::Node(strike) if self.strikes.lacks_links(strike)) {
            return Ok(());
        }
        let takes_a_node_away = matches!(kind, Kind::Node(strike) if strike != Strike::Moved);
        // In some of these faults a clock is wrong as well.
        let beside = (takes_a_node_away && self.strikes.random.below(3) == 0).then(|| {
            let node = self.strikes.random.below(3) as usize;
            let ms = self.draw_ms();
            self.set(node, ms);
            node
        });
        let from = self.timeline.at();
        match kind {
            Kind::Node(strike) => self.strikes.strike(&mut self.cluster, strike, of_leader)?,
            Kind::Steps => {
                let leader = self.cluster.leader();
                let node = if of_leader { leader } else { self.next_clock };
                self.next_clock = (self.next_clock + 1) % 3;
                self.step(&[node])?;
                let name = if of_leader {
                    "the leader's clock stepped"
                } else {
                    "a clock stepped"
                };
                self.count(name);
            }
            Kind::AllSteps => {
                self.step(&[0, 1, 2])?;
                self.count("all clocks stepped");
            }
        }
        let healed = Instant::now();
        if let Some(node) = beside {
            self.count("a clock wrong beside");
            self.set(node, 0);
        }
        self.wait_serving()?;
        self.serves = self.serves.max(healed.elapsed());
        if let Kind::Node(strike) = kind
            && takes_a_node_away
        {
            let (name, to) = (strike.name(of_leader), self.timeline.at());
            self.struck.push(Struck { name, from, to });
        }
        Ok(())
    }

    fn count(&mut self, name: &'static str) {
        *self.strikes.counts.entry(name).or_default() += 1;
    }

    /// Waits until every node serves a linearizable read of a lock.
    pub(super) fn wait_serving(&self) -> Result<(), Violation> {
        let begun = Instant::now();
        for node in 0..3 {
            let url = self.cluster.url(node, "/v1/locks/probe");
            let serves = || {
                let asked = http::get(&url).patience(Duration::from_secs(1)).send();
                asked.is_ok_and(|reply| reply.status == 200).then_some(())
            };
            if wait::within(SERVES.saturating_sub(begun.elapsed()), serves).is_none() {
                let detail = format!("n{} does not within {SERVES:?}", node + 1);
                return Err(Violation::new("locks are served after a fault", detail));
            }
        }
        Ok(())
    }

    /// A random step of a millisecond to an hour, in either direction.
    fn draw_ms(&mut self) -> i64 {
        let share = self.strikes.random.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let ms = (MOST_STEP_MS.ln() * share).exp().round() as i64;
        if self.strikes.random.below(2) == 0 {
            ms
        } else {
            -ms
        }
    }

    fn set(&mut self, node: usize, ms: i64) {
        self.clocks[node].shift_ms(ms);
        self.ms[node] = ms;
        self.steps += 1;
        self.furthest_ms = self.furthest_ms.max(ms.unsigned_abs());
    }

    /// Sets these clocks a few times, and corrects them at the end.
    fn step(&mut self, nodes: &[usize]) -> Result<(), Violation> {
        for _ in 0..2 + self.strikes.random.below(4) {
            for &node in nodes {
                let ms = self.draw_ms();
                self.set(node, ms);
            }
            let hold = self.strikes.between(100, 1_500);
            std::thread::sleep(hold);
        }
        for &node in nodes {
            // A step that is large enough to show.
            let ms = self.draw_ms();
            self.set(node, ms + ms.signum() * 2 * EXACT_MS);
        }
        for &node in nodes {
            self.see_step(node)?;
        }
        for &node in nodes {
            self.set(node, 0);
        }
        Ok(())
    }

    /// Checks that a node shows the difference between its clock and another one.
    fn see_step(&mut self, node: usize) -> Result<(), Violation> {
        let other = (node + 1) % 3;
        let expected = self.ms[other] - self.ms[node];
        let name = self.cluster.node(other).name();
        let mut last = None;
        let shown = wait::within(SHOWN, || {
            let view = self.cluster.node(node).cluster_view()?;
            let mut members = view["members"].as_array()?.iter();
            let member = members.find(|member| member["name"] == name)?;
            let offset_ms = member["clock_offset_ms"].as_f64()?.round() as i64;
            last = Some(offset_ms);
            ((offset_ms - expected).abs() < EXACT_MS).then_some(())
        });
        if shown.is_some() {
            self.shown += 1;
            return Ok(());
        }
        Err(never_bit(format!(
            "n{} shows {last:?} ms to {name}, and {expected} ms is set",
            node + 1
        )))
    }
}
