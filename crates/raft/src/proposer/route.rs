//! The target of a proposal or a read: this node, the leader, or none.

use std::time::Duration;

use seqd_guards::is_out;
use tokio::time::Instant;

use crate::context::NodeContext;
use crate::handle::ProposeError;
use crate::leadership::Leading;
use crate::node::Node;
use crate::replica::Replica;

/// Pause before the next look-up of the leader.
pub(crate) const RETRY: Duration = Duration::from_millis(5);

/// Time until the first check of the contact while a group is in flight. Most groups are answered
/// earlier.
const FIRST_LOOK: Duration = Duration::from_millis(100);

pub(crate) enum Route {
    Here(Leading),
    There { node: u64, addr: String },
    NotLeader,
    Nowhere(ProposeError),
}

/// The time until a deadline, also in the milliseconds that a message carries.
pub(crate) fn time_left(deadline: Instant) -> (Duration, u64) {
    let left = deadline.saturating_duration_since(Instant::now());
    (left, u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Time that an answer needs to reach its caller before the deadline.
const TO_ANSWER: Duration = Duration::from_millis(100);

/// The end of a wait of at most `most` in a request with this deadline. Leaves time for the
/// response.
#[must_use]
pub fn wait_until(deadline: Instant, most: Duration) -> Instant {
    let until = Instant::now() + most;
    deadline
        .checked_sub(TO_ANSWER)
        .map_or(until, |at| at.min(until))
}

/// Returns whether this node has no identity and founds no cluster. It may then wait for any length
/// of time.
fn waits_to_be_added(context: &NodeContext) -> bool {
    let own = &context.settings.name;
    let is_founder = context.settings.peers.iter().any(|peer| peer.name == *own);
    !is_founder && context.with_identity(|_| ()).is_none()
}

/// Returns once a node other than `leader` leads. A leader that was not lost has transferred its
/// leadership after it answered. Its answer may arrive after the change of leader, so in that case
/// this returns one lease later.
pub(crate) async fn replaced(node: &Node, leader: u64) {
    let Some(replica) = node.replica() else {
        return std::future::pending().await;
    };
    let mut metrics = replica.raft.server_metrics();
    loop {
        let now = replica.leader();
        if now.is_some_and(|now| now != leader) {
            if !replica.contact.has_lost(leader) {
                tokio::time::sleep(replica.leader_lease).await;
            }
            return;
        }
        if openraft::async_runtime::WatchReceiver::changed(&mut metrics)
            .await
            .is_err()
        {
            return std::future::pending().await;
        }
    }
}

/// Waits until the answer to a sent group is given up, and returns the reason: the contact with a
/// quorum or with the leader is lost, or the deadline of all callers has passed. The slot is then
/// free for the next groups, which are refused at once while the contact is lost.
pub(crate) async fn given_up(replica: &Replica, deadline: Instant) -> ProposeError {
    let deadline = if is_out!(GroupDeadline) {
        Instant::now() + Duration::from_secs(3600)
    } else {
        deadline
    };
    let mut look = FIRST_LOOK;
    loop {
        let next = Instant::now() + look;
        tokio::time::sleep_until(next.min(deadline)).await;
        let Some(left) = replica.contact_left() else {
            return ProposeError::unknown(
                "the command was sent, but the contact with a quorum was lost before the response \
                 arrived",
            );
        };
        if Instant::now() >= deadline {
            return ProposeError::unknown("no response within the deadline");
        }
        look = left;
    }
}

/// The error of a request that changed nothing before its deadline.
pub(crate) fn not_in_time(node: &Node) -> ProposeError {
    let leader = node.replica().and_then(|replica| replica.live_leader());
    match leader {
        Some(_) => ProposeError::NoQuorum {
            detail: "the request was not completed within its deadline, and nothing was changed"
                .to_owned(),
        },
        None => ProposeError::no_leader(),
    }
}

/// Finds the target of a group. Waits for a leader as long as one may still be elected. After the
/// deadline it returns no target even if there is a leader, because an unreachable leader would
/// otherwise be tried forever.
pub(crate) async fn route(node: &Node, deadline: Instant, forwarded: bool) -> Route {
    let patience = node.context.settings.election.1 * 3;
    let began = Instant::now();
    loop {
        if node.context.is_stopped() {
            return Route::Nowhere(ProposeError::Stopping);
        }
        if Instant::now() >= deadline {
            return Route::Nowhere(not_in_time(node));
        }
        if let Some(replica) = node.replica() {
            if replica.is_leader() {
                let founded = replica.applied.read().state.is_founded();
                if let Some(leading) = replica.leading().filter(|_| founded) {
                    if replica.has_quorum_contact() {
                        return Route::Here(leading);
                    }
                    // A leadership that has just ended has no contact either.
                    if replica.is_leader() {
                        return Route::Nowhere(ProposeError::no_leader());
                    }
                }
            } else if forwarded {
                return Route::NotLeader;
            // A leader without a quorum refuses the group at once.
            } else if replica.contact_left().is_some()
                && let Some(leader) = replica.leader()
                && let Some(member) = replica.member(leader)
            {
                return Route::There {
                    node: leader,
                    addr: member.peer,
                };
            }
            let silent = replica.silent_for().unwrap_or_else(|| began.elapsed());
            if silent >= patience {
                return Route::Nowhere(ProposeError::no_leader());
            }
        } else if waits_to_be_added(&node.context) && node.context.clock_since.elapsed() >= patience
        {
            return Route::Nowhere(ProposeError::no_leader());
        }
        tokio::time::sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_within_a_request_leaves_time_for_the_answer() {
        let now = Instant::now();
        let until = |deadline_ms, most_ms| {
            let deadline = now + Duration::from_millis(deadline_ms);
            wait_until(deadline, Duration::from_millis(most_ms)) - now
        };
        assert_eq!(until(3_000, 2_000), Duration::from_millis(2_000));
        assert_eq!(until(500, 2_000), Duration::from_millis(400));
    }
}
