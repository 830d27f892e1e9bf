//! A new member: it gets its ID, and then its place in the membership as a learner.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::ChangeMembers;
use seqd_state::{
    AllocateNodeId, ClusterCommand, ClusterOutcome, ClusterRefusal, Command, Outcome, Refusal,
};
use tokio::time::Instant;

use super::change::{Changing, change_membership, refused, show};
use crate::context::{ClusterView, NodeContext};
use crate::handle::{MemberError, ProposeError};
use crate::handshake::hello;
use crate::levels::LevelRange;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;
use crate::types::Member;
use crate::wire::messages::{Adopt, ChangeRefusal, Founder, Standing, Taken};
use crate::wire::paths;
use seqd_store::cluster_id;

/// How long a node that is added may take to sync its identity.
const ADOPT_LIMIT: Duration = Duration::from_secs(10);

/// The most members that a cluster may have: founders and later ones.
const MEMBERS: usize = 64;

pub(super) struct NewMember<'a> {
    pub(super) name: &'a str,
    pub(super) peer: &'a str,
    /// Its client address; what the node itself answers if it is not given.
    pub(super) http: Option<&'a str>,
}

pub(super) async fn add(
    context: &NodeContext,
    batcher: &ProposalBatcher,
    replica: &Replica,
    new: NewMember<'_>,
    deadline: Instant,
) -> Changing {
    let NewMember { name, peer, http } = new;
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
    let hello = hello::hello_to(context, peer).await.map_err(|e| {
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
    check_levels(context, name, hello.levels)?;
    let own = context
        .identity()
        .map(|identity| identity.cluster_id)
        .unwrap_or_default();
    let node = match hello.standing {
        Standing::Empty => allocate(batcher, name, peer, &hello.http, deadline).await?,
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
    match hello::ask(context, peer, paths::ADOPT, adopt, ADOPT_LIMIT).await {
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
    // The level may have been raised since.
    check_levels(context, name, hello.levels)?;
    change_membership(replica, ChangeMembers::AddNodes(nodes), true).await?;
    show(context, replica, name)
}

/// Refuses a node whose program does not support the cluster's level.
fn check_levels(
    context: &NodeContext,
    name: &str,
    speaks: LevelRange,
) -> Result<(), ChangeRefusal> {
    let level = context.level();
    if speaks.contains(level) {
        return Ok(());
    }
    let detail = format!(
        "the program of {name} speaks levels {speaks}, and the cluster is at {level}; start the \
         cluster's version of seqd there"
    );
    Err(refused(MemberError::Unfit { detail }))
}

async fn allocate(
    batcher: &ProposalBatcher,
    name: &str,
    peer: &str,
    http: &str,
    deadline: Instant,
) -> Result<u64, ChangeRefusal> {
    let mut nonce = [0; 8];
    cluster_id::fill_random(&mut nonce)
        .map_err(|stop| refused(ProposeError::unknown(stop.message).into()))?;
    let command = Command::Cluster(ClusterCommand::AllocateNodeId(AllocateNodeId {
        name: name.to_owned(),
        peer: peer.to_owned(),
        http: http.to_owned(),
        nonce: u64::from_be_bytes(nonce),
    }));
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
        Some(Outcome::Refused(refusal)) => Err(refused(MemberError::Unfit {
            detail: refusal.to_string(),
        })),
        _ => Err(refused(
            ProposeError::unknown("the answer was not one to this command").into(),
        )),
    }
}
