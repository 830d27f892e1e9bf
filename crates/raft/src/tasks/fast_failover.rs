//! A new leader within a fraction of an election when the old one's process has ended.
//!
//! Raft's followers wait for an election timeout because silence alone does not distinguish a dead leader
//! from a slow one. A process that has ended shows at once: its connections break, and its port
//! refuses new ones. So each follower keeps a call open at the leader (`Watch`), which the
//! leader never answers while it serves. If the request breaks off *and* the port then refuses a
//! connection, the follower runs for leader as if the old one had transferred leadership to it.
//!
//! The first attempt skips the pre-vote, and voters do not wait for the leader's lease. Whether it is
//! won is decided by votes and logs, as for any election, and reads are confirmed by a quorum
//! (ReadIndex). A leader that runs behind a port that refuses (a firewall that rejects) is replaced too.
//! A host or a network that is gone refuses nothing, and the ordinary election timeout holds.

use std::sync::Arc;
use std::time::Duration;

use openraft::raft::TransferLeaderRequest;

use crate::context::NodeContext;
use crate::conversation;
use crate::replica::Replica;
use crate::wire::messages::Watch;
use crate::wire::route::Route;
use crate::wire::transport::{CallError, Link};

/// Longer than the leader keeps the request.
const REQUEST: Duration = Duration::from_secs(40);

/// Time that each follower leaves the ones before it in the order of IDs to win.
const TURN: Duration = Duration::from_millis(60);

/// How often one follower runs before it leaves the matter to the election timeout.
const ATTEMPTS: u32 = 5;

/// Pause before the leader is asked again after a broken connection.
const AGAIN: Duration = Duration::from_millis(2);

/// Pause where the leader cannot be watched.
const IDLE: Duration = Duration::from_millis(20);

/// Watches the current leader, for as long as the node runs.
pub(crate) async fn watch_leaders(context: Arc<NodeContext>, replica: Arc<Replica>) {
    while !context.is_stopped() {
        let leader = replica.leader();
        let Some(leader) = leader.filter(|leader| *leader != replica.node) else {
            replica.wait_for_leader(|now| now != leader).await;
            continue;
        };
        let Some(member) = replica.member(leader) else {
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let to = (leader, member.peer.as_str());
        let asked = conversation::call::<Watch, Watch>(
            &context,
            Link::Watch,
            to,
            Route::Watch,
            Watch,
            REQUEST,
        );
        let answer = tokio::select! {
            answer = asked => answer,
            () = replica.wait_for_leader(|now| now != Some(leader)) => continue,
        };
        match answer {
            Ok(Watch) => {}
            Err(CallError::Refused) => run_for_leader(&replica, leader).await,
            // The connection broke: the next round asks again, and is refused if the process ended.
            Err(CallError::NoAnswer | CallError::Broken(_)) => tokio::time::sleep(AGAIN).await,
            Err(CallError::Unsent(_) | CallError::Unwritable(_) | CallError::Rejected(_)) => {
                tokio::time::sleep(IDLE).await;
            }
        }
    }
}

/// Runs for leader, after those voters that come before this one.
async fn run_for_leader(replica: &Replica, leader: u64) {
    let vote = replica.current_vote();
    if vote.leader_id.voted_for != leader || !vote.committed {
        return tokio::time::sleep(IDLE).await;
    }
    let place = {
        let core = replica.applied.read();
        let mut others = core.membership.voter_ids().filter(|id| *id != leader);
        others.position(|id| id == replica.node)
    };
    let Some(place) = place.and_then(|place| u32::try_from(place).ok()) else {
        return tokio::time::sleep(IDLE).await;
    };
    let name = replica.member(leader).map(|member| member.name);
    tokio::time::sleep(TURN * place).await;
    for attempt in 0..ATTEMPTS {
        let now = replica.current_vote();
        if now.committed && now != vote {
            return;
        }
        tracing::info!(leader = ?name, attempt, "the leader's process has ended; running for leader");
        if now == vote {
            let request = TransferLeaderRequest::new(vote, replica.node, None);
            if let Err(error) = replica.raft.handle_transfer_leader(request).await {
                tracing::debug!(%error, "cannot run for leader");
            }
        } else if let Err(error) = replica.raft.trigger().elect(true).await {
            // The first one to run had the shorter log, and the terms met. The pre-vote refuses whoever
            // cannot win, and the terms stay.
            tracing::debug!(%error, "cannot run for leader");
        }
        tokio::time::sleep(TURN).await;
    }
}
