//! Changes of membership: add as a learner, promote, remove, transfer leadership.
//!
//! - a new member: [`add`]
//! - leadership: [`leader`]
//! - what every change is made of: [`change`]
//!
//! Each is carried out by the leader. A node that is added gets its ID from the replicated counter
//! and syncs it *before* the membership names it; IDs are never used twice.

mod add;
pub(crate) mod change;
pub(crate) mod leader;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use seqd_state::{ClusterCommand, Command, NodeId};
use tokio::time::{Instant, timeout_at};

use self::change::{Changing, change_membership, find, refused, show};
use crate::context::NodeContext;
use crate::conversation;
use crate::handle::{MemberError, ProposeError};
use crate::leadership::Leading;
use crate::node::Node;
use crate::proposer::{ProposalBatcher, entry, route};
use crate::replica::Replica;
use crate::wire::messages::{ChangeRefusal, ChangeReply, ChangeRequest, Changed, MemberChange};
use crate::wire::route::Route;
use crate::wire::transport::Link;

/// Entries that a learner may be behind when it is promoted: less than a second of full load.
const PROMOTE_LAG: u64 = 1_000;

/// Carries out a change on whichever node leads.
pub(crate) async fn carry_out(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    change: MemberChange,
    deadline: Instant,
) -> Result<Changed, MemberError> {
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

/// Carries out a change that a peer sent to this node as the leader.
pub(crate) async fn carry_out_here(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    request: ChangeRequest,
) -> ChangeReply {
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms);
    ChangeReply(here(node, batcher, request.change, deadline).await)
}

/// Carries out a change as the leader. It goes on to its end also when its caller has gone:
/// a change of voters has two steps, and one that stops in between needs two majorities.
async fn here(
    node: &Arc<Node>,
    batcher: &Arc<ProposalBatcher>,
    change: MemberChange,
    deadline: Instant,
) -> Changing {
    let (node, batcher) = (Arc::clone(node), Arc::clone(batcher));
    let task = tokio::spawn(async move {
        let context = &node.context;
        let replica = node.replica().ok_or(ChangeRefusal::NotLeader)?;
        let leading = replica.leading().ok_or(ChangeRefusal::NotLeader)?;
        match &change {
            MemberChange::Add { name, peer, http } => {
                let new = add::NewMember {
                    name,
                    peer,
                    http: http.as_deref(),
                };
                add::add(context, &batcher, replica, leading, new, deadline).await
            }
            MemberChange::Promote { name } => promote(context, replica, leading, name).await,
            MemberChange::Remove { name } => remove(context, replica, leading, name).await,
            MemberChange::MoveLeader { to } => leader::move_leader(context, replica, to.as_deref())
                .await
                .map(Changed::Leader),
        }
    });
    match timeout_at(deadline, task).await {
        Ok(Ok(changed)) => changed,
        Ok(Err(error)) => Err(refused(ProposeError::unknown(error.to_string()).into())),
        Err(_) => {
            let why = "the change was not finished within the deadline and goes on";
            Err(refused(ProposeError::unknown(why).into()))
        }
    }
}

async fn promote(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    name: &str,
) -> Changing {
    let (node, _) = find(replica, name)?;
    if replica.is_voter(node) {
        return show(context, replica, name);
    }
    let last = replica.wal.next_index().saturating_sub(1);
    let matched = replica.matched_index(node);
    let lag = last.saturating_sub(matched.unwrap_or(0));
    if matched.is_none() || lag > PROMOTE_LAG {
        let detail = format!(
            "{name} is {lag} entries behind; it can be promoted once that is {PROMOTE_LAG} or less"
        );
        return Err(refused(MemberError::LearnerLagging { detail }));
    }
    let voters = BTreeSet::from([node]);
    change_membership(replica, leading, ChangeMembers::AddVoterIds(voters), true).await?;
    show(context, replica, name)
}

async fn remove(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    name: &str,
) -> Changing {
    let (node, _) = find(replica, name)?;
    let removed = show(context, replica, name)?;
    let voters: BTreeSet<u64> = replica.applied.read().membership.voter_ids().collect();
    if voters.contains(&node) {
        let left: Vec<u64> = voters.iter().copied().filter(|id| *id != node).collect();
        if left.is_empty() {
            let detail = format!("{name} is the only voter; stop it instead of removing it");
            return Err(refused(MemberError::Unsafe { detail }));
        }
        let alive = left
            .iter()
            .filter(|id| **id == replica.node || context.peer(**id).is_reachable());
        let alive = alive.count();
        let needed = left.len() / 2 + 1;
        if alive < needed {
            let detail = format!(
                "without {name} {needed} of {} voters are needed, and {alive} can be reached; \
                 bring a node back first",
                left.len()
            );
            return Err(refused(MemberError::Unsafe { detail }));
        }
    }
    if node == replica.node {
        // The next leader removes it: the caller's node asks again there.
        leader::move_leader(context, replica, None).await?;
        return Err(ChangeRefusal::NotLeader);
    }
    if voters.contains(&node) {
        let gone = BTreeSet::from([node]);
        change_membership(replica, leading, ChangeMembers::RemoveVoters(gone), true).await?;
    }
    let gone = BTreeSet::from([node]);
    let dropped =
        change_membership(replica, leading, ChangeMembers::RemoveNodes(gone), false).await;
    dropped.map_err(|refusal| match refusal {
        ChangeRefusal::Member(_) if voters.contains(&node) => {
            // Something was changed already: this is no longer "no effect".
            let why =
                format!("{name} does not vote any more, but is still a member; remove it again");
            refused(ProposeError::unknown(why).into())
        }
        refusal => refusal,
    })?;
    // Should this leader end before, the next one notes it.
    let command = Command::Cluster(ClusterCommand::MarkRemoved { node: NodeId(node) });
    entry::propose_as(context, replica, leading, vec![command]).await;
    Ok(removed)
}
