//! Confirms a leadership for the requests of a round: a majority of the voters has promised no later
//! term since the requests arrived. Neither openraft nor a disk takes part, so a confirmation takes
//! one round trip also while the disks are slow.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use seqd_guards::is_out;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use tokio::time::{sleep, timeout};

use crate::conversation;
use crate::messages::Promise;
use crate::node::Node;
use crate::quorum::{Configs, Confirmations};
use crate::replica::Replica;

/// Time after which the other voters are asked, too: longer than most answers of a local network.
const PATIENCE: Duration = Duration::from_millis(2);

/// A promise that arrived with the requests themselves: the node that sent them, and its term.
pub(crate) type FromSender = Option<(u64, u64)>;

/// The promise that this node sends with its requests, after they have arrived.
pub(crate) fn own_promise(replica: &Replica) -> Promise {
    let term = if is_out!(PromiseOfSender) {
        replica.first_term
    } else {
        replica.promised.term()
    };
    Promise { term }
}

/// Returns whether a majority confirms that no other node leads in a later term. The requests must
/// have arrived before the call, and before the sender gave its promise.
pub(crate) async fn is_confirmed(
    node: &Node,
    replica: &Replica,
    term: u64,
    sender: FromSender,
) -> bool {
    if is_out!(DrawConfirmed) {
        return true;
    }
    let mut confirmations = Confirmations::new(term, replica.voters_in_force(term));
    let own = if is_out!(OwnPromiseKept) {
        term
    } else {
        replica.promised.term()
    };
    confirmations.count(replica.node, own);
    if let Some((sender, promised)) = sender {
        confirmations.count(sender, promised);
    }
    if !confirmations.is_complete() {
        let asked = ask(node, replica, term, &mut confirmations);
        // The caller tries again as long as this node is in contact with a majority.
        let _ = timeout(replica.election_max, asked).await;
    }
    confirmations.is_complete()
}

/// Asks voters until the confirmations are complete, or all have answered.
async fn ask(node: &Node, replica: &Replica, term: u64, confirmations: &mut Confirmations) {
    let last = &replica.rounds.last_voter;
    let (first, mut others) = confirmations.to_ask(last.load(Ordering::Relaxed));
    let ask = |voter| ask_one(node, replica, voter, term);
    let mut answers: FuturesUnordered<_> = first.into_iter().map(ask).collect();
    let patience = sleep(PATIENCE);
    tokio::pin!(patience);
    loop {
        let asks_others = tokio::select! {
            biased;
            Some((voter, promised)) = answers.next() => {
                if let Some(promised) = promised {
                    last.store(voter, Ordering::Relaxed);
                    confirmations.count(voter, promised);
                }
                if confirmations.is_complete() {
                    return;
                }
                promised.is_none_or(|promised| promised > term)
            }
            () = &mut patience, if !others.is_empty() => true,
            else => return,
        };
        if asks_others {
            answers.extend(others.drain(..).map(ask));
        }
    }
}

/// The promise of one voter, or `None` if it does not answer.
async fn ask_one(node: &Node, replica: &Replica, voter: u64, term: u64) -> (u64, Option<u64>) {
    let Some(member) = replica.member(voter) else {
        return (voter, None);
    };
    let (to, limit) = ((voter, member.peer.as_str()), replica.election_max);
    let (link, route, message) = (Link::Control, Route::Promise, Promise { term });
    let answer = conversation::call(&node.context, link, to, route, message, limit).await;
    (voter, answer.ok().map(|promise: Promise| promise.term))
}

impl Replica {
    /// The voters of the last membership in the log of the leader of this term, applied or not. The
    /// leader has applied every membership from before its leadership.
    fn voters_in_force(&self, term: u64) -> Configs {
        let core = self.applied.read();
        let applied = core.membership.log_id().map(|id| id.index());
        let appended = self.promised.voters_of(term, applied);
        appended
            .filter(|_| !is_out!(VotersInForce))
            .unwrap_or_else(|| core.membership.get_joint_config().clone())
    }
}
