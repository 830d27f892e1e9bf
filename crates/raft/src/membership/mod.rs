//! Changes of membership: add as a learner, promote, demote, remove, update addresses, transfer
//! leadership.
//!
//! - a new member: [`add`]
//! - new addresses of a member: [`update`]
//! - promotion, demotion and removal: [`voters`]
//! - leadership: [`leader`]
//! - drains, which each member performs itself: [`drain`]
//! - the common steps of every change: [`change`]
//! - the membership on which a change is based, and the check of its majorities: [`majority`]
//!
//! The leader makes all changes except drains. An added node gets its ID from the replicated
//! counter and syncs it *before* the membership contains it. IDs are never reused.

mod add;
pub(crate) mod change;
pub(crate) mod drain;
pub(crate) mod leader;
pub(crate) mod majority;
mod update;
mod voters;

use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout_at};

use self::change::{Changing, refused};
use self::drain::Drain;
use crate::conversation;
use crate::handle::{ChangeOfMembers, MemberError, ProposeError};
use crate::messages::{ChangeRefusal, ChangeReply, ChangeRequest, Changed, MemberChange};
use crate::node::Node;
use crate::platform;
use crate::proposer::{ProposalBatcher, route};
use crate::replica::Replica;

/// The result of a successful dry run.
const FITS: Changed = Changed::Fits(None);

/// Makes a change on the current leader.
pub(crate) async fn carry_out(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    change: MemberChange,
    deadline: Instant,
) -> Result<Changed, MemberError> {
    if let Some(drain) = Drain::of(&change) {
        return drain::carry_out(node, drain, change, deadline).await;
    }
    loop {
        let Some(replica) = node.replica() else {
            return Err(ProposeError::no_leader().into());
        };
        let refusal = if replica.leading().is_some() {
            match here(node, batcher, change.clone(), deadline).await {
                Ok(changed) => return Ok(changed),
                Err(refusal) => refusal,
            }
        } else if let Some(leader) = replica.leader()
            && let Some(member) = replica.member(leader)
        {
            let (left, timeout_ms) = route::time_left(deadline);
            let message = ChangeRequest {
                change: change.clone(),
                timeout_ms,
            };
            let to = (leader, member.peer.as_str());
            let (link, route) = (Link::Control, Route::Members);
            match conversation::call(&node.context, link, to, route, message, left).await {
                Ok(ChangeReply(Ok(changed))) => return Ok(changed),
                Ok(ChangeReply(Err(refusal))) => refusal,
                Err(error) if error.is_newer() => return Err(change::not_known_to(&member.name)),
                Err(error) if error.is_unsent() => ChangeRefusal::NotLeader,
                Err(error) => return Err(ProposeError::unknown(error.to_string()).into()),
            }
        } else {
            ChangeRefusal::NotLeader
        };
        match refusal {
            ChangeRefusal::Member(error) => return Err(error),
            ChangeRefusal::NotLeader if Instant::now() >= deadline => {
                return Err(ProposeError::no_leader().into());
            }
            ChangeRefusal::NotLeader => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Makes a change that a peer sent to this node: as the leader, or as the member to drain.
pub(crate) async fn carry_out_here(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    request: ChangeRequest,
) -> ChangeReply {
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms);
    if let Some(drain) = Drain::of(&request.change) {
        return ChangeReply(drain::here(node, drain, deadline).await);
    }
    ChangeReply(here(node, batcher, request.change, deadline).await)
}

/// Makes a change as the leader. The change is completed even if its caller has disconnected,
/// because a change of voters that stops between its two steps needs two majorities.
async fn here(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    change: MemberChange,
    deadline: Instant,
) -> Changing {
    let (node, batcher) = (Arc::clone(node), Arc::clone(batcher));
    let task = platform::spawn(async move {
        let context = &node.context;
        let replica = node.replica().ok_or(ChangeRefusal::NotLeader)?;
        let (change, is_trial) = change.split();
        // A transfer would leave another change half done.
        let _alone = if matches!(change, ChangeOfMembers::MoveLeader { .. }) {
            let waited = timeout_at(deadline, replica.changing.lock()).await;
            waited.map_err(|_| refused(MemberError::InProgress))?
        } else {
            alone(replica)?
        };
        let leading = replica.leading().ok_or(ChangeRefusal::NotLeader)?;
        match &change {
            ChangeOfMembers::Add { name, peer, http } => {
                let new = add::NewMember {
                    name,
                    peer,
                    http: http.as_deref(),
                };
                if is_trial {
                    return add::check(context, replica, &new).await.map(|_| FITS);
                }
                add::add(context, &batcher, replica, leading, new, deadline).await
            }
            ChangeOfMembers::Update { name, peer, http } => {
                let new = update::Addresses {
                    name,
                    peer: peer.as_deref(),
                    http: http.as_deref(),
                };
                update::update(context, replica, leading, &new, is_trial).await
            }
            ChangeOfMembers::Promote { name } => {
                voters::promote(context, replica, leading, name, is_trial).await
            }
            ChangeOfMembers::Demote { name } => {
                voters::demote(context, replica, leading, name, is_trial).await
            }
            ChangeOfMembers::Remove { name } => {
                voters::remove(context, replica, leading, name, is_trial).await
            }
            ChangeOfMembers::MoveLeader { to } => {
                let target = leader::target(context, replica, to.as_deref())?;
                if is_trial {
                    let member = replica.member(target).map(|member| member.name);
                    return Ok(Changed::Fits(member));
                }
                leader::move_leader(context, replica, target)
                    .await
                    .map(Changed::Leader)
            }
            // A member performs it without a leader.
            ChangeOfMembers::Drain { .. } => Err(ChangeRefusal::NotLeader),
        }
    });
    match timeout_at(deadline, task).await {
        Ok(Ok(changed)) => changed,
        Ok(Err(error)) => Err(refused(ProposeError::unknown(error.to_string()).into())),
        Err(_) => {
            let why = "the change was not finished within the deadline and continues";
            Err(refused(ProposeError::unknown(why).into()))
        }
    }
}

/// The right to change the membership. Of two concurrent changes, the second is refused.
fn alone(replica: &Replica) -> Result<MutexGuard<'_, ()>, ChangeRefusal> {
    let alone = replica.changing.try_lock();
    alone.map_err(|_| refused(MemberError::InProgress))
}
