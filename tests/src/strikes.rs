//! The fault plan of a run: faults of processes, links and clocks, one after another. Each fault is
//! counted after it had an effect, and every node must serve again after it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::{Violation, require};
use crate::clock::{Clocks, draw_ms};
use crate::cluster::Cluster;
use crate::faults::{FAULT_WITHOUT_EFFECT, Paused};
use crate::history::{At, Timeline};
use crate::link_faults::{self, LinkFault};
use crate::links::{Condition, Pairs};
use crate::report::{Counts, Report, count};
use crate::seed::Random;
use crate::{http, links, wait};

/// The time for which a killed node is down, at least and at most.
const DOWN_MS: (u64, u64) = (0, 2_500);

/// The time limit for linearizable reads at every node after a fault.
pub const SERVES: Duration = Duration::from_secs(20);

/// A clock is set by a millisecond to an hour. A node measures the other clocks every second: the
/// accuracy, and the time limit, with which its view must show the step.
const STEP_MS: (f64, f64) = (1.0, 3_600_000.0);
const SEEN_MS: i64 = 100;
const SEEN_WITHIN: Duration = Duration::from_secs(6);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// `kill -9`: the kernel closes its connections and its ports.
    Killed,
    /// SIGTERM.
    Ended,
    /// SIGSTOP: the kernel still accepts data for it.
    Stopped,
    /// A node is cut off from the other nodes; its clients still reach it.
    Cut,
    /// A node is cut off from the other nodes and from its clients.
    Silent,
    /// The leadership is transferred.
    Moved,
    /// A clock is set a few times.
    ClockSet,
    /// All clocks are set a few times.
    ClocksSet,
}

/// A fault, and whether it strikes the leader.
pub type Turn = (Strike, bool);

/// The faults of a run, and their times.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// One round.
    pub turns: &'static [Turn],
    pub is_shuffled: bool,
    /// The pause before a fault, at least and at most.
    pub pause_ms: (u64, u64),
    /// The time for which a node is stopped, cut off or silent, at least and at most.
    pub away_ms: (u64, u64),
}

/// A fault of a node in force; a process or a link heals when this is dropped.
#[derive(Debug)]
pub enum InForce {
    Down(usize),
    Paused(Paused),
    OnLinks(link_faults::InForce),
}

/// A fault that took a node away, until all nodes served again.
#[derive(Debug, Clone)]
pub struct Struck {
    pub name: String,
    pub from: At,
    pub to: At,
}

impl Strike {
    pub fn name(self, of_leader: bool) -> String {
        let whom = if of_leader { "leader" } else { "follower" };
        format!("{whom} {self:?}")
    }

    fn needs_links(self) -> bool {
        matches!(self, Self::Cut | Self::Silent)
    }

    /// Starts a fault that takes a node away.
    pub fn impose(self, cluster: &mut Cluster, node: usize) -> InForce {
        match self {
            Self::Killed => {
                cluster.node_mut(node).kill();
                InForce::Down(node)
            }
            Self::Ended => {
                let status = cluster.node_mut(node).stop();
                assert_eq!(status.code(), Some(0), "{}", cluster.node(node).tail());
                InForce::Down(node)
            }
            Self::Stopped => InForce::Paused(Paused::new(cluster.node(node))),
            Self::Cut => {
                let alone = LinkFault::named("leader-alone").expect("a fault of the table");
                InForce::OnLinks(alone.impose(cluster, node))
            }
            Self::Silent => {
                let cables = Pairs::cables(&[node]);
                let cut = cluster.links().impose(cables, Condition::Cut);
                InForce::OnLinks(link_faults::InForce::OnLinks(vec![cut]))
            }
            Self::Moved | Self::ClockSet | Self::ClocksSet => panic!("{self:?} takes nobody away"),
        }
    }
}

impl InForce {
    /// Ends the fault; an error if it had no effect.
    pub fn heal(self, cluster: &mut Cluster) -> Result<(), Violation> {
        match self {
            Self::Down(node) => cluster.node_mut(node).start(),
            Self::Paused(paused) => paused.heal()?,
            Self::OnLinks(fault) => drop(fault.heal()?),
        }
        Ok(())
    }
}

/// The faults of a run.
#[derive(Debug)]
pub struct Strikes {
    plan: Plan,
    pub random: Random,
    pub timeline: Timeline,
    has_links: bool,
    clocks: Option<Clocks>,
    next_clock: usize,
    pub counts: Counts,
    pub struck: Vec<Struck>,
    /// The longest time from the end of a fault until every node served again.
    serves: Duration,
}

impl Strikes {
    /// With clocks, some faults also set one of them wrong.
    pub fn new(plan: Plan, random: Random, has_links: bool, clocks: Option<Clocks>) -> Self {
        Self {
            plan,
            random,
            timeline: Timeline::begin(),
            has_links,
            clocks,
            next_clock: 0,
            counts: Counts::new(),
            struck: Vec::new(),
            serves: Duration::ZERO,
        }
    }

