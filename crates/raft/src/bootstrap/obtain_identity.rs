//! Obtains this node's identity from its folder or from another node, or creates it as the founder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::hello::{HelloReply, Standing};
use seqd_peers::wire::transport::CallError;
use seqd_store::cluster_id;
use seqd_store::folder::Identity;
use tokio::time::Instant;

use super::take;
use super::wiped::wiped;
use crate::context::NodeContext;
use crate::handle::{Phase, Stop, StopReason};
use crate::handshake::hello::{self, HELLO_LIMIT, ROUND, Round, peer_list};
use crate::platform;
use crate::types::Member;

/// Time for which an empty node waits for a leader to confirm that its name is a member's, while a
/// majority of the members answers. By then, they have elected a leader and caught up, or have no
/// quorum.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

const EMPTY: &str = "its folder is empty";

/// Waits until this node has an identity.
pub(crate) async fn obtain_identity(context: &Arc<NodeContext>) -> Result<Identity, Stop> {
    if let Some(identity) = context.identity() {
        check_identity(context, &identity)?;
        let (cluster, node) = (identity.cluster_id.as_str(), identity.node);
        tracing::info!(
            cluster,
            node,
            "the folder belongs to this node: the node starts again"
        );
        return Ok(identity);
    }
    let mut unconfirmed_since = None;
    loop {
        let taken = context.identity_taken.notified();
        if let Some(identity) = context.identity() {
            return Ok(identity);
        }
        let round = hello::hello_all(context, &BTreeMap::new(), HELLO_LIMIT).await;
        if let Some(identity) = context.identity() {
            return Ok(identity);
        }
        match judge_newcomer(context, &round)? {
            Newcomer::Bootstraps(founders) => {
                let identity = Identity {
                    cluster_id: new_cluster_id(context)?,
                    node: own_id(context, &founders)?,
                    name: context.settings.name.clone(),
                    members: founders,
                    founder: true,
                    joined: false,
                    ancestors: Vec::new(),
                };
                tracing::info!(
                    cluster = identity.cluster_id,
                    "all listed nodes are empty and list the same nodes: this node founds the \
                     cluster"
                );
                return context
                    .take_identity(identity)
                    .map_err(|e| Stop::of_io("the identity could not be stored", &e));
            }
            Newcomer::Waits(reason) | Newcomer::Joins(reason) => {
                unconfirmed_since = None;
                context.set_phase(Phase::Waiting { reason });
            }
            Newcomer::Unconfirmed { cluster_id, reason } => {
                let since = *unconfirmed_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= CONFIRMED_WITHIN {
                    return Err(wiped(context, &cluster_id, EMPTY));
                }
                context.set_phase(Phase::Waiting { reason });
            }
        }
        let _ = tokio::time::timeout(ROUND, taken).await;
    }
}

fn new_cluster_id(context: &NodeContext) -> Result<String, Stop> {
    let mut random = [0; 16];
    platform::fill_random(&mut random)?;
    Ok(cluster_id::cluster_id_of(
        context.settings.clock.wall(),
        random,
    ))
}

fn check_identity(context: &NodeContext, identity: &Identity) -> Result<(), Stop> {
    let settings = &context.settings;
    if identity.name != settings.name {
        return Err(Stop::new(
            StopReason::ForeignFolder,
            format!(
                "{} belongs to node {} (cluster {}), and this node is named {}; use this node's \
                 own folder (only a node that was never a member begins with an empty one)",
                context.folder.root().display(),
                identity.name,
                identity.cluster_id,
                settings.name
            ),
        ));
    }
    let has_log = context.folder.has_log();
    let has_log = has_log.map_err(|e| Stop::unusable(&context.folder.wal(), &e))?;
    if !has_log && !identity.founder {
        return Err(wiped(context, &identity.cluster_id, "its log is missing"));
    }
    Ok(())
}

enum Newcomer {
    Bootstraps(Vec<(u64, Member)>),
    Waits(String),
    /// A member does not list this node.
    Joins(String),
    /// A node lists this one as a member, and no leader confirms this although a majority of the
    /// members answers.
    Unconfirmed {
        cluster_id: String,
        reason: String,
    },
}

/// Evaluates how the answering members list an empty node's name; `None` if no member answers.
///
/// A member without a leader may not have applied the removal of that name while it is cut off from
/// a majority. Only a leader's confirmation is therefore final, and a member that does not list the
/// name takes precedence over a member that may lag.
fn judge_members(context: &NodeContext, round: &Round) -> Result<Option<Newcomer>, Stop> {
    let name = &context.settings.name;
    let mut found = None;
    for (peer, (_, answer)) in round {
        let Ok(HelloReply {
            standing:
                Standing::Member {
                    cluster_id,
                    members,
                    leader,
                    ..
                },
            ..
        }) = answer
        else {
            continue;
        };
        if !members.contains(name) {
            context.other_cluster.meet(cluster_id);
            if !matches!(found, Some(Newcomer::Joins(_))) {
                found = Some(Newcomer::Joins(format!(
                    "waiting to be added to cluster {cluster_id}: run `seqd member add {name} {} \
                     --wait`, then `seqd member promote {name} --wait`",
                    context.settings.peer_advertise
                )));
            }
        } else if leader.is_some() {
            return Err(wiped(context, cluster_id, EMPTY));
        } else if found.is_none() {
            let cluster_id = cluster_id.clone();
            let reason = format!(
                "waiting for a leader: {peer} lists {name} as a member of cluster {cluster_id}, \
                 whose folder is empty here, and no leader confirms it"
            );
            found = Some(if majority_answers(members, name, round) {
                Newcomer::Unconfirmed { cluster_id, reason }
            } else {
                Newcomer::Waits(reason)
            });
        }
    }
    Ok(found)
}

