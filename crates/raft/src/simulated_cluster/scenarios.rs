//! Scripted scenarios, which check the behaviour of a cluster and its timing to the millisecond of
//! virtual time.

use std::sync::Arc;
use std::time::Duration;

use seqd_state::{Command, NextRequest, Outcome, SequenceCommand, SequenceOutcome};
use tokio::time::{Instant, sleep};

use super::clients::name;
use super::net::{LAN, Link};
use super::nodes::Cluster;
use super::plan::{set_disk, set_links};
use super::record::{Record, Violation};
use super::run::{found, in_virtual_time};
use crate::{ProposeError, Raft, Role};

/// Longer than anything in a scenario may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The cluster of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) link: Link,
    /// Duration of a write with its sync.
    pub(super) sync: Duration,
    pub(super) snapshot_every: u64,
}

impl Scene {
    /// A cluster on a fast network with fast disks.
    pub(super) fn near(nodes: usize, seed: u64) -> Self {
        Self {
            seed,
            nodes,
            link: LAN,
            sync: Duration::from_millis(1),
            snapshot_every: 1_000,
        }
    }

    /// Plays a script, and panics on any violation.
    pub(super) fn play(self, script: impl AsyncFnOnce(&Arc<Cluster>)) {
        let played = self.try_play(async |cluster| {
            script(cluster).await;
            Ok(())
        });
        assert_eq!(played, Ok(()), "{self:?}");
    }

    /// Founds the cluster and plays the script on it. Returns the first violation.
    pub(super) fn try_play(
        self,
        script: impl AsyncFnOnce(&Arc<Cluster>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        in_virtual_time(async {
            let record = Record::new();
            let cluster = Cluster::new(self.seed, (self.nodes, 0), self.snapshot_every, &record);
            set_links(&cluster, |_, _| true, self.link);
            for node in 0..self.nodes {
                self.start(&cluster, node).await;
            }
            let played = async {
                found(&cluster).await?;
                script(&cluster).await
            };
            let played = played.await;
            cluster.look();
            for node in cluster.running() {
                cluster.kill(node, true);
            }
            record.violation().map_or(played, Err)
        })
    }

    pub(super) async fn start(&self, cluster: &Arc<Cluster>, node: usize) {
        cluster.start(node).await;
        set_disk(cluster, node, self.sync, false);
    }
}

pub(super) fn raft(cluster: &Cluster, node: usize) -> Raft {
    let process = cluster.process(node).expect("the node runs");
    process.raft
}

/// The node that all running nodes except `lost` follow.
pub(super) async fn leader_of_all_but(cluster: &Cluster, lost: Option<usize>) -> usize {
    let until = Instant::now() + PATIENCE;
    loop {
        let others = cluster.running().into_iter();
        let others: Vec<Raft> = (others.filter(|node| Some(*node) != lost))
            .map(|node| raft(cluster, node))
            .collect();
        let leads = others.iter().find(|it| it.status().role == Role::Leader);
        if let Some(leader) = leads.and_then(|raft| raft.status().node_id)
            && (others.iter()).all(|raft| raft.status().leader == Some(leader))
        {
            let is_it = |node: &usize| raft(cluster, *node).status().node_id == Some(leader);
            return cluster.running().into_iter().find(is_it).expect("it runs");
        }
        assert!(Instant::now() < until, "no leader within {PATIENCE:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// A command that takes one value of a strict sequence.
pub(super) fn take_one() -> Command {
    let (name, count) = (name(0), 1);
    Command::Sequences(SequenceCommand::Next(NextRequest { name, count }))
}

/// Requests the next value of a strict sequence; `None` if the node or its cluster is gone.
pub(super) async fn next(cluster: &Arc<Cluster>, node: usize) -> Option<Result<i64, ProposeError>> {
    let asked = cluster.ask(node, PATIENCE, |raft: Raft| async move {
        raft.propose(vec![take_one()], Instant::now() + Duration::from_secs(3))
            .await
    });
    let outcomes = match asked.await? {
        Ok(outcomes) => outcomes,
        Err(error) => return Some(Err(error)),
    };
    match outcomes.as_slice() {
        [Outcome::Sequences(SequenceOutcome::Next(grant))] => Some(Ok(grant.ranges[0].first)),
        other => panic!("{other:?}"),
    }
}

/// Sorts the durations. Returns the median and the longest.
pub(super) fn median_and_most(took: &mut [Duration]) -> (Duration, Duration) {
    took.sort_unstable();
    (took[took.len() / 2], took[took.len() - 1])
}
