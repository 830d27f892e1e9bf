//! What every change of membership is made of: finding a member, changing openraft's membership,
//! showing what is there afterwards.

use std::collections::BTreeSet;

use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;

use crate::context::{ClusterView, NodeContext};
use crate::handle::{MemberError, MemberStatus, ProposeError};
use crate::leadership::Leading;
use crate::replica::Replica;
use crate::status;
use crate::types::{self, Member, TypeConfig};
use crate::wire::messages::{ChangeRefusal, Changed};

/// What a change left behind, or why it was not made.
pub(super) type Changing = Result<Changed, ChangeRefusal>;

pub(super) fn refused(error: MemberError) -> ChangeRefusal {
    ChangeRefusal::Member(error)
}

pub(super) fn find(replica: &Replica, name: &str) -> Result<(u64, Member), ChangeRefusal> {
    let members = replica.members();
    let known: Vec<&str> = members
        .values()
        .map(|member| member.name.as_str())
        .collect();
    let known = known.join(", ");
    members
        .into_iter()
        .find(|(_, member)| member.name == name)
        .ok_or_else(|| {
            refused(MemberError::NotFound {
                name: name.to_owned(),
                known,
            })
        })
}

pub(super) fn show(
    context: &NodeContext,
    replica: &Replica,
    name: &str,
) -> Result<Changed, ChangeRefusal> {
    let members = status::members(context, replica);
    let found: Option<MemberStatus> = members.into_iter().find(|member| member.name == name);
    found.map(Changed::Member).ok_or_else(|| {
        refused(ProposeError::unknown("the membership changed again meanwhile").into())
    })
}

/// Takes the second step of a change of voters whose first leader ended in between.
pub(crate) async fn finish_change(replica: &Replica) {
    let nobody = ChangeMembers::AddVoterIds(BTreeSet::new());
    if let Err(error) = replica.raft.change_membership(nobody, true).await {
        tracing::debug!(%error, "the change of voters is not finished yet");
    }
}

/// Changes the membership, if this leadership still holds: what the change rests on was checked under
/// it.
pub(crate) async fn change_membership(
    replica: &Replica,
    leading: Leading,
    change: ChangeMembers<u64, Member>,
    retain: bool,
) -> Result<(), ChangeRefusal> {
    let as_checked = Precondition::CommittedLeaderId {
        committed_leader_id: *types::log_id(leading.term, 0).committed_leader_id(),
    };
    let raft = &replica.raft;
    match raft
        .change_membership_if(change, retain, [as_checked])
        .await
    {
        Ok(_) => Ok(()),
        Err(error) => Err(describe(error)),
    }
}

fn describe(error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ChangeRefusal {
    match error {
        RaftError::APIError(
            ClientWriteError::ForwardToLeader(_) | ClientWriteError::PreconditionFailed(_),
        ) => ChangeRefusal::NotLeader,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => match error {
            ChangeMembershipError::InProgress(_)
            | ChangeMembershipError::UncommittedLeaderLog(_) => refused(MemberError::InProgress),
            error => refused(MemberError::Unfit {
                detail: error.to_string(),
            }),
        },
        error => refused(ProposeError::unknown(error.to_string()).into()),
    }
}
