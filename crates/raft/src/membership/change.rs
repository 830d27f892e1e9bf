//! The common steps of a change of membership: finding a member, changing openraft's membership,
//! and returning the resulting status.

use std::collections::BTreeSet;

use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, PreconditionFailed, RaftError};
use seqd_guards::is_out;
use seqd_state::TextField;

use super::majority::MembershipInForce;
use crate::context::{ClusterView, NodeContext};
use crate::handle::{MemberError, MemberStatus, ProposeError};
use crate::leadership::Leading;
use crate::messages::{ChangeRefusal, Changed};
use crate::replica::Replica;
use crate::status;
use crate::types::{Member, TypeConfig};

/// The result of a change, or the reason why it was not made.
pub(super) type Changing = Result<Changed, ChangeRefusal>;

pub(super) fn refused(error: MemberError) -> ChangeRefusal {
    ChangeRefusal::Member(error)
}

/// The refusal of a change that does not fit.
pub(super) fn unfit(detail: impl Into<String>) -> ChangeRefusal {
    let detail = detail.into();
    refused(MemberError::Unfit { detail })
}

/// The refusal if no change is possible at present. Nothing was changed.
pub(super) fn no_quorum(detail: String) -> ChangeRefusal {
    refused(ProposeError::NoQuorum { detail }.into())
}

/// The refusal of a node whose program is older than this change. Nothing was changed.
pub(super) fn not_known_to(name: &str) -> MemberError {
    MemberError::Unfit {
        detail: format!("the program of {name} is too old for this request; update it first"),
    }
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
    found
        .map(Box::new)
        .map(Changed::Member)
        .ok_or_else(|| refused(ProposeError::unknown("the membership has changed again").into()))
}

/// Refuses a member with a text over its limit. Within the limits, the header of a snapshot has
/// room for all members.
pub(super) fn check_texts(member: &Member) -> Result<(), ChangeRefusal> {
    for (field, text) in [
        (TextField::NodeName, &member.name),
        (TextField::PeerAddress, &member.peer),
        (TextField::ClientUrl, &member.http),
    ] {
        let (length, limit) = (text.len(), field.max_bytes());
        if length > limit {
            return Err(unfit(format!(
                "the {field} has {length} bytes; {limit} are allowed"
            )));
        }
    }
    Ok(())
}

/// Completes the second step of a change of voters whose first leader ended between the steps.
pub(crate) async fn finish_change(replica: &Replica) {
    let nobody = ChangeMembers::AddVoterIds(BTreeSet::new());
    if let Err(error) = replica.raft.change_membership(nobody, true).await {
        tracing::debug!(%error, "the change of voters is not finished yet");
    }
}

/// Changes the membership that was checked. Fails if that membership is no longer in force or this
/// leadership has ended, because the check is then void.
pub(crate) async fn change_membership(
    replica: &Replica,
    leading: Leading,
    seen: &MembershipInForce,
    change: ChangeMembers<u64, Member>,
    retain: bool,
) -> Result<(), ChangeRefusal> {
    let as_seen = seen.preconditions(leading);
    let raft = &replica.raft;
    let changed = if is_out!(MembershipAsSeen) {
        raft.change_membership(change, retain).await
    } else {
        raft.change_membership_if(change, retain, as_seen).await
    };
    match changed {
        Ok(_) => Ok(()),
        Err(error) => Err(describe(error)),
    }
}

fn describe(error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ChangeRefusal {
    match error {
        RaftError::APIError(ClientWriteError::PreconditionFailed(
            PreconditionFailed::LastMembershipLogIdMismatch { .. },
        )) => refused(MemberError::InProgress),
        RaftError::APIError(
            ClientWriteError::ForwardToLeader(_) | ClientWriteError::PreconditionFailed(_),
        ) => ChangeRefusal::NotLeader,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => match error {
            ChangeMembershipError::InProgress(_)
            | ChangeMembershipError::UncommittedLeaderLog(_) => refused(MemberError::InProgress),
            error => unfit(error.to_string()),
        },
        error => refused(ProposeError::unknown(error.to_string()).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seqd_state::codec::{self, Versioned};
    use seqd_store::records::{LogIdRecord, MembershipRecord, StoredMembershipRecord};
    use seqd_store::snapshot_file::{MAX_HEADER_BYTES, SnapshotHeader};

    use super::*;
    use crate::membership::add::MEMBERS;

    fn bytes(value: &impl Versioned) -> Vec<u8> {
        codec::encode(value).unwrap()
    }

    #[test]
    fn the_header_of_a_snapshot_has_room_for_all_members_with_the_longest_texts() {
        let longest = |field: TextField| "x".repeat(field.max_bytes());
        let member = Member {
            name: longest(TextField::NodeName),
            peer: longest(TextField::PeerAddress),
            http: longest(TextField::ClientUrl),
        };
        assert!(check_texts(&member).is_ok());
        let too_long = Member {
            http: format!("{}x", member.http),
            ..member.clone()
        };
        assert!(check_texts(&too_long).is_err());
        let nodes: BTreeMap<u64, Member> = (0..MEMBERS as u64)
            .map(|id| (u64::MAX - id, member.clone()))
            .collect();
        // While voters change, there are two configurations.
        let voters: BTreeSet<u64> = nodes.keys().copied().collect();
        let membership = MembershipRecord {
            configs: vec![voters.clone(), voters],
            nodes,
        };
        let log_id = LogIdRecord {
            term: u64::MAX,
            index: u64::MAX,
        };
        let header = SnapshotHeader {
            cluster_id: longest(TextField::ClusterId),
            index: u64::MAX,
            term: u64::MAX,
            log_id: bytes(&log_id),
            membership: bytes(&StoredMembershipRecord {
                log_id: Some(log_id),
                membership,
            }),
        };
        let length = bytes(&header).len();
        assert!(length <= MAX_HEADER_BYTES, "{length}");
    }
}
