//! The background tasks of a running node.
//!
//! - to its peers: [`ping`], [`greet_strangers`], as the leader [`heartbeats`]
//! - in the membership: [`own_addresses`]
//! - in the replicated state: [`register_start`], and as the leader [`lead`],
//!   [`stamp_restoration`], [`raise_level`]
//! - against a failing leader, disk or clock: [`fast_failover`], [`elections`], [`disk_watch`],
//!   [`space_watch`], [`clock_watch`]
//! - for a node that is being drained: [`hand_over`]
//! - for this process: [`peers_file`], [`leader_changes`], [`file_sizes`], [`purge`] (with
//!   [`snapshot_turns`])

pub(crate) mod clock_watch;
pub(crate) mod disk_watch;
pub(crate) mod elections;
pub(crate) mod fast_failover;
pub(crate) mod file_sizes;
pub(crate) mod greet_strangers;
pub(crate) mod hand_over;
pub(crate) mod heartbeats;
pub(crate) mod lead;
pub(crate) mod leader_changes;
pub(crate) mod own_addresses;
pub(crate) mod peers_file;
pub(crate) mod ping;
pub(crate) mod purge;
pub(crate) mod raise_level;
pub(crate) mod register_start;
mod snapshot_turns;
pub(crate) mod space_watch;
pub(crate) mod stamp_restoration;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::context::NodeContext;
use crate::node::Node;
use crate::platform;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;

/// The state that the background tasks of a running node share with its callers.
pub(crate) struct Background {
    pub(crate) node: Arc<Node>,
    pub(crate) batcher: Arc<ProposalBatcher>,
    pub(crate) register: watch::Sender<bool>,
    pub(crate) leader_changes: Arc<AtomicU64>,
}

/// Starts every task of a running node. Dropping the set ends them.
pub(crate) fn spawn_all(
    context: &Arc<NodeContext>,
    replica: &Arc<Replica>,
    background: Background,
) -> JoinSet<()> {
    let Background {
        node,
        batcher,
        register,
        leader_changes,
    } = background;
    // A lone voter's clock must be known before anything is stamped with it.
    context.set_clocks(clock_watch::look(context, replica));
    let mut tasks = Tasks {
        context,
        replica,
        running: JoinSet::new(),
    };
    tasks.run(ping::ping_members);
    tasks.run(lead::lead);
    tasks.run(heartbeats::send);
    let proposer = Arc::clone(&batcher);
    tasks.run(|context, replica| own_addresses::update(context, node, replica, proposer));
    tasks.run(|context, replica| register_start::run(context, replica, batcher, register));
    tasks.run(fast_failover::watch_leaders);
    tasks.run(elections::run_when_the_leader_is_lost);
    tasks.run(greet_strangers::run);
    tasks.run(hand_over::watch);
    tasks.run(disk_watch::watch);
    tasks.run(space_watch::watch);
    tasks.run(clock_watch::watch);
    tasks.run(file_sizes::watch);
    tasks.run(purge::purge);
    tasks.run(|_, replica| leader_changes::count(replica, leader_changes));
    tasks.running
}

/// The tasks that were started.
struct Tasks<'a> {
    context: &'a Arc<NodeContext>,
    replica: &'a Arc<Replica>,
    running: JoinSet<()>,
}

impl Tasks<'_> {
    fn run<F>(&mut self, task: impl FnOnce(Arc<NodeContext>, Arc<Replica>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(Arc::clone(self.context), Arc::clone(self.replica));
        self.running.spawn(platform::owned(task));
    }
}

/// Waits until the next multiple of `period` since the start of the node. Its periodic tasks thus
/// wake together, because the load of an idle node consists of wake-ups.
async fn next_beat(context: &NodeContext, period: Duration) {
    let period = period.as_nanos().max(1);
    let next = context.clock_since.elapsed().as_nanos() / period + 1;
    // 2^64 nanoseconds are 584 years.
    let next = Duration::from_nanos(u64::try_from(next * period).unwrap_or(u64::MAX));
    sleep_until(context.clock_since + next).await;
}
