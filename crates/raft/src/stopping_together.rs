//! Nodes that stop at the same time wait for each other.
//!
//! A node returns its unused segment tails and its workers through the log, which needs a quorum
//! and a leader. A node that has returned everything therefore remains a voter, or the leader,
//! until no other stopping node has something to return. It polls all members, because a signal
//! that was sent to all nodes arrives at each at a different time.
//!
//! If the nodes that are not stopping form a quorum, a node waits only for other stopping nodes. If
//! they do not, no other node could return anything after this one has stopped. This node therefore
//! stays for a moment, in which the others may begin to stop, too.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{CallError, Link, RejectionCode};
use tokio::time::{Instant, sleep};

use crate::context::{ClusterView as _, NodeContext};
use crate::conversation;
use crate::messages::Stopping;
use crate::quorum::has_majorities;
use crate::replica::Replica;

/// Longest wait, counted from the beginning of this node's stop. By then, the other nodes that
/// began to stop at the same time have ended their requests and returned everything, or have given
/// up.
const TOGETHER: Duration = Duration::from_millis(7500);

/// Time for which a node whose stop ends the quorum stays for the nodes that are not stopping yet.
const STAY: Duration = Duration::from_secs(1);

/// Time limit of a member's answer about its progress.
const ASK: Duration = Duration::from_millis(300);

/// Pause before the members are polled again.
const AGAIN: Duration = Duration::from_millis(20);

/// Waits, once this node has returned everything else, until each other stopping node has done so.
/// A leader still has its windows to return, so the others wait for it.
pub(crate) async fn wait_for_others(context: &NodeContext, replica: &Replica) {
    let began = context.set_stopping(Stopping::Holds);
    let stays_until = Instant::now() + STAY;
    let mut logged = Others::Free;
    while !context.is_stopped() {
        if !replica.is_leader() {
            context.set_stopping(Stopping::GaveBack);
        }
        ask_all(context, replica).await;
        let now = Instant::now();
        let others = others(context, replica);
        let waits = match others {
            Others::Hold => true,
            Others::NeedThisNode => now < stays_until,
            Others::Free => false,
        };
        if waits && logged != others {
            others.log();
            logged = others;
        }
        if !waits || now >= began + TOGETHER {
            return;
        }
        sleep(AGAIN).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// A stopping node has yet to return something.
    Hold,
    /// No stopping node has anything to return, and the nodes that are not stopping have no quorum
    /// without this node.
    NeedThisNode,
    Free,
}

impl Others {
    fn log(self) {
        match self {
            Self::Hold => tracing::info!("waiting for other nodes that are stopping too"),
            Self::NeedThisNode => {
                tracing::info!(
                    "the other nodes have no quorum without this node: it stays a moment longer"
                );
            }
            Self::Free => {}
        }
    }
}

fn others(context: &NodeContext, replica: &Replica) -> Others {
    let ids = replica.members().into_keys();
    let others = ids.filter(|id| *id != replica.node && context.peer(*id).is_reachable());
    let mut holds = false;
    // The nodes that answer, and the nodes among them that are not stopping.
    let (mut answering, mut staying) = (BTreeSet::from([replica.node]), BTreeSet::new());
    for id in others {
        let stopping = context.stopping_of(id);
        holds |= stopping == Stopping::Holds;
        answering.insert(id);
        if stopping == Stopping::No {
            staying.insert(id);
        }
    }
    let configs = replica.applied.read().membership.get_joint_config().clone();
    let is_quorum = |nodes: &BTreeSet<u64>| {
        !configs.is_empty() && has_majorities(&configs, |id| nodes.contains(&id))
    };
    if !is_quorum(&answering) {
        Others::Free
    } else if holds {
        Others::Hold
    } else if !staying.is_empty() && replica.is_voter(replica.node) && !is_quorum(&staying) {
        Others::NeedThisNode
    } else {
        Others::Free
    }
}

/// Polls the progress of every reachable member, and reports that of this node.
async fn ask_all(context: &NodeContext, replica: &Replica) {
    let members = replica.members().into_iter();
    let others = members.filter(|(id, _)| *id != replica.node);
    let reachable = others.filter(|(id, _)| context.peer(*id).is_reachable());
    let asked = reachable.map(|(id, member)| async move { ask(context, id, &member.peer).await });
    join_all(asked).await;
}

async fn ask(context: &NodeContext, id: u64, addr: &str) {
    let (link, route) = (Link::Control, Route::Stopping);
    let own = context.stopping();
    let answer = conversation::call_sealed(context, link, (id, addr), route, own, ASK).await;
    match answer {
        Ok(answer) => context.record_stopping(id, answer.envelope.start, answer.message),
        // The member's Raft has ended. A program without this route rejects with another code.
        Err(CallError::Rejected(rejection)) if rejection.code == RejectionCode::NotRunning => {
            if let Some(start) = context.peers.start_of(id) {
                context.record_stopping(id, start, Stopping::GaveBack);
            }
        }
        Err(error) => tracing::debug!(id, %error, "a member does not report the progress of its \
            stop"),
    }
}
