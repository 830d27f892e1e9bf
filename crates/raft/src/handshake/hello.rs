//! Hellos: the first message of every start to each of its peers.
//!
//! A hello carries the sender's identity, if it has one. The answer carries the state of the peer
//! and its objection to this start, if there is one.

use std::collections::BTreeMap;
use std::time::Duration;

use seqd_peers::wire::hello::{Hello, HelloIdentity, HelloReply};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed;
use seqd_peers::wire::transport::{CallError, Link, Payload};
use seqd_state::codec::Versioned;

use crate::context::NodeContext;

/// Time limit of one peer's answer to a hello.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// Pause between two rounds of hellos.
pub(crate) const ROUND: Duration = Duration::from_millis(200);

/// One round of hellos: for each peer's name, its address and either its answer or the reason why
/// there is none.
pub(crate) type Round = BTreeMap<String, (String, Result<HelloReply, String>)>;

/// This node's own hello. It contains the identity only once the position at the start is known.
pub(crate) fn own_hello(context: &NodeContext) -> Hello {
    Hello {
        name: context.settings.name.clone(),
        peers: peer_list(context),
        http: context.settings.http_advertise.clone(),
        levels: context.settings.levels,
        identity: own_identity(context),
    }
}

pub(super) fn own_identity(context: &NodeContext) -> Option<HelloIdentity> {
    let began = context.began.get()?.synced;
    context.with_identity(|own| HelloIdentity {
        cluster_id: own.cluster_id.clone(),
        ancestors: own.ancestors.clone(),
        node: own.node,
        start: context.start,
        began,
    })
}

/// Sends a hello to every configured peer, and to `others` by name.
pub(crate) async fn hello_all(
    context: &NodeContext,
    others: &BTreeMap<String, String>,
    limit: Duration,
) -> Round {
    let mut peers = peer_list(context);
    for (name, addr) in others {
        peers.entry(name.clone()).or_insert_with(|| addr.clone());
    }
    peers.remove(&context.settings.name);
    hello_each(context, peers, limit).await
}

/// Sends a hello to these peers, given as addresses by name.
pub(crate) async fn hello_each(
    context: &NodeContext,
    peers: BTreeMap<String, String>,
    limit: Duration,
) -> Round {
    let hello = own_hello(context);
    let asked = peers.into_iter().map(|(name, addr)| {
        let hello = hello.clone();
        async move {
            let answer = ask(context, &addr, Route::Hello, hello, limit).await;
            (name, (addr, answer.map_err(|e| e.to_string())))
        }
    });
    futures_util::future::join_all(asked)
        .await
        .into_iter()
        .collect()
}

/// Sends a request to a node without an envelope.
pub(crate) async fn ask<M, R>(
    context: &NodeContext,
    addr: &str,
    route: Route,
    message: M,
    limit: Duration,
) -> Result<R, CallError>
where
    M: Versioned,
    R: Versioned,
{
    let body = sealed::encode(&message).map_err(|e| CallError::Unsent(e.to_string()))?;
    let (link, payload, limit) = (Link::Control, Payload::Bytes(body.into()), limit.into());
    let asked = context.transport.post(link, addr, route, payload, limit);
    sealed::decode(&asked.await?).map_err(|e| CallError::Broken(e.to_string()))
}

/// Sends a hello to one address, for a member that is to be added.
pub(crate) async fn hello_to(context: &NodeContext, addr: &str) -> Result<HelloReply, CallError> {
    let hello = Hello {
        identity: None,
        ..own_hello(context)
    };
    ask(context, addr, Route::Hello, hello, HELLO_LIMIT).await
}

/// The peers that have not answered, each with the reason; `None` if all have.
pub(crate) fn silent(round: &Round) -> Option<String> {
    let peers = round.values();
    let silent =
        peers.filter_map(|(addr, answer)| Some(format!("{addr} {}", answer.as_ref().err()?)));
    let silent: Vec<String> = silent.collect();
    (!silent.is_empty()).then(|| silent.join(", "))
}

/// The peers that have not answered, as a sentence; `None` if all have.
pub(crate) fn missing(round: &Round) -> Option<String> {
    let silent = silent(round)?;
    let all = round.len() + 1;
    let seen = 1 + round.values().filter(|(_, answer)| answer.is_ok()).count();
    Some(format!("waiting for quorum: seen {seen}/{all} ({silent})"))
}

/// The configured peers, name to address.
pub(crate) fn peer_list(context: &NodeContext) -> BTreeMap<String, String> {
    context
        .settings
        .peers
        .iter()
        .map(|peer| (peer.name.clone(), peer.addr.clone()))
        .collect()
}
