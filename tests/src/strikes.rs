//! Faults of nodes and of their links, one after another, in runs of every kind. Counts how often
//! each fault was injected.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::faults::{Paused, never_bit};
use crate::link_faults::{InForce, LinkFault};
use crate::links::{Condition, Pairs};
use crate::seed::Random;
use crate::{http, links, wait};

/// The longest time for which a killed node is down, in ms.
const DOWN_MS: u64 = 2_500;

/// The longest time from the end of the last fault until every node is ready.
const RECOVERED: Duration = Duration::from_secs(20);

/// The number of injections of each fault.
pub type Counts = BTreeMap<&'static str, u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    Killed,
    Stopped,
    /// The node cannot reach the other nodes, but its clients can reach it.
    Cut,
    /// Nothing can reach the node.
    Silent,
    /// Leadership is transferred.
    Moved,
}

impl Strike {
    pub fn name(self, of_leader: bool) -> &'static str {
        match (self, of_leader) {
            (Self::Killed, true) => "leader killed",
            (Self::Killed, false) => "follower killed",
            (Self::Stopped, true) => "leader stopped",
            (Self::Stopped, false) => "follower stopped",
            (Self::Cut, true) => "leader cut off",
            (Self::Cut, false) => "follower cut off",
            (Self::Silent, true) => "leader silent",
            (Self::Silent, false) => "follower silent",
            (Self::Moved, _) => "leader moved",
        }
    }
}

#[derive(Debug)]
pub struct Strikes {
    pub random: Random,
    has_links: bool,
    /// The shortest and longest time for which a node is stopped, cut off or silent, in ms.
    away_ms: (u64, u64),
    pub counts: Counts,
}

impl Strikes {
    pub fn new(random: Random, has_links: bool, away_ms: (u64, u64)) -> Self {
        Self {
            random,
            has_links,
            away_ms,
            counts: Counts::new(),
        }
    }

    pub fn between(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(least_ms + self.random.below(most_ms - least_ms + 1))
    }

    /// Returns whether this fault needs links that do not exist.
    pub fn lacks_links(&self, strike: Strike) -> bool {
        matches!(strike, Strike::Cut | Strike::Silent) && !self.has_links
    }

    /// Injects a fault at the leader or at a follower, and ends it. Skips a fault that needs links
    /// that do not exist.
    pub fn strike(
        &mut self,
        cluster: &mut Cluster,
        strike: Strike,
        of_leader: bool,
    ) -> Result<(), Violation> {
        if self.lacks_links(strike) {
            return Ok(());
        }
        let leader = cluster.leader();
        let other = 1 + self.random.below(2) as usize;
        let node = if of_leader {
            leader
        } else {
            (leader + other) % 3
        };
        let away = self.between(self.away_ms.0, self.away_ms.1);
        let name = strike.name(of_leader);
        match strike {
            Strike::Killed => {
                cluster.node_mut(node).kill();
                std::thread::sleep(self.between(0, DOWN_MS));
                cluster.node_mut(node).start();
            }
            Strike::Stopped => Paused::new(cluster.node(node)).hold(away)?,
            Strike::Cut => {
                let alone = LinkFault::named("leader-alone").expect("a fault of the table");
                alone.impose(cluster, node).hold(name, away)?;
            }
            Strike::Silent => {
                let cables = cluster
                    .links()
                    .impose(Pairs::cables(&[node]), Condition::Cut);
                InForce::OnLinks(vec![cables]).hold(name, away)?;
            }
            Strike::Moved => self.move_leader(cluster, leader)?,
        }
        *self.counts.entry(name).or_default() += 1;
        Ok(())
    }

    /// Transfers leadership to another node, with retries after a refusal.
    fn move_leader(&mut self, cluster: &Cluster, leader: usize) -> Result<(), Violation> {
        let to = (leader + 1 + self.random.below(2) as usize) % 3;
        let name = cluster.node(to).name();
        let asked = self.random.below(3) as usize;
        let url = cluster.url(asked, "/v1/cluster/leader");
        let moved = || {
            let request = http::post(&url).json(&json!({"node": name}));
            let _ = request.patience(Duration::from_secs(4)).send();
            (cluster.leader_claims() == Some(to)).then_some(())
        };
        wait::within(Duration::from_secs(15), moved)
            .ok_or_else(|| never_bit(format!("the leader did not move to {name}")))
    }

    /// Runs `work` while these faults strike in turn, with pauses of up to `between_ms`. The faults
    /// end with `work`.
    pub fn during<T: Send>(
        &mut self,
        cluster: &mut Cluster,
        (turns, between_ms): (&[(Strike, bool)], u64),
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, Violation> {
        let over = AtomicBool::new(false);
        let (worked, struck) = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let worked = work();
                over.store(true, Ordering::Relaxed);
                worked
            });
            let struck = turns.iter().cycle().try_for_each(|(strike, of_leader)| {
                if over.load(Ordering::Relaxed) {
                    return Err(None);
                }
                std::thread::sleep(self.between(300, 300 + between_ms));
                self.strike(cluster, *strike, *of_leader).map_err(Some)?;
                if *strike == Strike::Killed {
                    cluster.wait_ready_of(&[0, 1, 2], RECOVERED);
                }
                Ok(())
            });
            (work.join().expect("what runs under faults"), struck)
        });
        match struck {
            Err(Some(violation)) => return Err(violation),
            _ => cluster.wait_ready_of(&[0, 1, 2], RECOVERED),
        };
        Ok(worked)
    }
}

/// Three nodes, on links if they are available.
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
