//! A new member: it gets its ID first, and then its place in the membership as a learner.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::ChangeMembers;
use seqd_peers::levels::LevelRange;
use seqd_peers::wire::hello::{Adopt, AskStart, HelloReply, OwnStart, Standing, Taken};
use seqd_peers::wire::route::Route;
use seqd_state::{
    AllocateNodeId, ClusterCommand, ClusterOutcome, ClusterRefusal, Command, Outcome, Refusal,
};
use tokio::time::Instant;

use super::change::{Changing, change_membership, check_texts, no_quorum, refused, show, unfit};
use super::majority::MembershipInForce;
use crate::context::{ClusterView, NodeContext};
use crate::handle::{MemberError, ProposeError};
use crate::handshake::hello;
use crate::leadership::Leading;
use crate::messages::ChangeRefusal;
use crate::platform;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;
use crate::types::Member;

/// Longest time for which a node that is added may take to sync its identity.
const ADOPT_LIMIT: Duration = Duration::from_secs(10);

/// Largest number of members of a cluster, including the founders.
pub(super) const MEMBERS: usize = 64;

pub(super) struct NewMember<'a> {
    pub(super) name: &'a str,
    pub(super) peer: &'a str,
    /// The node's client address. If `None`, the address that the node itself reports is used.
    pub(super) http: Option<&'a str>,
}

pub(super) async fn add(
    context: &NodeContext,
    batcher: &ProposalBatcher,
    replica: &Replica,
    leading: Leading,
    new: NewMember<'_>,
    deadline: Instant,
) -> Changing {
    let (seen, hello, own_id) = check(context, replica, &new).await?;
    let NewMember { name, peer, http } = new;
    let member = Member {
        name: name.to_owned(),
        peer: peer.to_owned(),
        http: http.unwrap_or(&hello.http).to_owned(),
    };
    check_texts(&member)?;
    let node = match own_id {
        Some(node) => node,
        None => {
            let added = AllocateNodeId {
                name: name.to_owned(),
                peer: peer.to_owned(),
                http: hello.http.clone(),
                nonce: nonce_of(context, name, peer).await?,
            };
            allocate(batcher, added, deadline).await?
        }
    };
    give_id(context, replica, node, name, peer).await?;
    let nodes = BTreeMap::from([(node, member)]);
    // The level may have been raised meanwhile, or a raise may be in progress.
    let _held = replica.adding_or_raising.lock().await;
    check_levels(context, name, hello.levels)?;
    let change = ChangeMembers::AddNodes(nodes);
    change_membership(replica, leading, &seen, change, true).await?;
    show(context, replica, name)
}

/// Checks whether the node can be added. Returns the membership that was checked, the node's reply
/// to the hello, and the ID that it may have already.
pub(super) async fn check(
    context: &NodeContext,
    replica: &Replica,
    new: &NewMember<'_>,
) -> Result<(MembershipInForce, HelloReply, Option<u64>), ChangeRefusal> {
    let seen = MembershipInForce::of(replica);
    check_place(&seen, new.name, new.peer)?;
    seen.check_majority(context, replica, &seen.voters())
        .map_err(no_quorum)?;
    let hello = greet(context, new.name, new.peer).await?;
    check_levels(context, new.name, hello.levels)?;
    let own_id = own_id(context, replica, new.name, &hello.standing)?;
    Ok((seen, hello, own_id))
}

/// Refuses a name or an address that another member has, and a node beyond the largest number of
/// members.
fn check_place(seen: &MembershipInForce, name: &str, peer: &str) -> Result<(), ChangeRefusal> {
    let members = seen.nodes();
    if let Some(member) = members.values().find(|m| m.name == name || m.peer == peer) {
        let detail = format!("{} at {} is already a member", member.name, member.peer);
        return Err(refused(MemberError::AlreadyExists { detail }));
    }
    if members.len() >= MEMBERS {
        return Err(unfit(format!(
            "the cluster has {MEMBERS} members, which is the maximum"
        )));
    }
    Ok(())
}

async fn greet(context: &NodeContext, name: &str, peer: &str) -> Result<HelloReply, ChangeRefusal> {
    let hello = hello::hello_to(context, peer).await.map_err(|e| {
        unfit(format!(
            "{peer} does not respond ({e}); start seqd there first"
        ))
    })?;
    if hello.name != name {
        return Err(unfit(format!(
            "the node at {peer} is named {}, not {name}",
            hello.name
        )));
    }
    Ok(hello)
}

