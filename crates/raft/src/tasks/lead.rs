//! The leader's own duties: initialising the state, marking removed members, raising the level, and
//! proposing the time.

use std::sync::Arc;
use std::time::Duration;

use seqd_state::{ClusterCommand, ClusterMs, Command, Found, NodeId};
use tokio::time::{Instant, sleep};

use super::next_beat;
use super::raise_level;
use super::stamp_restoration::RestorationStamp;
use crate::context::NodeContext;
use crate::membership::change;
use crate::proposer::entry;
use crate::replica::Replica;

/// Time between two checks of a leader's duties.
const LEADER_EVERY: Duration = Duration::from_millis(100);

/// The longest time without an entry that carries the time, while a deadline is pending.
const TIME_ENTRY_EVERY: Duration = Duration::from_secs(1);

/// The shortest pause before the next entry that carries the time. Each such entry processes a few
/// hundred deadlines of a table.
const DEADLINE_PAUSE: Duration = Duration::from_millis(10);

/// Time for which a change of voters may stay between its two steps before the leader completes it:
/// longer than the leader that began it needs.
const JOINT_FOR: Duration = Duration::from_secs(5);

/// Performs a leader's duties while this node leads.
pub(crate) async fn lead(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let mut timed = Instant::now();
    let mut joint = None;
    let mut stamp = RestorationStamp::default();
    while !context.is_stopped() {
        match time_to_deadline(&replica) {
            Some(left) if left < LEADER_EVERY => sleep(left.max(DEADLINE_PAUSE)).await,
            _ => next_beat(&context, LEADER_EVERY).await,
        }
        let Some(leading) = replica.leading() else {
            replica
                .wait_for_leader(|now| now == Some(replica.node))
                .await;
            continue;
        };
        let mut commands = due(&context, &replica);
        commands.extend(stamp.due(&context, &replica));
        let time_is_due = next_deadline(&replica).is_some_and(|deadline| {
            timed.elapsed() >= TIME_ENTRY_EVERY || deadline <= leading.cluster_ms()
        });
        if !commands.is_empty() || time_is_due {
            timed = Instant::now();
            entry::propose_as(&context, &replica, leading, commands).await;
        }
        raise_level::raise(&context, &replica, leading).await;
        joint = replica
            .is_joint()
            .then(|| joint.unwrap_or_else(Instant::now));
        if joint.is_some_and(|since| since.elapsed() >= JOINT_FOR) {
            joint = None;
            change::finish_change(&replica).await;
        }
    }
}

fn next_deadline(replica: &Replica) -> Option<ClusterMs> {
    replica.applied.read().state.next_deadline()
}

/// The time until the next deadline, if this node leads and there is one.
fn time_to_deadline(replica: &Replica) -> Option<Duration> {
    let leading = replica.leading()?;
    let deadline = next_deadline(replica)?;
    let left_ms = deadline.0.saturating_sub(leading.cluster_ms().0);
    Some(Duration::from_millis(left_ms))
}

/// The commands that the leader must propose on its own.
fn due(context: &NodeContext, replica: &Replica) -> Vec<Command> {
    let core = replica.applied.read();
    if !core.state.is_founded() {
        let Some(identity) = context.identity() else {
            return Vec::new();
        };
        let founders = identity
            .members
            .iter()
            .map(|(node, member)| (NodeId(*node), member.name.clone()))
            .collect();
        return vec![Command::Cluster(ClusterCommand::Found(Found {
            cluster_id: identity.cluster_id,
            window_ms: context.settings.window_ms,
            max_peer_skew_ms: context.settings.max_peer_skew_ms,
            founders,
        }))];
    }
    // A node that was started as a member and is no longer one was removed. The leader that removed
    // it may have ended before it could propose this command.
    core.state
        .nodes()
        .filter(|(id, record)| {
            record.start.is_some() && !record.removed && core.membership.get_node(&id.0).is_none()
        })
        .map(|(node, _)| Command::Cluster(ClusterCommand::MarkRemoved { node }))
        .collect()
}
