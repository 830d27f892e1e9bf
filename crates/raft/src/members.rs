//! Changes of membership: add as a learner, promote, remove, hand over leadership.
//!
//! Each is carried out by the leader. A node that is added gets its ID from the replicated counter
//! and syncs it *before* the membership names it; IDs are never used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use seqd_state::{AllocateNodeId, Command, NodeId, Outcome, Refusal};
use tokio::time::{Instant, timeout_at};

use crate::gatherer::{self, Gatherer};
use crate::handle::{MemberError, MemberStatus, ProposeError, Role};
use crate::identity;
use crate::local::Local;
use crate::replica::{Leading, Replica};
use crate::status;
use crate::types::{Member, TypeConfig};
use crate::wire::hello;
use crate::wire::messages::{
    Adopt, ChangeRefusal, ChangeReply, ChangeRequest, Changed, Founder, MemberChange, Standing,
    Taken,
};
use crate::wire::paths;
use crate::wire::peer_server::Service;
use crate::wire::transport::Link;

/// Entries that a learner may be behind when it is promoted: less than a second of full load.
const PROMOTE_LAG: u64 = 1_000;

/// How long a node that is added may take to sync its identity.
const ADOPT_LIMIT: Duration = Duration::from_secs(10);

/// The most members that a cluster may have: founders and later ones.
const MEMBERS: usize = 64;

