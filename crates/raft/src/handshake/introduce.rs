//! Introductions: two starts exchange hellos, and each checks the position with which the other
//! began.

use std::time::Duration;

use seqd_guards::is_out;
use seqd_peers::levels::LevelRange;
use seqd_peers::wire::hello::{Hello, HelloIdentity, HelloReply, HelloVerdict, Standing};
use seqd_peers::wire::route::Route;
use seqd_store::folder::Identity;

use super::hello;
use crate::context::NodeContext;
use crate::handle::Stop;
use crate::peer_stops;

/// Time limit of an answer to a hello in the middle of a conversation.
const LIMIT: Duration = Duration::from_millis(500);

/// Sends a hello to a peer that has no record of this start, or of whose start this node has no
/// record. The hello carries the position with which this start began, not the current one. Returns
/// whether both starts are then introduced.
pub(crate) async fn introduce(context: &NodeContext, to: u64, addr: &str) -> bool {
    if context.is_stopped() || !context.peers.hello_is_due(to) {
        return false;
    }
    let hello = hello::own_hello(context);
    if hello.identity.is_none() {
        return false;
    }
    let Ok(reply) = hello::ask(context, addr, Route::Hello, hello, LIMIT).await else {
        return false;
    };
    match judge_reply(context, &reply) {
        Ok(met) => met == Some(to),
        Err(stop) => {
            context.stop(stop);
            false
        }
    }
}

/// Evaluates the answer to a hello: returns the node that was met, or an error if this node must
/// stop.
pub(crate) fn judge_reply(context: &NodeContext, reply: &HelloReply) -> Result<Option<u64>, Stop> {
    let name = &context.settings.name;
    match &reply.verdict {
        HelloVerdict::Removed => return Err(peer_stops::removed(name)),
        HelloVerdict::Stale { why } => return Err(peer_stops::stale(name, why)),
        HelloVerdict::Superseded { by } => return Err(peer_stops::superseded(by)),
        HelloVerdict::LeftBehind { level } => {
            return Err(peer_stops::left_behind(context.settings.levels, *level));
        }
        HelloVerdict::Foreign | HelloVerdict::Welcome => {}
    }
    let Some(theirs) = &reply.identity else {
        return Ok(None);
    };
    check_start(context, theirs, reply.levels)
        .map(|verdict| (verdict == HelloVerdict::Welcome).then_some(theirs.node))
}

/// Judges a start by its hello, and records it if it may take part. Returns an error if this node
/// must stop, because the other is of a cluster that was restored from this one.
pub(crate) fn check_start(
    context: &NodeContext,
    theirs: &HelloIdentity,
    levels: LevelRange,
) -> Result<HelloVerdict, Stop> {
    let Some(own) = context.identity() else {
        return Ok(HelloVerdict::Welcome);
    };
    if own.cluster_id != theirs.cluster_id && !is_out!(ForeignRefused) {
        if theirs.ancestors.contains(&own.cluster_id) {
            return Err(peer_stops::superseded(&theirs.cluster_id));
        }
        if own.ancestors.contains(&theirs.cluster_id) {
            let by = own.cluster_id;
            return Ok(HelloVerdict::Superseded { by });
        }
        if is_sibling(&own, theirs) && !is_out!(SiblingStopped) {
            check_sibling(&own, theirs)?;
        }
        return Ok(HelloVerdict::Foreign);
    }
    if context.is_removed(theirs.node) {
        return Ok(HelloVerdict::Removed);
    }
    if theirs.node == own.node {
        // This node itself, reached under another address, or a running copy of it.
        let why = format!("node {} runs here already", own.node);
        let is_this = theirs.start == context.start;
        return Ok(if is_this {
            HelloVerdict::Welcome
        } else {
            HelloVerdict::Stale { why }
        });
    }
    if let Some(level) = context.level_outside(levels) {
        tracing::warn!(
            node = theirs.node,
            level = level.0,
            %levels,
            "a node is refused because its program does not support the cluster's level"
        );
        return Ok(HelloVerdict::LeftBehind { level });
    }
    match context
        .peers
        .meet(theirs.node, theirs.start, theirs.began, levels)
    {
        Ok(()) => Ok(HelloVerdict::Welcome),
        Err(stale) => {
            tracing::warn!(
                node = theirs.node,
                boot = theirs.start.boot,
                %stale,
                "a node is refused because its folder contains less than it has acknowledged"
            );
            let why = stale.to_string();
            Ok(HelloVerdict::Stale { why })
        }
    }
}

