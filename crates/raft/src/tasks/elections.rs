//! Runs for leader once this node's leader is lost.
//!
//! openraft's own timer waits for the leader's lease and then for an election timeout, of which the
//! shortest is what a vote may take: over a second, by the defaults. So it is off, and the decision
//! is made here: a leader that [`LeaderContact`](crate::contact::LeaderContact) counts as lost is
//! replaced by the first voter in the order of IDs, the others follow in turns.
//!
//! Every attempt begins with a pre-vote, which a voter supports only if the leader is lost to it, too
//! ([`consensus`](crate::receive)). So one node whose link or whose way to the port is broken deposes
//! nobody: a majority of voters has to see it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::context::NodeContext;
use crate::replica::Replica;

/// Until heartbeats that were sent together have reached all, or not.
const SETTLED: Duration = Duration::from_millis(20);

/// Turns between the lease and the longest election timeout: one for each follower of five voters.
const TURNS: u32 = 4;

/// Part of the shortest election timeout, which is what a vote may take, between two attempts.
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
            // Somebody else was elected, or is about to be.
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
        // Whoever has this node's support has as long as a vote may take.
        if let Some(until) = contact.supports_until() {
            sleep_until(until).await;
        }
        let before = replica.voters_before().map_or(0, |(before, _)| before);
        sleep(turn * before).await;
        if replica.is_leader_now().await || (!is_alone && !contact.is_lost()) {
            continue;
        }
        // A leader whose port refuses this node alone is found ended and heard of in turn.
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