    /// Injects rounds of faults until `goes_on`, which gets the number of finished rounds, returns
    /// `false`.
    pub fn strike_while(
        &mut self,
        cluster: &mut Cluster,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<(), Violation> {
        for round in 0.. {
            let mut turns = self.plan.turns.to_vec();
            if self.plan.is_shuffled {
                self.random.shuffle(&mut turns);
            }
            for (strike, of_leader) in turns {
                if !goes_on(round) {
                    return Ok(());
                }
                std::thread::sleep(self.random.between(self.plan.pause_ms));
                if self.has_links || !strike.needs_links() {
                    self.strike(cluster, strike, of_leader)?;
                }
            }
        }
        Ok(())
    }

    /// Starts a fault at the leader or at another node, and ends it.
    fn strike(
        &mut self,
        cluster: &mut Cluster,
        strike: Strike,
        of_leader: bool,
    ) -> Result<(), Violation> {
        let leader = cluster.leader();
        let other = (leader + 1 + self.random.below(2) as usize) % 3;
        let name = strike.name(of_leader);
        let from = self.timeline.at();
        let takes_away = match strike {
            Strike::Moved => {
                self.move_leader(cluster, other)?;
                false
            }
            Strike::ClockSet => {
                let node = if of_leader { leader } else { self.next_clock };
                self.next_clock = (self.next_clock + 1) % 3;
                self.set_clocks(cluster, &[node])?;
                false
            }
            Strike::ClocksSet => {
                self.set_clocks(cluster, &[0, 1, 2])?;
                false
            }
            _ => {
                let node = if of_leader { leader } else { other };
                self.take_away(cluster, strike, node)?;
                true
            }
        };
        count(&mut self.counts, name.as_str());
        let healed = Instant::now();
        wait_serving(cluster)?;
        self.serves = self.serves.max(healed.elapsed());
        if takes_away {
            let to = self.timeline.at();
            self.struck.push(Struck { name, from, to });
        }
        Ok(())
    }

    /// Takes a node away for a while. During every third of these faults a clock is wrong as well.
    fn take_away(
        &mut self,
        cluster: &mut Cluster,
        strike: Strike,
        node: usize,
    ) -> Result<(), Violation> {
        let random = &mut self.random;
        let wrong = self.clocks.as_mut().filter(|_| random.below(3) == 0);
        let wrong = wrong.map(|clocks| (clocks, random.below(3) as usize));
        let wrong = wrong.map(|(clocks, clock)| {
            clocks.set(clock, draw_ms(random, STEP_MS.0, STEP_MS.1));
            (clocks, clock)
        });
        let in_force = strike.impose(cluster, node);
        let away_ms = match in_force {
            InForce::Down(_) => DOWN_MS,
            _ => self.plan.away_ms,
        };
        std::thread::sleep(random.between(away_ms));
        in_force.heal(cluster)?;
        if let Some((clocks, clock)) = wrong {
            clocks.set(clock, 0);
            count(&mut self.counts, "a clock wrong beside");
        }
        Ok(())
    }

    /// Moves the leader to another node. A refused transfer is requested again.
    fn move_leader(&mut self, cluster: &Cluster, to: usize) -> Result<(), Violation> {
        let name = cluster.node(to).name();
        let asked = self.random.below(3) as usize;
        let url = cluster.url(asked, "/v1/cluster/leader");
        let moved = wait::within(Duration::from_secs(15), || {
            let request = http::post(&url).json(&json!({"node": name}));
            let _ = request.patience(Duration::from_secs(4)).send();
            (cluster.leader_claims() == Some(to)).then_some(())
        });
        let detail = format!("the leader did not move to {name}");
        require(moved.is_some(), FAULT_WITHOUT_EFFECT, detail)
    }

    /// Sets these clocks a few times, checks that the nodes show it, and sets them right again.
    fn set_clocks(&mut self, cluster: &Cluster, nodes: &[usize]) -> Result<(), Violation> {
        let clocks = self.clocks.as_mut().expect("a plan with clocks has some");
        let random = &mut self.random;
        for _ in 0..2 + random.below(4) {
            for &node in nodes {
                clocks.set(node, draw_ms(random, STEP_MS.0, STEP_MS.1));
            }
            std::thread::sleep(random.between((100, 1_500)));
        }
        for &node in nodes {
            // Large enough for the view of a node to show it.
            let ms = draw_ms(random, STEP_MS.0, STEP_MS.1);
            clocks.set(node, ms + ms.signum() * 2 * SEEN_MS);
        }
        for &node in nodes {
            clocks.see(cluster, (node, (node + 1) % 3), SEEN_MS, SEEN_WITHIN)?;
        }
        nodes.iter().for_each(|&node| clocks.set(node, 0));
        Ok(())
    }

    /// Prints the faults. Requires at least one.
    pub fn judge(&self, report: &mut Report) {
        let (counts, serves) = (&self.counts, self.serves);
        println!("  faults that bit: {counts:?}; then all served within {serves:.2?}");
        if let Some(clocks) = &self.clocks {
            let (steps, furthest) = (clocks.steps, clocks.furthest_ms);
            println!("  {steps} steps of clocks, by up to {furthest} ms");
        }
        report.require(
            !counts.is_empty(),
            FAULT_WITHOUT_EFFECT,
            "the load was done before the first",
        );
    }
}

/// Waits until every node serves a linearizable read.
pub fn wait_serving(cluster: &Cluster) -> Result<(), Violation> {
    let begun = Instant::now();
    for node in 0..cluster.size() {
        let url = cluster.url(node, "/v1/locks/probe");
        let serves = || {
            let asked = http::get(&url).patience(Duration::from_secs(1)).send();
            asked.is_ok_and(|reply| reply.status == 200).then_some(())
        };
        let served = wait::within(SERVES.saturating_sub(begun.elapsed()), serves);
        let detail = format!("n{} does not within {SERVES:?}", node + 1);
        require(served.is_some(), "service after a fault", detail)?;
    }
    Ok(())
}

/// Three nodes, on links if those are available.
pub fn cluster(may_have_links: bool) -> (Cluster, bool) {
    let has_links = may_have_links
        && links::unavailable()
            .inspect(|why| println!("nobody is cut off, since there are no links: {why}"))
            .is_none();
    let planned = if has_links {
        Cluster::on_links(3, 0)
    } else {
        Cluster::planned(3)
    };
    (planned, has_links)
}
