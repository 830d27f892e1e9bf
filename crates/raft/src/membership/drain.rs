//! Drains of members. The member itself performs its drain, so a drain needs no leader.

use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use tokio::time::{Instant, timeout_at};

use super::change::{self, Changing, find, show, unfit};
use super::leader;
use crate::context::NodeContext;
use crate::conversation;
use crate::handle::{ChangeOfMembers, MemberError, ProposeError};
use crate::messages::{ChangeRefusal, ChangeReply, ChangeRequest, Changed, MemberChange};
use crate::node::Node;
use crate::proposer::route;
use crate::replica::Replica;

/// Time for which the response to a drain waits until another node leads: the maximum duration of a
/// transfer, limited by the caller's deadline. The drain continues after the response.
const LEADS_ELSEWHERE: Duration = Duration::from_secs(2);

/// Pause between two checks of the contact with the new leader.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A request to begin or to end the drain of a member.
pub(crate) struct Drain {
    pub(crate) name: String,
    pub(crate) drains: bool,
    pub(crate) is_trial: bool,
}

impl Drain {
    /// The drain in a request; `None` for a change of the membership.
    pub(super) fn of(change: &MemberChange) -> Option<Self> {
        match change.clone().split() {
            (ChangeOfMembers::Drain { name, drains }, is_trial) => Some(Self {
                name,
                drains,
                is_trial,
            }),
            _ => None,
        }
    }
}

/// Drains the named member: directly if it is this node, otherwise by a request to the member.
pub(super) async fn carry_out(
    node: &Arc<Node>,
    drain: Drain,
    change: MemberChange,
    deadline: Instant,
) -> Result<Changed, MemberError> {
    let Some(replica) = node.replica() else {
        return Err(ProposeError::no_leader().into());
    };
    let (context, name) = (&node.context, drain.name.clone());
    let (id, member) = find(replica, &name).map_err(error_of)?;
    if id == replica.node {
        return here(node, drain, deadline).await.map_err(error_of);
    }
    let (left, timeout_ms) = route::time_left(deadline);
    let message = ChangeRequest { change, timeout_ms };
    let (to, link, route) = ((id, member.peer.as_str()), Link::Control, Route::Members);
    match conversation::call(context, link, to, route, message, left).await {
        Ok(ChangeReply(Ok(changed))) => {
            if !drain.is_trial {
                context.record_draining(id, drain.drains);
            }
            Ok(changed)
        }
        Ok(ChangeReply(Err(refusal))) => Err(error_of(refusal)),
        Err(error) if error.is_newer() => Err(change::not_known_to(&name)),
        Err(error) if error.is_unsent() => Err(MemberError::Unfit {
            detail: format!("{name} does not respond ({error}); only a running node can drain"),
        }),
        Err(error) => Err(ProposeError::unknown(error.to_string()).into()),
    }
}

/// Drains this node. For a dry run, returns the name of the voter that would take over leadership.
pub(super) async fn here(node: &Arc<Node>, drain: Drain, deadline: Instant) -> Changing {
    let context = &node.context;
    let replica = node.replica().ok_or(ChangeRefusal::NotLeader)?;
    let Drain {
        name,
        drains,
        is_trial,
    } = drain;
    if name != context.settings.name {
        let own = &context.settings.name;
        return Err(unfit(format!("this node is {own}, not {name}")));
    }
    if !drains && context.draining.is_final() {
        let detail = format!("{name} is about to stop; start it again after that");
        return Err(unfit(detail));
    }
    if is_trial {
        let successor = successor(context, replica).filter(|_| drains && replica.is_leader());
        let successor = successor.and_then(|id| replica.member(id));
        return Ok(Changed::Fits(successor.map(|member| member.name)));
    }
    context.draining.set(drains);
    // Sends a ping to each member at once.
    context.member_came.notify_one();
    if drains && replica.is_leader() && successor(context, replica).is_some() {
        let until = route::wait_until(deadline, LEADS_ELSEWHERE);
        let _ = timeout_at(until, leads_elsewhere(replica)).await;
    }
    show(context, replica, &name)
}

/// Waits until another node leads and this one is in contact with it.
async fn leads_elsewhere(replica: &Replica) {
    let is_other = |leader: Option<u64>| leader.is_some_and(|leader| leader != replica.node);
    replica.wait_for_leader(is_other).await;
    while !is_other(replica.live_leader()) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The result of [`hand_over`].
pub(crate) enum HandOver {
    /// Leadership was transferred, or the transfer failed.
    Tried,
    /// A change of the membership is in progress, and a transfer would leave it half done.
    DuringChange,
    /// No other voter can lead.
    NoSuccessor,
}

/// Transfers leadership away from this draining node.
pub(crate) async fn hand_over(context: &NodeContext, replica: &Replica) -> HandOver {
    let Ok(_alone) = replica.changing.try_lock() else {
        return HandOver::DuringChange;
    };
    let Some(successor) = successor(context, replica) else {
        return HandOver::NoSuccessor;
    };
    if let Err(ChangeRefusal::Member(error)) =
        leader::move_leader(context, replica, successor).await
    {
        tracing::warn!(%error, "a draining node still leads");
    }
    HandOver::Tried
}

/// The voter that takes over: the best one, if it can lead at once and is not draining itself.
fn successor(context: &NodeContext, replica: &Replica) -> Option<u64> {
    let best = leader::best_transfer_target(context, replica)?;
    let fits = leader::check_target(context, replica, best, "").is_ok();
    fits.then_some(best)
}

fn error_of(refusal: ChangeRefusal) -> MemberError {
    match refusal {
        ChangeRefusal::Member(error) => error,
        // The member has no replica yet.
        ChangeRefusal::NotLeader => ProposeError::no_leader().into(),
    }
}