/// Returns whether more than half of these members answer. The empty node of this name counts as
/// one of them.
fn majority_answers(members: &[String], name: &String, round: &Round) -> bool {
    let answers = |member: &&String| {
        *member == name || round.get(*member).is_some_and(|(_, answer)| answer.is_ok())
    };
    members.iter().filter(answers).count() > members.len() / 2
}

/// The peers that do not admit a joining node, with the reasons. A port that is open and does not
/// answer may require a certificate that this node lacks.
fn unanswered(name: &str, round: &Round) -> String {
    let Some(silent) = hello::silent(round) else {
        return String::new();
    };
    let closed = CallError::Refused.to_string();
    let mut errors = round
        .values()
        .filter_map(|(_, answer)| answer.as_ref().err());
    let hint = match errors.any(|error| *error != closed) {
        true => format!(
            "; if the cluster uses TLS, check tls.peer_ca and the certificate of this node \
             (`seqd tls add --node {name}=HOST`)"
        ),
        false => String::new(),
    };
    format!("; no answer yet ({silent}){hint}")
}

/// The next step of an empty node after a round of hellos.
fn judge_newcomer(context: &NodeContext, round: &Round) -> Result<Newcomer, Stop> {
    let name = &context.settings.name;
    if let Some(of_members) = judge_members(context, round)? {
        return Ok(of_members);
    }
    if let Some(cluster_id) = context.other_cluster.addressing() {
        let reason = format!(
            "waiting: members of cluster {cluster_id} send messages to {} as to a member of theirs, \
             and the folder is empty here",
            context.settings.peer_advertise
        );
        return Ok(Newcomer::Unconfirmed { cluster_id, reason });
    }
    if !context.settings.peers.iter().any(|peer| peer.name == *name) {
        return Ok(Newcomer::Waits(format!(
            "waiting to be added: {name} is not among the configured peers; run `seqd member add \
             {name} {} --wait` on the cluster, then `seqd member promote {name} --wait`{}",
            context.settings.peer_advertise,
            unanswered(name, round)
        )));
    }
    if let Some(reason) = hello::missing(round) {
        return Ok(Newcomer::Waits(reason));
    }
    let own = peer_list(context);
    let https = match https_of_founders(context, round, &own) {
        Ok(https) => https,
        Err(reason) => return Ok(Newcomer::Waits(reason)),
    };
    let founder = own.keys().next().cloned().unwrap_or_default();
    if founder != *name {
        return Ok(Newcomer::Waits(format!(
            "waiting for quorum: {founder} founds the cluster"
        )));
    }
    if let Some(reason) = take::not_founding(context, None) {
        return Ok(Newcomer::Waits(reason));
    }
    let founders = own.iter().map(|(name, peer)| Member {
        name: name.clone(),
        peer: peer.clone(),
        http: https.get(name).cloned().unwrap_or_default(),
    });
    Ok(Newcomer::Bootstraps((1..).zip(founders).collect()))
}

/// The client addresses of the founders by name, once every peer is empty and lists the same peers.
/// The error is the condition that is not met yet.
fn https_of_founders(
    context: &NodeContext,
    round: &Round,
    own: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let (name, http) = (&context.settings.name, &context.settings.http_advertise);
    let mut https = BTreeMap::from([(name.clone(), http.clone())]);
    for (peer, (_, answer)) in round {
        let Ok(reply) = answer else { continue };
        if reply.name != *peer {
            return Err(format!(
                "waiting for quorum: the node at {peer}'s address is named {}",
                reply.name
            ));
        }
        if reply.peers != *own {
            return Err(format!(
                "waiting for quorum: {peer} lists other peers ({}) than this node ({})",
                list(&reply.peers),
                list(own)
            ));
        }
        if let Standing::Prepared { cluster_id, .. } = &reply.standing {
            return Err(format!(
                "waiting for quorum: {peer} was prepared for cluster {cluster_id}, which is being \
                 founded; if the founder will not return, the folder of {peer} may be emptied"
            ));
        }
        https.insert(peer.clone(), reply.http.clone());
    }
    Ok(https)
}

fn list(peers: &BTreeMap<String, String>) -> String {
    peers
        .iter()
        .map(|(name, addr)| format!("{name}={addr}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn own_id(context: &NodeContext, founders: &[(u64, Member)]) -> Result<u64, Stop> {
    founders
        .iter()
        .find(|(_, founder)| founder.name == context.settings.name)
        .map(|(node, _)| *node)
        .ok_or_else(|| {
            Stop::invariant("this node founds a cluster that it is not part of".to_owned())
        })
}
