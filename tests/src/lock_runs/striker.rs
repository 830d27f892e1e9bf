//! The faults of a run, one after another: processes killed and stopped, links cut, leaders moved,
//! clocks set; and when each was over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::Violation;
use crate::clock::ShiftedClock;
use crate::cluster::Cluster;
use crate::faults::Paused;
use crate::history::{At, Timeline};
use crate::link_faults::{InForce, LinkFault};
use crate::links::{Condition, Pairs};
use crate::seed::Random;
use crate::{http, wait};

/// Longer than any hold.
const BEYOND_HOLDS_MS: (u64, u64) = (3_300, 4_500);

/// The largest step of a clock, milliseconds.
const MOST_STEP_MS: f64 = 3_600_000.0;

/// How exactly a step shows in a node's view of the other clocks; a smaller one is not looked for.
const EXACT_MS: i64 = 100;

/// How long a node may take to show a step: it asks the others every second.
const SHOWN: Duration = Duration::from_secs(6);

/// How long after a fault every node is to serve locks again.
const SERVES: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Killed,
    Stopped,
    /// A node does not reach the others, and its clients reach it.
    Cut,
    /// Nobody reaches a node.
    Silent,
    Moved,
    Steps,
    AllSteps,
}

/// One round: the kind, and whether it is the leader that it is about.
const ROUND: [(Kind, bool); 14] = [
    (Kind::Killed, true),
    (Kind::Killed, false),
    (Kind::Stopped, true),
    (Kind::Stopped, false),
    (Kind::Cut, true),
    (Kind::Cut, false),
    (Kind::Silent, true),
    (Kind::Silent, false),
    (Kind::Moved, true),
    (Kind::Moved, true),
    (Kind::Steps, true),
    (Kind::Steps, false),
    (Kind::Steps, false),
    (Kind::AllSteps, false),
];

/// What a story has time for.
const SHORT_ROUND: [(Kind, bool); 5] = [
    (Kind::Killed, true),
    (Kind::Steps, true),
    (Kind::Stopped, true),
    (Kind::Moved, true),
    (Kind::AllSteps, false),
];

