//! Keeps this node's own addresses in the membership equal to its configuration, at each start.
//!
//! Other nodes, people and programs use the addresses in the membership. An outdated address leads
//! to another host, or to a port without TLS. A node changes only its own addresses. The leader
//! accepts a new peer address only after it has reached this node there.

use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use tokio::time::Instant;

use crate::context::{ClusterView as _, NodeContext};
use crate::conversation;
use crate::handle::MemberError;
use crate::membership;
use crate::messages::{ChangeRefusal, ChangeReply, ChangeRequest, MemberChange};
use crate::node::Node;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;
use crate::types::Member;

/// Pause before a failed update is retried: about the time that a start of the whole cluster takes.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest pause, because the leader may be unable to reach this node at the address for a long
/// time.
const LONGEST: Duration = Duration::from_secs(60);

/// Time limit for the leader, which opens a connection and commits an entry.
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) async fn update(
    context: Arc<NodeContext>,
    node: Arc<Node>,
    replica: Arc<Replica>,
    batcher: Arc<ProposalBatcher>,
) {
    let mut pause = AGAIN;
    let mut logged = None;
    while !context.is_stopped() {
        match replica.member(replica.node) {
            Some(member) => match differing(&context, &member) {
                None if replica.is_caught_up() => return,
                None => {}
                Some(change) => match send(&context, &node, &replica, &batcher, change).await {
                    Ok(()) => pause = AGAIN,
                    Err(why) => {
                        pause = (pause * 2).min(LONGEST);
                        if logged.as_ref() != Some(&why) {
                            tracing::warn!(
                                why,
                                "this node's addresses could not be updated in the membership"
                            );
                            logged = Some(why);
                        }
                    }
                },
            },
            None => pause = AGAIN,
        }
        tokio::time::sleep(pause).await;
    }
}

/// The change that makes the member's record equal to the configuration; `None` if they are equal.
///
/// A peer address that was only derived from the host's name does not replace the one with which
/// the node was added.
fn differing(context: &NodeContext, member: &Member) -> Option<MemberChange> {
    let settings = &context.settings;
    let differs = |own: &str, known: &str| (own != known).then(|| own.to_owned());
    let peer = differs(&settings.peer_advertise, &member.peer);
    let peer = peer.filter(|_| settings.peer_is_configured);
    // The other members need the peer address, so it does not depend on the URL: the leader refuses
    // one that another member has.
    let http = differs(&settings.http_advertise, &member.http).filter(|_| peer.is_none());
    if peer.is_none() && http.is_none() {
        return None;
    }
    let name = settings.name.clone();
    Some(MemberChange::Update { name, peer, http })
}

async fn send(
    context: &NodeContext,
    node: &Arc<Node>,
    replica: &Replica,
    batcher: &Arc<ProposalBatcher>,
    change: MemberChange,
) -> Result<(), String> {
    if replica.leader().is_some() {
        let deadline = Instant::now() + LIMIT;
        let changed = membership::carry_out(node, batcher, change, deadline).await;
        return changed
            .map(drop)
            .map_err(|error: MemberError| error.to_string());
    }
    // A leader that does not reach this node at its old address sends it nothing, so this node
    // cannot determine which member leads.
    let timeout_ms = u64::try_from(LIMIT.as_millis()).unwrap_or(u64::MAX);
    let mut why = "no leader is known".to_owned();
    for (id, member) in replica.members() {
        if id == replica.node {
            continue;
        }
        let message = ChangeRequest {
            change: change.clone(),
            timeout_ms,
        };
        let to = (id, member.peer.as_str());
        let (link, route) = (Link::Control, Route::Members);
        match conversation::call(context, link, to, route, message, LIMIT).await {
            Ok(ChangeReply(Ok(_))) => return Ok(()),
            Ok(ChangeReply(Err(ChangeRefusal::Member(error)))) => why = error.to_string(),
            Ok(ChangeReply(Err(ChangeRefusal::NotLeader))) | Err(_) => {}
        }
    }
    Err(why)
}
