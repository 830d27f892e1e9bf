//! Runs for leader once this node's leader is lost.
//!
//! openraft's own timer waits for the leader's lease and then for an election timeout. The shortest
//! election timeout is the time limit of a vote, so this takes over a second with the defaults. The
//! timer is therefore disabled, and this task decides. Once
//! [`LeaderContact`](crate::contact::LeaderContact) counts a leader as lost, the first voter in the
//! order of IDs runs; the other voters follow in turns.
//!
//! Every attempt begins with a pre-vote. A voter supports it only if it has lost the leader, too
//! ([`consensus`](crate::receive)). A single node with a broken link or a blocked path to the
//! leader's port therefore cannot depose a leader: a majority of voters must have lost it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::context::NodeContext;
use crate::replica::Replica;

/// Time after which heartbeats that were sent together have reached all nodes or are lost.
const SETTLED: Duration = Duration::from_millis(20);

/// Number of turns between the end of the lease and the longest election timeout: one for each
/// follower of a cluster with five voters.
const TURNS: u32 = 4;

/// The shortest election timeout, which is also the time limit of a vote, divided by this is the
/// time between two attempts.
const ATTEMPTS: u32 = 2;

pub(crate) async fn run_when_the_leader_is_lost(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let (shortest, longest) = context.settings.election;
    let turn = longest.saturating_sub(replica.leader_lease) / TURNS;
    let contact = &replica.contact;
    let mut logged = None;
    while !context.is_stopped() {
        if replica.is_leader_now().await {
            replica
                .wait_for_leader(|now| now != Some(replica.node))
                .await;
            // Another node was elected, or is about to be.
            contact.support(shortest);
            logged = None;
        }
        let Some((_, is_alone)) = replica.voters_before() else {
            sleep(context.settings.heartbeat).await;
            continue;
        };
        if !is_alone && !contact.is_lost() {
            tokio::select! {
                biased;
                () = replica.wait_for_leader(|now| now == Some(replica.node)) => continue,
                () = contact.lost() => {}
            }
            if !contact.has_ended() {
                sleep(SETTLED).await;
            }
        }
        // A candidate with this node's support has the time limit of a vote to win.
        if let Some(until) = contact.supports_until() {
            sleep_until(until).await;
        }
        let before = replica.voters_before().map_or(0, |(before, _)| before);
        // A draining voter runs only after all others had their turns.
        let before = before + if context.draining.is_on() { TURNS } else { 0 };
        sleep(turn * before).await;
        if replica.is_leader_now().await || (!is_alone && !contact.is_lost()) {
            continue;
        }
        // If the leader's port refuses only this node, the leader alternates between ended and
        // reachable. This is logged once.
        let lost = Some(contact.leader());
        if logged != lost {
            let leader = replica.leader().and_then(|id| replica.member(id));
            let (leader, ended) = (leader.map(|member| member.name), contact.has_ended());
            let leader = leader.as_deref();
            tracing::info!(leader, ended, "the leader is lost; running for leader");
            logged = lost;
        }
        let began = Instant::now();
        replica.run_for_leader().await;
        sleep(shortest / ATTEMPTS).await;
        while replica.is_candidate().await && began.elapsed() < shortest + turn * before {
            sleep(shortest / ATTEMPTS).await;
        }
    }
}
