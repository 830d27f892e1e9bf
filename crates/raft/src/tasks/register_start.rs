//! Registers this start in the replicated state.

use std::sync::Arc;
use std::time::Duration;

use seqd_state::{
    ClusterCommand, ClusterOutcome, ClusterRefusal, Command, NodeId, Outcome, Refusal,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::NodeContext;
use crate::peer_stops;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;

/// Pause before a failed registration is retried.
const REGISTER_RETRY: Duration = Duration::from_millis(200);

/// Registers this start, so that it may take leases. `started` becomes true once the registration
/// is applied.
pub(crate) async fn run(
    context: Arc<NodeContext>,
    replica: Arc<Replica>,
    batcher: Arc<ProposalBatcher>,
    started: watch::Sender<bool>,
) {
    while !context.is_stopped() {
        if replica.member(replica.node).is_some() {
            let command = Command::Cluster(ClusterCommand::RegisterStart {
                node: NodeId(replica.node),
                boot: context.start.boot,
                nonce: context.start.nonce,
            });
            let deadline = Instant::now() + Duration::from_secs(3);
            match batcher.propose(vec![command], deadline).await.as_deref() {
                Ok([Outcome::Cluster(ClusterOutcome::StartRegistered { .. })]) => {
                    started.send_replace(true);
                    return;
                }
                Ok([Outcome::Refused(Refusal::Cluster(ClusterRefusal::NodeRemoved { .. }))]) => {
                    return context.stop(peer_stops::removed(&context.settings.name));
                }
                Ok(
                    [
                        Outcome::Refused(
                            refusal @ Refusal::Cluster(ClusterRefusal::StaleStart { .. }),
                        ),
                    ],
                ) => {
                    let detail = refusal.to_string();
                    return context.stop(peer_stops::stale(&context.settings.name, &detail));
                }
                _ => {}
            }
        }
        tokio::time::sleep(REGISTER_RETRY).await;
    }
}