/// Returns whether both clusters were made from the same lost cluster, so that both may issue the
/// same numbers.
pub(super) fn is_sibling(own: &Identity, theirs: &HelloIdentity) -> bool {
    own.cluster_id != theirs.cluster_id
        && !theirs.ancestors.contains(&own.cluster_id)
        && !own.ancestors.contains(&theirs.cluster_id)
        && common_ancestor(own, theirs).is_some()
}

fn common_ancestor<'a>(own: &'a Identity, theirs: &HelloIdentity) -> Option<&'a String> {
    own.ancestors
        .iter()
        .rfind(|it| theirs.ancestors.contains(it))
}

/// Returns an error if this node's cluster is the later one of two that were made from one. IDs of
/// clusters begin with the time. The earlier one may have served for longer.
fn check_sibling(own: &Identity, theirs: &HelloIdentity) -> Result<(), Stop> {
    let ancestor = common_ancestor(own, theirs).map_or("", String::as_str);
    if own.cluster_id > theirs.cluster_id {
        let (own, other) = (&own.cluster_id, &theirs.cluster_id);
        return Err(peer_stops::sibling(own, other, ancestor));
    }
    tracing::error!(
        cluster = own.cluster_id,
        other = theirs.cluster_id,
        node = theirs.node,
        ancestor,
        "another cluster was made from the same ancestor and may issue the same numbers; its node \
         stops: retire its folders"
    );
    Ok(())
}

pub(crate) fn answer_hello(context: &NodeContext, hello: &Hello) -> Option<HelloReply> {
    let identity = context.identity();
    let standing = match &identity {
        None => Standing::Empty,
        Some(identity) => {
            let cluster_id = identity.cluster_id.clone();
            if context.has_history()? {
                let view = context.view();
                let members = view.map(|view| view.members()).unwrap_or_default();
                let mut names: Vec<String> =
                    members.values().map(|member| member.name.clone()).collect();
                if names.is_empty() {
                    let members = identity.members.iter();
                    names = members.map(|(_, member)| member.name.clone()).collect();
                }
                let leader = view.and_then(|view| view.live_leader_name());
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
        Some(theirs) => match check_start(context, theirs, hello.levels) {
            Ok(verdict) => verdict,
            Err(stop) => {
                context.stop(stop);
                HelloVerdict::Foreign
            }
        },
        None => HelloVerdict::Welcome,
    };
    Some(HelloReply {
        name: context.settings.name.clone(),
        peers: hello::peer_list(context),
        http: context.settings.http_advertise.clone(),
        levels: context.settings.levels,
        standing,
        votes: votes(context),
        identity: hello::own_identity(context),
        verdict,
    })
}

/// Returns whether this node votes, by its own records.
fn votes(context: &NodeContext) -> bool {
    let Some(node) = context.with_identity(|own| own.node) else {
        return false;
    };
    // At the bootstrap, no membership is applied yet, and the other nodes begin only once a founder
    // has answered that it votes.
    if let Some(votes) = context.view().and_then(|view| view.votes(node)) {
        return votes;
    }
    match context.began.get() {
        Some(began) if !began.voters.is_empty() => began.voters.contains(&node),
        // The node was prepared as a founder, and founders vote.
        _ => context.with_identity(|own| !own.joined) == Some(true),
    }
}
