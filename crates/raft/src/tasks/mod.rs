//! The background tasks of a running node.
//!
//! - to its peers: [`ping`], [`greet_strangers`], as the leader [`heartbeats`]
//! - in the membership: [`own_addresses`]
//! - in the replicated state: [`register_start`], and as the leader [`lead`],
//!   [`stamp_restoration`], [`raise_level`]
//! - against a failing leader, disk or clock: [`fast_failover`], [`elections`], [`disk_watch`],
//!   [`space_watch`], [`clock_watch`]
//! - for a node that is being drained: [`hand_over`]
//! - for this process: [`peers_file`], [`leader_changes`], [`file_sizes`], [`purge`]

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
pub(crate) mod space_watch;
pub(crate) mod stamp_restoration;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use tokio::task::JoinSet;

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
    let own = || (Arc::clone(context), Arc::clone(replica));
    let mut tasks = JoinSet::new();
    let (context, replica) = own();
    tasks.spawn(platform::owned(ping::ping_members(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(lead::lead(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(heartbeats::send(context, replica)));
    let (context, replica) = own();
    let updating = own_addresses::update(context, node, replica, Arc::clone(&batcher));
    tasks.spawn(platform::owned(updating));
    let (context, replica) = own();
    tasks.spawn(platform::owned(register_start::run(
        context, replica, batcher, register,
    )));
    let (context, replica) = own();
    tasks.spawn(platform::owned(fast_failover::watch_leaders(
        context, replica,
    )));
    let (context, replica) = own();
    tasks.spawn(platform::owned(elections::run_when_the_leader_is_lost(
        context, replica,
    )));
    let (context, replica) = own();
    tasks.spawn(platform::owned(greet_strangers::run(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(hand_over::watch(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(disk_watch::watch(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(space_watch::watch(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(clock_watch::watch(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(file_sizes::watch(context, replica)));
    let (context, replica) = own();
    tasks.spawn(platform::owned(purge::purge(context, replica)));
    let (_, replica) = own();
    tasks.spawn(platform::owned(leader_changes::count(
        replica,
        leader_changes,
    )));
    tasks
}
