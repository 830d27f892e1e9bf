//! Transfer of leadership.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::change::{find, refused, unfit};
use super::majority::{MAY_LAG, silence};
use crate::clocks::distance;
use crate::context::NodeContext;
use crate::draws::round;
use crate::handle::ProposeError;
use crate::messages::{ChangeRefusal, Stopping};
use crate::replica::Replica;

/// The named voter, or the best one if none is named. Fails if leadership cannot be transferred to
/// it.
pub(super) fn target(
    context: &NodeContext,
    replica: &Replica,
    to: Option<&str>,
) -> Result<u64, ChangeRefusal> {
    let target = match to {
        Some(name) => {
            let (node, _) = find(replica, name)?;
            if !replica.is_voter(node) {
                return Err(unfit(format!("{name} is a learner; promote it first")));
            }
            check_target(context, replica, node, name)?;
            Some(node)
        }
        None => best_transfer_target(context, replica),
    };
    target.ok_or_else(|| unfit("no other voter that could lead can be reached"))
}

/// Transfers leadership to this voter. Returns the new leader's name.
pub(super) async fn move_leader(
    context: &NodeContext,
    replica: &Replica,
    target: u64,
) -> Result<String, ChangeRefusal> {
    if target != replica.node {
        round::give_back(context, replica).await;
        transfer_leadership(replica, target).await;
        replica.windows.held.lock().resume();
    }
    let leader = replica.leader().and_then(|id| replica.member(id));
    if replica.leader() != Some(target) {
        let detail = "leadership was not transferred yet; the transfer may still happen".to_owned();
        return Err(refused(ProposeError::unknown(detail).into()));
    }
    Ok(leader.map(|member| member.name).unwrap_or_default())
}

/// Refuses a voter that could not take over at once, because nothing is committed until then, and a
/// voter that would soon transfer leadership again.
pub(super) fn check_target(
    context: &NodeContext,
    replica: &Replica,
    node: u64,
    name: &str,
) -> Result<(), ChangeRefusal> {
    if node == replica.node {
        return Ok(());
    }
    let lag = replica.lag_of(node);
    let why = if let Some(why) = silence(context, replica, node, name) {
        why
    } else if lag > MAY_LAG {
        format!("{name} is {lag} entries behind; {MAY_LAG} are allowed")
    } else if let Some(why) = hindrance(context, node) {
        format!("{name} {why}")
    } else if let Some(ahead_ms) = context.clocks().wrong_by(node) {
        let distance = distance(ahead_ms);
        format!("the clock of {name} is wrong: {distance} a majority's")
    } else if context.peer(node).is_draining() {
        format!("{name} is draining")
    } else {
        return Ok(());
    };
    let detail = format!("{why}; choose another voter, or repeat it later");
    Err(unfit(detail))
}

/// The reason why a node that answers could not lead; `None` if it could.
fn hindrance(context: &NodeContext, node: u64) -> Option<&'static str> {
    let known = context.peer(node);
    if !context.diagnosis.receives_from(node) {
        // The node would win no election, and openraft never takes back a transfer that has begun.
        Some("cannot connect to this leader: none of its pings arrives")
    } else if known.is_disk_hanging() {
        Some("has a disk that hangs")
    } else if known.is_disk_low() {
        Some("has a disk that is nearly full")
    } else if context.stopping_of(node) != Stopping::No {
        Some("is stopping")
    } else {
        None
    }
}

/// Returns whether a node could lead, as far as this node knows.
pub(crate) fn may_lead(context: &NodeContext, node: u64) -> bool {
    context.peer(node).is_reachable() && hindrance(context, node).is_none()
}

/// The best voter other than this leader that answers now and may lead. Prefers a voter with little
/// lag, then a voter that is not draining, then a voter whose clock is right, then the voter with
/// the longest log.
pub(crate) fn best_transfer_target(context: &NodeContext, replica: &Replica) -> Option<u64> {
    let clocks = context.clocks().clone();
    let voters: Vec<u64> = replica.applied.read().membership.voter_ids().collect();
    voters
        .into_iter()
        .filter(|id| *id != replica.node && replica.answers_now(*id))
        .filter(|id| may_lead(context, *id))
        .max_by_key(|id| {
            let is_level = replica.lag_of(*id) <= MAY_LAG;
            (
                is_level,
                !context.peer(*id).is_draining(),
                clocks.is_right(*id),
                replica.matched_index(*id),
            )
        })
}

/// Transfers leadership to the best voter, if there is one. Waits for at most an election timeout.
pub(crate) async fn transfer_to_best(context: &NodeContext, replica: &Replica) {
    if let Some(target) = best_transfer_target(context, replica) {
        let patience = context.settings.election.1;
        let _ = timeout(patience, transfer_leadership(replica, target)).await;
    }
}

/// Requests that `target` lead, and waits for at most two seconds until another node does.
pub(crate) async fn transfer_leadership(replica: &Replica, target: u64) {
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until && replica.is_leader() {
        if let Err(error) = replica.raft.trigger().transfer_leader(target).await {
            tracing::warn!(%error, "leadership was not transferred");
            return;
        }
        for _ in 0..20 {
            if replica
                .leader()
                .is_some_and(|leader| leader != replica.node)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    // The vote may have been cast while the new leader is not known yet.
    while Instant::now() < until && replica.leader().is_none_or(|leader| leader == replica.node) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
