//! Detects at once that the leader's process has ended.
//!
//! Silence alone does not distinguish a dead leader from a slow one. But if a process has ended,
//! its connections break, and its port refuses new ones. Each follower therefore keeps a call
//! (`Watch`) open at the leader, which the leader does not answer while it serves. If the call
//! breaks off *and* the port then refuses a connection, this node counts the leader as lost without
//! waiting for its lease.
//!
//! A leader whose port refuses a majority of the voters (for example, because a firewall rejects
//! them) is replaced, too. A host or network that is gone refuses nothing, so in that case silence
//! decides.

use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{CallError, Link};

use crate::context::NodeContext;
use crate::conversation;
use crate::messages::Watch;
use crate::replica::Replica;

/// Longer than the leader holds the request.
const REQUEST: Duration = Duration::from_secs(40);

/// Pause before the next request to the leader after a broken connection.
const AGAIN: Duration = Duration::from_millis(2);

/// Pause while the leader cannot be watched.
const IDLE: Duration = Duration::from_millis(20);

/// Watches the current leader while the node runs.
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
        let (link, route) = (Link::Watch, Route::Watch);
        let asked = conversation::call::<Watch, Watch>(&context, link, to, route, Watch, REQUEST);
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = replica.wait_for_leader(|now| now != Some(leader)) => continue,
        };
        match answer {
            Ok(Watch) => {}
            Err(CallError::Refused) => {
                replica.contact.found_ended(leader);
                tokio::time::sleep(IDLE).await;
            }
            // The connection broke. The next round sends a new request, which is refused if the
            // process has ended.
            Err(CallError::NoAnswer | CallError::Broken(_)) => {
                replica.contact.doubt();
                tokio::time::sleep(AGAIN).await;
            }
            Err(CallError::Unsent(_) | CallError::Unwritable(_) | CallError::Rejected(_)) => {
                tokio::time::sleep(IDLE).await;
            }
        }
    }
}