/// Carries out a change on whichever node leads.
pub(crate) async fn change(
    service: &Arc<Service>,
    change: MemberChange,
    deadline: Instant,
) -> Result<Changed, MemberError> {
    let local = &service.local;
    loop {
        let Some(replica) = local.replica.get() else {
            return Err(ProposeError::no_leader().into());
        };
        let refusal = if replica.leading().is_some() {
            match here(service, change.clone(), deadline).await {
                Ok(changed) => return Ok(changed),
                Err(refusal) => refusal,
            }
        } else if let Some(leader) = replica.leader()
            && let Some(member) = replica.member(leader)
        {
            let (left, timeout_ms) = gatherer::time_left(deadline);
            let message = ChangeRequest {
                change: change.clone(),
                timeout_ms,
            };
            let to = (leader, member.peer.as_str());
            match local
                .call(Link::Calls, to, paths::MEMBERS, message, left)
                .await
            {
                Ok(ChangeReply::Ok(changed)) => return Ok(changed),
                Ok(ChangeReply::Err(refusal)) => refusal,
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
pub(crate) async fn carry_out(service: &Arc<Service>, request: ChangeRequest) -> ChangeReply {
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms);
    here(service, request.change, deadline).await
}

/// Carries out a change as the leader. It goes on to its end also when nobody waits any longer:
/// a change of voters has two steps, and one that stops in between needs two majorities.
async fn here(service: &Arc<Service>, change: MemberChange, deadline: Instant) -> ChangeReply {
    let service = Arc::clone(service);
    let task = tokio::spawn(async move {
        let Service {
            local, gatherer, ..
        } = &*service;
        let replica = local.replica.get().ok_or(ChangeRefusal::NotLeader)?;
        let leading = replica.leading().ok_or(ChangeRefusal::NotLeader)?;
        match &change {
            MemberChange::Add { name, peer, http } => {
                add(
                    local,
                    gatherer,
                    replica,
                    name,
                    peer,
                    http.as_deref(),
                    deadline,
                )
                .await
            }
            MemberChange::Promote { name } => promote(local, replica, name).await,
            MemberChange::Remove { name } => remove(local, replica, leading, name).await,
            MemberChange::MoveLeader { to } => move_leader(local, replica, to.as_deref())
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

fn refused(error: MemberError) -> ChangeRefusal {
    ChangeRefusal::Member(error)
}

fn find(replica: &Replica, name: &str) -> Result<(u64, Member), ChangeRefusal> {
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

fn show(local: &Local, replica: &Replica, name: &str) -> Result<Changed, ChangeRefusal> {
    let members = status::members(local, replica);
    let found: Option<MemberStatus> = members.into_iter().find(|member| member.name == name);
    found.map(Changed::Member).ok_or_else(|| {
        refused(ProposeError::unknown("the membership changed again meanwhile").into())
    })
}

async fn add(
    local: &Local,
    gatherer: &Gatherer,
    replica: &Replica,
    name: &str,
    peer: &str,
    http: Option<&str>,
    deadline: Instant,
) -> ChangeReply {
    let members = replica.members();
    if let Some(member) = members.values().find(|m| m.name == name || m.peer == peer) {
        let detail = format!("{} at {} is a member already", member.name, member.peer);
        return Err(refused(MemberError::AlreadyExists { detail }));
    }
    if members.len() >= MEMBERS {
        let detail = format!("the cluster has {MEMBERS} members, which is the most there may be");
        return Err(refused(MemberError::Unfit { detail }));
    }
    let unfit = |detail: String| refused(MemberError::Unfit { detail });
    let hello = hello::hello_to(local, peer).await.map_err(|e| {
        unfit(format!(
            "{peer} does not answer ({e}); start seqd there first"
        ))
    })?;
    if hello.name != name {
        return Err(unfit(format!(
            "the node at {peer} is named {}, not {name}",
            hello.name
        )));
    }
    let own = local
        .identity()
        .map(|identity| identity.cluster_id)
        .unwrap_or_default();
    let node = match hello.standing {
        Standing::Empty => allocate(gatherer, name, peer, &hello.http, deadline).await?,
        Standing::Prepared { cluster_id, node }
            if cluster_id == own && replica.is_removed(node) =>
        {
            return Err(unfit(format!(
                "{name} holds an ID that was given up; empty its folder and start it again"
            )));
        }
        // An earlier add gave it an ID and went no further.
        Standing::Prepared { cluster_id, node } if cluster_id == own => node,
        Standing::Prepared { cluster_id, .. } | Standing::Member { cluster_id, .. } => {
            return Err(unfit(format!(
                "the folder of {name} belongs to cluster {cluster_id}; only a node with an empty \
                 folder can be added"
            )));
        }
    };
    let restored = replica.applied.read().state.restoration().cloned();
    let adopt = Adopt {
        cluster_id: own,
        node,
        you: name.to_owned(),
        members: members
            .iter()
            .map(|(id, m)| Founder {
                node: *id,
                name: m.name.clone(),
                peer: m.peer.clone(),
                http: m.http.clone(),
            })
            .collect(),
        ancestors: restored.map_or_else(Vec::new, |record| record.ancestors),
    };
    match hello::ask(local, peer, paths::ADOPT, adopt, ADOPT_LIMIT).await {
        Ok(Taken::Yes { .. }) => {}
        Ok(Taken::Used) => return Err(unfit(format!("the log of {name} is not empty"))),
        Ok(Taken::No { why }) => return Err(unfit(format!("{name} refused its ID: {why}"))),
        Err(error) => return Err(unfit(format!("{name} did not take its ID: {error}"))),
    }
    let http = http.map_or(hello.http, str::to_owned);
    let member = Member {
        name: name.to_owned(),
        peer: peer.to_owned(),
        http,
    };
    let nodes = BTreeMap::from([(node, member)]);
    change_membership(replica, ChangeMembers::AddNodes(nodes), true).await?;
    show(local, replica, name)
}

async fn allocate(
    gatherer: &Gatherer,
    name: &str,
    peer: &str,
    http: &str,
    deadline: Instant,
) -> Result<u64, ChangeRefusal> {
    let mut nonce = [0; 8];
    identity::fill_random(&mut nonce)
        .map_err(|stop| refused(ProposeError::unknown(stop.message).into()))?;
    let command = Command::AllocateNodeId(AllocateNodeId {
        name: name.to_owned(),
        peer: peer.to_owned(),
        http: http.to_owned(),
        nonce: u64::from_be_bytes(nonce),
    });
    let outcomes = gatherer.propose(vec![command], deadline).await;
    match outcomes.map_err(|e| refused(e.into()))?.into_iter().next() {
        Some(Outcome::NodeIdAllocated { node }) => Ok(node.0),
        Some(Outcome::Refused(refusal @ Refusal::NodeNameTaken { .. })) => {
            Err(refused(MemberError::AlreadyExists {
                detail: refusal.to_string(),
            }))
        }
        Some(Outcome::Refused(refusal @ Refusal::RestorationNotStamped { .. })) => {
            let detail = refusal.to_string();
            Err(refused(ProposeError::NoQuorum { detail }.into()))
        }
        Some(Outcome::Refused(refusal)) => Err(refused(MemberError::Unfit {
            detail: refusal.to_string(),
        })),
        _ => Err(refused(
            ProposeError::unknown("the answer was not one to this command").into(),
        )),
    }
}

async fn promote(local: &Local, replica: &Replica, name: &str) -> ChangeReply {
    let (node, _) = find(replica, name)?;
    if is_voter(replica, node) {
        return show(local, replica, name);
    }
    let last = replica.wal.next_index().saturating_sub(1);
    let matched = status::matched_index(replica, node);
    let lag = last.saturating_sub(matched.unwrap_or(0));
    if matched.is_none() || lag > PROMOTE_LAG {
        let detail = format!(
            "{name} is {lag} entries behind; it can be promoted once that is {PROMOTE_LAG} or less"
        );
        return Err(refused(MemberError::LearnerLagging { detail }));
    }
    let voters = BTreeSet::from([node]);
    change_membership(replica, ChangeMembers::AddVoterIds(voters), true).await?;
    show(local, replica, name)
}

async fn remove(local: &Local, replica: &Replica, leading: Leading, name: &str) -> ChangeReply {
    let (node, _) = find(replica, name)?;
    let voters: BTreeSet<u64> = replica.applied.read().membership.voter_ids().collect();
    if voters.contains(&node) {
        let left: Vec<u64> = voters.iter().copied().filter(|id| *id != node).collect();
        if left.is_empty() {
            let detail = format!("{name} is the only voter; stop it instead of removing it");
            return Err(refused(MemberError::Unsafe { detail }));
        }
        let alive = left
            .iter()
            .filter(|id| **id == replica.node || local.peer(**id).is_reachable());
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
        // Whoever leads next removes it: the caller's node asks again there.
        move_leader(local, replica, None).await?;
        return Err(ChangeRefusal::NotLeader);
    }
    if voters.contains(&node) {
        let gone = BTreeSet::from([node]);
        change_membership(replica, ChangeMembers::RemoveVoters(gone), true).await?;
    }
    let gone = BTreeSet::from([node]);
    let dropped = change_membership(replica, ChangeMembers::RemoveNodes(gone), false).await;
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
    let command = Command::MarkRemoved { node: NodeId(node) };
    gatherer::propose_as(local, replica, leading, vec![command]).await;
    Ok(Changed::Removed)
}

/// Whether a change of voters is between its two steps.
pub(crate) fn is_joint(replica: &Replica) -> bool {
    replica.applied.read().membership.get_joint_config().len() > 1
}

/// Takes the second step of a change of voters whose first leader ended in between.
pub(crate) async fn finish_change(replica: &Replica) {
    let nobody = ChangeMembers::AddVoterIds(BTreeSet::new());
    if let Err(error) = replica.raft.change_membership(nobody, true).await {
        tracing::debug!(%error, "the change of voters is not finished yet");
    }
}

async fn move_leader(
    local: &Local,
    replica: &Replica,
    to: Option<&str>,
) -> Result<String, ChangeRefusal> {
    let target = match to {
        Some(name) => {
            let (node, _) = find(replica, name)?;
            if !is_voter(replica, node) {
                let detail = format!("{name} is a learner; promote it first");
                return Err(refused(MemberError::Unfit { detail }));
            }
            Some(node)
        }
        None => best_heir(local, replica),
    };
    let Some(target) = target else {
        let detail = "no other voter can be reached that could lead".to_owned();
        return Err(refused(MemberError::Unfit { detail }));
    };
    if target != replica.node {
        hand_over(replica, target).await;
    }
    let leader = replica.leader().and_then(|id| replica.member(id));
    if replica.leader() != Some(target) {
        let detail = "leadership was not handed over; it may still be".to_owned();
        return Err(refused(ProposeError::unknown(detail).into()));
    }
    Ok(leader.map(|member| member.name).unwrap_or_default())
}

/// The reachable voter, other than this leader, whose log is the longest.
pub(crate) fn best_heir(local: &Local, replica: &Replica) -> Option<u64> {
    let voters: Vec<u64> = replica.applied.read().membership.voter_ids().collect();
    voters
        .into_iter()
        .filter(|id| *id != replica.node && local.peer(*id).may_lead())
        .max_by_key(|id| status::matched_index(replica, *id))
}

/// Asks `target` to lead and waits until another node does, for two seconds at most.
pub(crate) async fn hand_over(replica: &Replica, target: u64) {
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until && replica.raft.as_leader().is_ok() {
        if let Err(error) = replica.raft.trigger().transfer_leader(target).await {
            tracing::warn!(%error, "leadership was not handed over");
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
    // The vote may be cast and the new leader not yet heard.
    while Instant::now() < until && replica.leader().is_none_or(|leader| leader == replica.node) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn change_membership(
    replica: &Replica,
    change: ChangeMembers<u64, Member>,
    retain: bool,
) -> Result<(), ChangeRefusal> {
    match replica.raft.change_membership(change, retain).await {
        Ok(_) => Ok(()),
        Err(error) => Err(describe(error)),
    }
}

fn describe(error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ChangeRefusal {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => ChangeRefusal::NotLeader,
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

/// Whether a node votes by the membership that is applied.
pub(crate) fn is_voter(replica: &Replica, node: u64) -> bool {
    votes(replica, node) == Some(true)
}

/// The same; `None` before the first membership is applied.
pub(crate) fn votes(replica: &Replica, node: u64) -> Option<bool> {
    let core = replica.applied.read();
    let mut voters = core.membership.voter_ids().peekable();
    voters.peek()?;
    Some(voters.any(|id| id == node))
}

/// The part that a member plays.
pub(crate) fn role(replica: &Replica, node: u64) -> Role {
    if replica.live_leader() == Some(node) {
        Role::Leader
    } else if is_voter(replica, node) {
        Role::Follower
    } else {
        Role::Learner
    }
}
