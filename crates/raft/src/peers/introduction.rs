//! How a start introduces itself, at its beginning or at a later first contact, and what an answer
//! to its hello means for it.

use std::time::Duration;

use crate::handle::Stop;
use crate::local::{self, Local};
use crate::storage::folder;
use crate::wire::hello;
use crate::wire::messages::{HelloIdentity, HelloReply, Verdict};
use crate::wire::paths;

/// How long a peer may take to answer a hello in the middle of a conversation.
const LIMIT: Duration = Duration::from_millis(500);

/// Says hello to a peer that does not know this start, or that this node does not know: with what
/// this start began with, not with what it has now. Answers whether they know each other then.
pub(crate) async fn introduce(local: &Local, to: u64, addr: &str) -> bool {
    if local.is_stopped() || !local.peers.may_say_hello(to) {
        return false;
    }
    let hello = hello::own_hello(local);
    if hello.identity.is_none() {
        return false;
    }
    let Ok(reply) = hello::ask(local, addr, paths::HELLO, hello, LIMIT).await else {
        return false;
    };
    match consider(local, &reply) {
        Ok(met) => met == Some(to),
        Err(stop) => {
            local.stop(stop);
            false
        }
    }
}

/// What the answer to a hello means: the end of this node, or whom it has met.
pub(crate) fn consider(local: &Local, reply: &HelloReply) -> Result<Option<u64>, Stop> {
    let name = &local.settings.name;
    match &reply.verdict {
        Verdict::Removed => return Err(local::removed(name)),
        Verdict::Stale { why } => return Err(local::stale(name, why)),
        Verdict::Superseded { by } => return Err(superseded(by)),
        Verdict::Foreign | Verdict::Welcome => {}
    }
    let Some(theirs) = &reply.identity else {
        return Ok(None);
    };
    meet(local, theirs).map(|verdict| (verdict == Verdict::Welcome).then_some(theirs.node))
}

/// Judges a start that shows itself, and takes note of it if it may take part. Ends this node where
/// the other is of a cluster that was restored from this one.
pub(crate) fn meet(local: &Local, theirs: &HelloIdentity) -> Result<Verdict, Stop> {
    let Some(own) = local.identity() else {
        return Ok(Verdict::Welcome);
    };
    if own.cluster_id != theirs.cluster_id {
        if theirs.ancestors.contains(&own.cluster_id) {
            return Err(superseded(&theirs.cluster_id));
        }
        if own.ancestors.contains(&theirs.cluster_id) {
            let by = own.cluster_id;
            return Ok(Verdict::Superseded { by });
        }
        return Ok(Verdict::Foreign);
    }
    let replica = local.replica.get();
    if replica.is_some_and(|replica| replica.is_removed(theirs.node)) {
        return Ok(Verdict::Removed);
    }
    if theirs.node == own.node {
        // This node itself, under another of its names, or a copy of it that runs.
        let why = format!("node {} runs here already", own.node);
        let is_this = theirs.start == local.start;
        return Ok(if is_this {
            Verdict::Welcome
        } else {
            Verdict::Stale { why }
        });
    }
    match local.peers.meet(theirs.node, theirs.start, theirs.began) {
        Ok(()) => Ok(Verdict::Welcome),
        Err(stale) => {
            tracing::warn!(
                node = theirs.node,
                boot = theirs.start.boot,
                %stale,
                "a node shows less than it has acknowledged and is refused"
            );
            let why = stale.to_string();
            Ok(Verdict::Stale { why })
        }
    }
}

/// The end of a node whose cluster was restored into another one.
pub(crate) fn superseded(by: &str) -> Stop {
    folder::refusal(
        "superseded",
        format!(
            "the cluster of this node was restored into cluster {by}, which has taken its place: \
             this node must never serve again. Retire its folder; to bring the machine into the \
             new cluster, give it an empty one"
        ),
    )
}
