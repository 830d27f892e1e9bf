//! The cluster's status as observed by this node, for people and for readiness checks.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seqd_state::{NodeId, State};
use seqd_wal::SYNC_BUCKETS_US;

use crate::context::{ClusterView, NodeContext};
use crate::handle::{
    LinkStatus, MAY_BE_BEHIND, MemberStatus, Phase, ProposeError, Status, StorageStats,
};
use crate::latency::cumulative;
use crate::node::Node;
use crate::quorum;
use crate::replica::Replica;

pub(crate) fn status(node: &Node, leader_changes: u64, proposals_pending: usize) -> Status {
    let context = &node.context;
    let clocks = context.clocks().clone();
    let identity = context.identity();
    let mut status = Status {
        cluster_id: identity
            .as_ref()
            .map(|identity| identity.cluster_id.clone()),
        name: context.settings.name.clone(),
        node_id: identity.map(|identity| NodeId(identity.node)),
        disk_hangs: context.disk.hangs(),
        disk_low: context.disk.space.is_low(),
        leader_changes,
        proposals_pending,
        level: context.level().0,
        agreement: (!clocks.is_alone).then_some(clocks.agreement),
        clocks: clocks.members,
        ..Status::default()
    };
    let Some(replica) = node.replica() else {
        return status;
    };
    let (term, last_log, purged) = {
        let metrics = replica.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_term, metrics.last_log_index, metrics.purged)
    };
    status.purged = purged.map_or(0, |id| id.index());
    status.term = term;
    status.last_log = last_log.unwrap_or(0);
    status.role = replica.role(replica.node);
    status.has_quorum_contact = replica.has_quorum_contact();
    let silent_for = || {
        let since_start = context.clock_since.elapsed();
        let silent = replica.out_of_contact_for();
        silent.map_or(since_start, |silent| silent.min(since_start))
    };
    status.out_of_contact_for = (!status.has_quorum_contact).then(silent_for);
    let leader = replica.live_leader();
    status.leader = leader.map(NodeId);
    status.reaches_leader =
        leader.is_some_and(|id| id == replica.node || context.diagnosis.answers(id));
    status.committed = replica.committed_index();
    {
        let core = replica.applied.read();
        status.applied = core.applied.map_or(0, |id| id.index());
        status.digest = core.state.digest();
    }
    status.caught_up = replica.is_caught_up() && status.behind() <= MAY_BE_BEHIND;
    let is_reachable = |id| id == replica.node || context.peer(id).is_reachable();
    let voters = replica.voters();
    let weakest = quorum::weakest(&voters, is_reachable);
    (status.voters, status.reachable) = (weakest.voters, weakest.counted);
    if let [former, new] = &*voters {
        let ids = |voters: &BTreeSet<u64>| voters.iter().copied().map(NodeId).collect();
        status.voter_change = Some([ids(former), ids(new)]);
    }
    status.members = members(context, replica);
    status
}

/// Returns what `look` reads in the state that this node has applied as a member of its cluster.
///
/// # Errors
/// The reason why this node has no such state: it is not a member yet, its replica does not run
/// yet, or it was removed.
pub(crate) fn state_of_member<R>(
    node: &Node,
    look: impl FnOnce(&State) -> R,
) -> Result<R, ProposeError> {
    let context = &node.context;
    if let Some(replica) = node.replica() {
        let core = replica.applied.read();
        if core.membership.get_node(&replica.node).is_some() {
            return Ok(look(&core.state));
        }
        if core.state.is_removed(NodeId(replica.node)) {
            return Err(ProposeError::NodeRemoved);
        }
    }
    let own = context.with_identity(|own| own.cluster_id.clone());
    let detail = match (own, &*context.phase().borrow()) {
        (None, Phase::Waiting { reason }) => {
            format!("this node is not a member of a cluster yet: {reason}")
        }
        (Some(_), Phase::Waiting { reason }) => {
            format!("this node does not serve its cluster yet: {reason}")
        }
        (Some(cluster), Phase::Running) => format!(
            "this node is not a member of cluster {cluster} yet: its log does not name it; if the \
             command that adds it was interrupted, repeat `seqd member add {} {}`",
            context.settings.name, context.settings.peer_advertise
        ),
        (None, Phase::Running) | (_, Phase::Stopped(_)) => "this node is stopping".to_owned(),
    };
    Err(ProposeError::NoQuorum { detail })
}

/// All members, by name.
pub(crate) fn members(context: &NodeContext, replica: &Replica) -> Vec<MemberStatus> {
    let mut all: Vec<MemberStatus> = replica
        .members()
        .into_iter()
        .map(|(id, member)| {
            let own = id == replica.node;
            let known = context.peer(id);
            let clock = known.clock();
            let clock_offset_ms = clock.map(|measured| context.ahead_ms(measured));
            let reachable = own || known.is_reachable();
            let ping = if own {
                Some(replica.own_ping(context))
            } else {
                known.ping
            };
            MemberStatus {
                name: member.name,
                id: NodeId(id),
                role: replica.role(id),
                http: member.http,
                peer: member.peer,
                reachable,
                applied: ping.as_ref().map(|ping| ping.applied),
                behind: ping.as_ref().map(|ping| ping.behind),
                report: ping.as_ref().map(|ping| ping.report.clone()),
                levels: ping.as_ref().map(|ping| ping.levels),
                version: ping.map(|ping| ping.version),
                clock_offset_ms,
            }
        })
        .collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The links to all other members, by name.
pub(crate) fn links(node: &Node) -> Vec<LinkStatus> {
    let Some(replica) = node.replica() else {
        return Vec::new();
    };
    let others = replica.members().into_iter();
    let others = others.filter(|(id, _)| *id != replica.node);
    let diagnosis = &node.context.diagnosis;
    let mut links: Vec<LinkStatus> = others
        .map(|(id, member)| diagnosis.link(id, member.name))
        .collect();
    links.sort_by(|one, other| one.name.cmp(&other.name));
    links
}

pub(crate) fn storage(node: &Node) -> StorageStats {
    let Some(replica) = node.replica() else {
        return StorageStats::default();
    };
    let wal = replica.wal.stats();
    let bounds = SYNC_BUCKETS_US.map(|us| Duration::from_micros(us).as_secs_f64());
    let (free_bytes, reserve_bytes) = node.context.disk.space.bytes();
    StorageStats {
        fsyncs: wal.fsyncs,
        fsync_seconds: wal.sync_total.as_secs_f64(),
        fsync_buckets: cumulative(bounds.into_iter().zip(wal.sync_buckets)),
        wal_bytes: wal.disk_bytes,
        snapshot_bytes: replica.snapshot_bytes.load(Ordering::Relaxed),
        checkpoint_bytes: replica.checkpoint_bytes(),
        free_bytes,
        reserve_bytes,
        total_bytes: Some(node.context.disk.space.total()).filter(|total| *total != u64::MAX),
        checkpoint_rebuilds: u64::from(replica.repairs.rebuilt),
        snapshots_set_aside: replica.snapshots_set_aside(),
        torn_tails: u64::from(replica.repairs.torn_tail),
        stalled_seconds: replica
            .wal
            .stalled_for()
            .map_or(0.0, |since| since.as_secs_f64()),
        commit_buckets: replica.commits.cumulative(),
        commits: replica.commits.totals(),
    }
}
