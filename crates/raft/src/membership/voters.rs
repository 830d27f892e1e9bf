//! Changes of voters: a learner is promoted, a voter demoted, a member removed.
//!
//! Invariant: a voter leaves only if a majority of the remaining voters answers now, and never
//! while it leads: it transfers leadership first.

use std::collections::BTreeSet;

use openraft::ChangeMembers;
use seqd_guards::is_out;
use seqd_state::{ClusterCommand, Command, NodeId};

use super::change::{Changing, change_membership, find, no_quorum, refused, show};
use super::majority::{MAY_LAG, MembershipInForce, silence};
use super::{FITS, leader};
use crate::context::NodeContext;
use crate::handle::{MemberError, ProposeError};
use crate::leadership::Leading;
use crate::messages::ChangeRefusal;
use crate::proposer::entry;
use crate::replica::Replica;

pub(super) async fn promote(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    name: &str,
    is_trial: bool,
) -> Changing {
    let seen = MembershipInForce::of(replica);
    let (node, _) = find(replica, name)?;
    let mut voters = seen.voters();
    if !voters.insert(node) {
        if is_trial {
            return Ok(FITS);
        }
        return show(context, replica, name);
    }
    if let Some(why) = silence(context, replica, node, name)
        && !is_out!(LearnerAnswers)
    {
        let detail = format!("{why}; it can be promoted after it responds");
        return Err(refused(MemberError::LearnerLagging { detail }));
    }
    let lag = replica.lag_of(node);
    if lag > MAY_LAG {
        let detail = format!(
            "{name} is {lag} entries behind; it can be promoted when it is at most {MAY_LAG} \
             entries behind"
        );
        return Err(refused(MemberError::LearnerLagging { detail }));
    }
    seen.check_majority(context, replica, &voters)
        .map_err(no_quorum)?;
    if is_trial {
        return Ok(FITS);
    }
    let change = ChangeMembers::AddVoterIds(BTreeSet::from([node]));
    change_membership(replica, leading, &seen, change, true).await?;
    show(context, replica, name)
}

/// Makes a voter a learner: it keeps its data, its ID and its workers.
pub(super) async fn demote(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    name: &str,
    is_trial: bool,
) -> Changing {
    let seen = MembershipInForce::of(replica);
    let (node, _) = find(replica, name)?;
    if seen.voters().contains(&node) {
        leave(context, replica, &seen, (node, name), is_trial).await?;
        if !is_trial {
            let change = ChangeMembers::RemoveVoters(BTreeSet::from([node]));
            change_membership(replica, leading, &seen, change, true).await?;
        }
    }
    if is_trial {
        return Ok(FITS);
    }
    show(context, replica, name)
}

pub(super) async fn remove(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    name: &str,
    is_trial: bool,
) -> Changing {
    let mut seen = MembershipInForce::of(replica);
    let (node, _) = find(replica, name)?;
    let removed = show(context, replica, name)?;
    let votes = seen.voters().contains(&node);
    leave(context, replica, &seen, (node, name), is_trial).await?;
    if is_trial {
        return Ok(FITS);
    }
    let gone = BTreeSet::from([node]);
    if votes {
        let change = ChangeMembers::RemoveVoters(gone.clone());
        change_membership(replica, leading, &seen, change, true).await?;
        seen = MembershipInForce::of(replica);
    }
    let change = ChangeMembers::RemoveNodes(gone);
    let dropped = change_membership(replica, leading, &seen, change, false).await;
    dropped.map_err(|refusal| match refusal {
        ChangeRefusal::Member(_) if votes => {
            // One step has already taken effect, so the error must not state that nothing was
            // changed.
            let why = format!("{name} no longer votes, but is still a member; remove it again");
            refused(ProposeError::unknown(why).into())
        }
        refusal => refusal,
    })?;
    // If this leader ends before it proposes this command, the next leader proposes it.
    let command = Command::Cluster(ClusterCommand::MarkRemoved { node: NodeId(node) });
    entry::propose_as(context, replica, leading, vec![command]).await;
    Ok(removed)
}

/// Checks that the voters without this member have a majority that answers now. A leader transfers
/// leadership, unless this is a trial, and returns `NotLeader`: the caller's node repeats the
/// request at the next leader.
async fn leave(
    context: &NodeContext,
    replica: &Replica,
    seen: &MembershipInForce,
    (node, name): (u64, &str),
    is_trial: bool,
) -> Result<(), ChangeRefusal> {
    let mut left = seen.voters();
    left.remove(&node);
    if left.is_empty() {
        let detail = format!("{name} is the only voter; promote another member first");
        return Err(refused(MemberError::Unsafe { detail }));
    }
    seen.check_majority(context, replica, &left)
        .map_err(|detail| refused(MemberError::Unsafe { detail }))?;
    if node != replica.node {
        return Ok(());
    }
    let target = leader::target(context, replica, None)?;
    if is_trial {
        return Ok(());
    }
    leader::move_leader(context, replica, target).await?;
    Err(ChangeRefusal::NotLeader)
}