/// The ID that the node received from an earlier, interrupted add; `None` for an empty folder.
fn own_id(
    context: &NodeContext,
    replica: &Replica,
    name: &str,
    standing: &Standing,
) -> Result<Option<u64>, ChangeRefusal> {
    let is_own = |id: &String| context.with_identity(|own| own.cluster_id == *id) == Some(true);
    match standing {
        Standing::Empty => Ok(None),
        Standing::Prepared { cluster_id, node }
            if is_own(cluster_id) && replica.is_removed(*node) =>
        {
            Err(unfit(format!(
                "{name} has an ID that is no longer valid; empty its folder and start it again"
            )))
        }
        Standing::Prepared { cluster_id, node } if is_own(cluster_id) => Ok(Some(*node)),
        Standing::Prepared { cluster_id, .. } | Standing::Member { cluster_id, .. } => {
            Err(unfit(format!(
                "the folder of {name} belongs to cluster {cluster_id}; only a node with an empty \
                 folder can be added"
            )))
        }
    }
}

/// Sends the node its identity. The node syncs it before it answers.
async fn give_id(
    context: &NodeContext,
    replica: &Replica,
    node: u64,
    name: &str,
    peer: &str,
) -> Result<(), ChangeRefusal> {
    let restored = replica.applied.read().state.restoration().cloned();
    let adopt = Adopt {
        cluster_id: context
            .with_identity(|own| own.cluster_id.clone())
            .unwrap_or_default(),
        node,
        you: name.to_owned(),
        members: replica.members().into_iter().collect(),
        ancestors: restored.map_or_else(Vec::new, |record| record.ancestors),
    };
    match hello::ask(context, peer, Route::Adopt, adopt, ADOPT_LIMIT).await {
        Ok(Taken::Yes { .. }) => Ok(()),
        Ok(Taken::Used) => Err(unfit(format!("the log of {name} is not empty"))),
        Ok(Taken::No { why }) => Err(unfit(format!("{name} refused its ID: {why}"))),
        Err(error) => Err(unfit(format!("{name} did not take its ID: {error}"))),
    }
}

/// Refuses a node whose program does not support the cluster's level.
fn check_levels(
    context: &NodeContext,
    name: &str,
    levels: LevelRange,
) -> Result<(), ChangeRefusal> {
    let level = context.level();
    if levels.contains(level) {
        return Ok(());
    }
    Err(unfit(format!(
        "the program of {name} supports levels {levels}, and the cluster is at {level}; start the \
         cluster's version of seqd there"
    )))
}

/// The nonce with which the ID of an empty node is allocated: that of its process, which locks its
/// folder. Two adds of one process, such as a repeated command after a change of leader, therefore
/// get the same ID, and neither takes it from the other. A process that starts later, possibly with
/// an emptied folder, gets another ID.
async fn nonce_of(context: &NodeContext, name: &str, peer: &str) -> Result<u64, ChangeRefusal> {
    let asked = hello::ask(context, peer, Route::Start, AskStart, hello::HELLO_LIMIT).await;
    match asked {
        Ok(OwnStart { start }) => Ok(start.nonce),
        // The node's program is older than this request.
        Err(error) if error.is_newer() => {
            let mut nonce = [0; 8];
            platform::fill_random(&mut nonce)
                .map_err(|stop| refused(ProposeError::unknown(stop.message).into()))?;
            Ok(u64::from_be_bytes(nonce))
        }
        Err(error) => Err(unfit(format!(
            "{name} at {peer} does not respond ({error}); start seqd there first"
        ))),
    }
}

async fn allocate(
    batcher: &ProposalBatcher,
    added: AllocateNodeId,
    deadline: Instant,
) -> Result<u64, ChangeRefusal> {
    let command = Command::Cluster(ClusterCommand::AllocateNodeId(added));
    let outcomes = batcher.propose(vec![command], deadline).await;
    match outcomes.map_err(|e| refused(e.into()))?.into_iter().next() {
        Some(Outcome::Cluster(ClusterOutcome::NodeIdAllocated { node })) => Ok(node.0),
        Some(Outcome::Refused(
            refusal @ Refusal::Cluster(ClusterRefusal::NodeNameTaken { .. }),
        )) => Err(refused(MemberError::AlreadyExists {
            detail: refusal.to_string(),
        })),
        Some(Outcome::Refused(
            refusal @ Refusal::Cluster(ClusterRefusal::RestorationNotStamped { .. }),
        )) => {
            let detail = refusal.to_string();
            Err(refused(ProposeError::NoQuorum { detail }.into()))
        }
        Some(Outcome::Refused(refusal)) => Err(unfit(refusal.to_string())),
        _ => Err(refused(
            ProposeError::unknown("the response does not belong to this command").into(),
        )),
    }
}