/// A fault of a process or a link, after which a hold may be lost that could not be renewed.
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
    random: Random,
    timeline: Timeline,
    has_links: bool,
    next_clock: usize,
    pub(super) struck: Vec<Struck>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// How often a clock was set, and how many of these steps were seen in a node's view.
    pub(super) steps: u64,
    pub(super) shown: u64,
    /// The furthest that a clock was set.
    pub(super) furthest_ms: u64,
    /// From the end of a fault until every node served locks again, at most.
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
            random,
            timeline,
            has_links,
            next_clock: 0,
            struck: Vec::new(),
            counts: BTreeMap::new(),
            steps: 0,
            shown: 0,
            furthest_ms: 0,
            serves: Duration::ZERO,
        }
    }

    /// Strikes for so long, and at least one short round.
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
            self.random.shuffle(&mut round);
            for (kind, of_leader) in round {
                if rounds > 0 && begun.elapsed() >= length {
                    break;
                }
                let rest = self.between(200, 1_500);
                std::thread::sleep(rest);
                self.strike(kind, of_leader)?;
                if progress.elapsed() > Duration::from_secs(60) {
                    println!("{:.0?}: {:?}", begun.elapsed(), self.counts);
                    progress = Instant::now();
                }
            }
            rounds += 1;
        }
        Ok(())
    }

    fn between(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(least_ms + self.random.below(most_ms - least_ms + 1))
    }

    fn strike(&mut self, kind: Kind, of_leader: bool) -> Result<(), Violation> {
        if matches!(kind, Kind::Cut | Kind::Silent) && !self.has_links {
            return Ok(());
        }
        let leader = self.cluster.leader();
        let other = 1 + self.random.below(2) as usize;
        let victim = if of_leader {
            leader
        } else {
            (leader + other) % 3
        };
        let is_of_clocks = matches!(kind, Kind::Steps | Kind::AllSteps | Kind::Moved);
        // In some of the other faults a clock is wrong as well.
        let beside = (!is_of_clocks && self.random.below(3) == 0).then(|| {
            let node = self.random.below(3) as usize;
            let ms = self.draw_ms();
            self.set(node, ms);
            node
        });
        let name = named(kind, of_leader);
        let from = self.timeline.at();
        match kind {
            Kind::Killed => self.kill(victim),
            Kind::Stopped => self.stop(victim)?,
            Kind::Cut | Kind::Silent => self.cut(kind, victim, name)?,
            Kind::Moved => self.move_leader(leader)?,
            Kind::Steps => {
                let node = if of_leader { leader } else { self.next_clock };
                self.next_clock = (self.next_clock + 1) % 3;
                self.step(&[node])?;
            }
            Kind::AllSteps => self.step(&[0, 1, 2])?,
        }
        let healed = Instant::now();
        if let Some(node) = beside {
            *self.counts.entry("a clock wrong beside").or_default() += 1;
            self.set(node, 0);
        }
        self.wait_serving()?;
        self.serves = self.serves.max(healed.elapsed());
        *self.counts.entry(name).or_default() += 1;
        if !is_of_clocks {
            let to = self.timeline.at();
            self.struck.push(Struck { name, from, to });
        }
        Ok(())
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

    fn kill(&mut self, node: usize) {
        self.cluster.node_mut(node).kill();
        let down = self.between(0, 2_500);
        std::thread::sleep(down);
        self.cluster.node_mut(node).start();
    }

    fn stop(&mut self, node: usize) -> Result<(), Violation> {
        let paused = Paused::new(self.cluster.node(node));
        let length = self.between(BEYOND_HOLDS_MS.0, BEYOND_HOLDS_MS.1);
        std::thread::sleep(length);
        if paused.stands() {
            return Ok(());
        }
        Err(never_bit(format!(
            "n{} ran on when it was stopped",
            node + 1
        )))
    }

    fn cut(&mut self, kind: Kind, node: usize, name: &str) -> Result<(), Violation> {
        let links = self.cluster.links();
        let fault = if kind == Kind::Silent {
            let cables = links.impose(Pairs::cables(&[node]), Condition::Cut);
            InForce::OnLinks(vec![cables])
        } else {
            let alone = LinkFault::named("leader-alone").expect("a fault of the table");
            alone.impose(&self.cluster, node)
        };
        let length = self.between(BEYOND_HOLDS_MS.0, BEYOND_HOLDS_MS.1);
        std::thread::sleep(length);
        if fault.heal().1 {
            return Ok(());
        }
        Err(never_bit(name.to_owned()))
    }

    /// Moves the leader to another node; a transfer that is refused is asked for again.
    fn move_leader(&mut self, leader: usize) -> Result<(), Violation> {
        let to = (leader + 1 + self.random.below(2) as usize) % 3;
        let name = self.cluster.node(to).name().to_owned();
        let asked = self.random.below(3) as usize;
        let url = self.cluster.url(asked, "/v1/cluster/leader");
        let moved = || {
            let request = http::post(&url).json(&json!({"node": name}));
            let _ = request.patience(Duration::from_secs(4)).send();
            (self.cluster.leader_claims() == Some(to)).then_some(())
        };
        wait::within(Duration::from_secs(15), moved)
            .ok_or_else(|| never_bit(format!("the leader did not move to {name}")))
    }

    /// A millisecond to an hour, either way.
    fn draw_ms(&mut self) -> i64 {
        let share = self.random.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let ms = (MOST_STEP_MS.ln() * share).exp().round() as i64;
        if self.random.below(2) == 0 { ms } else { -ms }
    }

    fn set(&mut self, node: usize, ms: i64) {
        self.clocks[node].shift_ms(ms);
        self.ms[node] = ms;
        self.steps += 1;
        self.furthest_ms = self.furthest_ms.max(ms.unsigned_abs());
    }

    /// Sets these clocks a few times, and right again at the end.
    fn step(&mut self, nodes: &[usize]) -> Result<(), Violation> {
        for _ in 0..2 + self.random.below(4) {
            for &node in nodes {
                let ms = self.draw_ms();
                self.set(node, ms);
            }
            let hold = self.between(100, 1_500);
            std::thread::sleep(hold);
        }
        for &node in nodes {
            // One that shows.
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

    /// Sees to it that a node shows how its clock differs from another's.
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

fn never_bit(detail: String) -> Violation {
    Violation::new("a fault that never bit", detail)
}

fn named(kind: Kind, of_leader: bool) -> &'static str {
    match (kind, of_leader) {
        (Kind::Killed, true) => "leader killed",
        (Kind::Killed, false) => "follower killed",
        (Kind::Stopped, true) => "leader stopped past holds",
        (Kind::Stopped, false) => "follower stopped past holds",
        (Kind::Cut, true) => "leader cut off",
        (Kind::Cut, false) => "follower cut off",
        (Kind::Silent, true) => "leader silent",
        (Kind::Silent, false) => "follower silent",
        (Kind::Moved, _) => "leader moved",
        (Kind::Steps, true) => "the leader's clock stepped",
        (Kind::Steps, false) => "a clock stepped",
        (Kind::AllSteps, _) => "all clocks stepped",
    }
}
