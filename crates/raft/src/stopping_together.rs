//! Nodes that stop together wait for each other.
//!
//! What a node holds, tails of segments and workers, is given back through the log, which needs a
//! quorum and a leader. So a node that has given back what it held stays a voter, or the leader,
//! until no other node that stops has something to give back. It asks them all, since a signal that
//! was sent to all arrives at each at a time of its own.
//!
//! Where the others that do not stop are a quorum, nobody waits but for those that stop. Where they
//! are not, no other node could give back anything after this one: it stays for a moment, in which
//! the rest may begin to stop, too.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{CallError, Link, RejectionCode};
use tokio::time::{Instant, sleep};

use crate::context::{ClusterView as _, NodeContext};
use crate::conversation;
use crate::messages::Stopping;
use crate::replica::Replica;

/// The longest time since the beginning of this node's stop: the others that began with it have
/// ended their requests and given back, or gave up.
const TOGETHER: Duration = Duration::from_millis(7500);

/// How long a node whose end is the quorum's end stays for those that do not stop yet.
const STAY: Duration = Duration::from_secs(1);

/// How long a member may take to answer how far it is.
const ASK: Duration = Duration::from_millis(300);

/// Pause before the members are asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// This node holds nothing any more: waits until the same holds for each other node that stops.
pub(crate) async fn wait_for_others(context: &NodeContext, replica: &Replica) {
    let began = context.set_stopping(Stopping::GaveBack);
    let stays_until = Instant::now() + STAY;
    let mut logged = Others::Free;
    while !context.is_stopped() {
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
    /// One that stops has yet to give back what it holds.
    Hold,
    /// None does, and those that do not stop have no quorum without this node.
    NeedThisNode,
    Free,
}

impl Others {
    fn log(self) {
        match self {
            Self::Hold => tracing::info!("waiting for other nodes that stop, too"),
            Self::NeedThisNode => {
                tracing::info!("the others have no quorum without this node: it stays a moment");
            }
            Self::Free => {}
        }
    }
}

fn others(context: &NodeContext, replica: &Replica) -> Others {
    let ids = replica.members().into_keys();
    let others = ids.filter(|id| *id != replica.node && context.peer(*id).is_reachable());
    let mut holds = false;
    // Those that answer, and of those the ones that stay.
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
    if !is_quorum(&configs, &answering) {
        Others::Free
    } else if holds {
        Others::Hold
    } else if !staying.is_empty()
        && replica.is_voter(replica.node)
        && !is_quorum(&configs, &staying)
    {
        Others::NeedThisNode
    } else {
        Others::Free
    }
}

/// Whether these nodes are a majority of each configuration: of a joint one both halves count.
fn is_quorum(configs: &[BTreeSet<u64>], nodes: &BTreeSet<u64>) -> bool {
    let has_majority = |config: &BTreeSet<u64>| {
        let votes = config.intersection(nodes).count();
        votes > config.len() / 2
    };
    !configs.is_empty() && configs.iter().all(has_majority)
}

/// Asks every member that answers how far it is, and tells it that this node has given back.
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
        // Its Raft has ended. A program that has no such route rejects with another code.
        Err(CallError::Rejected(rejection)) if rejection.code == RejectionCode::NotRunning => {
            if let Some(start) = context.peers.start_of(id) {
                context.record_stopping(id, start, Stopping::GaveBack);
            }
        }
        Err(error) => tracing::debug!(id, %error, "a member does not answer how far its stop is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_a_majority_of_both_halves_of_a_joint_configuration() {
        let set = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<u64>>();
        let (one, joint) = ([set(&[1, 2, 3])], [set(&[1]), set(&[1, 2, 3, 4, 5])]);
        assert!(is_quorum(&one, &set(&[1, 3, 9])));
        assert!(!is_quorum(&one, &set(&[1, 8, 9])));
        assert!(is_quorum(&joint, &set(&[1, 2, 3])));
        assert!(!is_quorum(&joint, &set(&[2, 3, 4, 5])), "of the union only");
        assert!(!is_quorum(&joint, &set(&[1, 2])));
        assert!(!is_quorum(&[], &set(&[1])), "no membership yet");
    }
}
