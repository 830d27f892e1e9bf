//! Hellos: who a node is, said before it may say anything else.
//!
//! Every start says hello to every peer that it knows of, with its identity if it has one. The
//! answer tells how far the peer is in its life, and what it knows against this start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::local::Local;
use crate::members;
use crate::peers::introduction;
use crate::records;
use crate::wire::messages::{Hello, HelloIdentity, HelloReply, Open, Standing, Verdict};
use crate::wire::paths;
use crate::wire::transport::{CallError, Link};

/// How long one peer may take to say who it is.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// One round of hellos: by peer's name, its address and its answer or why there is none.
pub(crate) type Round = BTreeMap<String, (String, Result<HelloReply, String>)>;

/// What this node says of itself: its identity only once it knows what it began with.
pub(crate) fn own_hello(local: &Local) -> Hello {
    Hello {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        identity: own_identity(local),
    }
}

fn own_identity(local: &Local) -> Option<HelloIdentity> {
    let began = local.began.get()?.shown;
    local.with_identity(|own| HelloIdentity {
        cluster_id: own.cluster_id.clone(),
        ancestors: own.ancestors.clone(),
        node: own.node,
        start: local.start,
        began,
    })
}

/// Says hello to every peer that the configuration names, and to `others` by name.
pub(crate) async fn hello_all(
    local: &Local,
    others: &BTreeMap<String, String>,
    limit: Duration,
) -> Round {
    let mut peers = peer_list(local);
    for (name, addr) in others {
        peers.entry(name.clone()).or_insert_with(|| addr.clone());
    }
    peers.remove(&local.settings.name);
    hello_each(local, peers, limit).await
}

/// Says hello to these peers, addresses by name.
pub(crate) async fn hello_each(
    local: &Local,
    peers: BTreeMap<String, String>,
    limit: Duration,
) -> Round {
    let hello = own_hello(local);
    let asked = peers.into_iter().map(|(name, addr)| {
        let hello = hello.clone();
        async move {
            let answer = ask(local, &addr, paths::HELLO, hello, limit).await;
            (name, (addr, answer.map_err(|e| e.to_string())))
        }
    });
    futures_util::future::join_all(asked)
        .await
        .into_iter()
        .collect()
}

/// Asks a node without an envelope.
pub(crate) async fn ask<M, R>(
    local: &Local,
    addr: &str,
    path: &str,
    message: M,
    limit: Duration,
) -> Result<R, CallError>
where
    M: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let body = records::encode(&Open(message)).map_err(|e| CallError::Unsent(e.to_string()))?;
    let bytes = local
        .transport
        .post(Link::Calls, addr, path, body, limit)
        .await?;
    let reply = records::decode::<Open<R>>(&bytes);
    reply
        .map(|open| open.0)
        .map_err(|e| CallError::Broken(e.to_string()))
}

/// Says hello to one address, for a member that is to be added.
pub(crate) async fn hello_to(local: &Local, addr: &str) -> Result<HelloReply, CallError> {
    let hello = Hello {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        identity: None,
    };
    ask(local, addr, paths::HELLO, hello, HELLO_LIMIT).await
}

/// Answers a hello.
pub(crate) fn answer_hello(local: &Local, hello: &Hello) -> Option<HelloReply> {
    let identity = local.identity();
    let standing = match &identity {
        None => Standing::Empty,
        Some(identity) => {
            let cluster_id = identity.cluster_id.clone();
            if local.has_history()? {
                let replica = local.replica.get();
                let members = replica.map(|replica| replica.members()).unwrap_or_default();
                let mut names: Vec<String> =
                    members.values().map(|member| member.name.clone()).collect();
                if names.is_empty() {
                    names = identity
                        .members
                        .iter()
                        .map(|member| member.name.clone())
                        .collect();
                }
                let leader = replica
                    .filter(|replica| replica.has_quorum_contact())
                    .and_then(|replica| replica.member(replica.leader()?))
                    .map(|member| member.name);
                Standing::Member {
                    cluster_id,
                    node: identity.node,
                    members: names,
                    leader,
                }
            } else {
                Standing::Prepared {
                    cluster_id,
                    node: identity.node,
                }
            }
        }
    };
    let verdict = match &hello.identity {
        Some(theirs) => match introduction::meet(local, theirs) {
            Ok(verdict) => verdict,
            Err(stop) => {
                local.stop(stop);
                Verdict::Foreign
            }
        },
        None => Verdict::Welcome,
    };
    Some(HelloReply {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        standing,
        votes: votes(local),
        identity: own_identity(local),
        verdict,
    })
}

/// Whether this node votes, as far as it knows.
fn votes(local: &Local) -> bool {
    let Some(node) = local.with_identity(|own| own.node) else {
        return false;
    };
    // While a cluster is founded no membership is applied yet: it takes the word of a founder that
    // the others begin.
    let replica = local.replica.get();
    if let Some(votes) = replica.and_then(|replica| members::votes(replica, node)) {
        return votes;
    }
    match local.began.get() {
        Some(began) if !began.voters.is_empty() => began.voters.contains(&node),
        // It was prepared as a founder, and founders vote.
        _ => local.with_identity(|own| !own.joined) == Some(true),
    }
}

/// Who has not answered, as a sentence; `None` if all have.
pub(crate) fn missing(round: &Round) -> Option<String> {
    let silent: Vec<String> = round
        .values()
        .filter_map(|(addr, answer)| Some(format!("{addr} {}", answer.as_ref().err()?)))
        .collect();
    if silent.is_empty() {
        return None;
    }
    let all = round.len() + 1;
    Some(format!(
        "waiting for quorum: seen {}/{all} ({})",
        all - silent.len(),
        silent.join(", ")
    ))
}

/// The configured peers, name to address.
pub(crate) fn peer_list(local: &Local) -> BTreeMap<String, String> {
    local
        .settings
        .peers
        .iter()
        .map(|peer| (peer.name.clone(), peer.addr.clone()))
        .collect()
}
