//! The founder's steps: it gives every founding member its identity, and then initialises the log.

use seqd_peers::wire::hello::{Prepare, Taken};
use seqd_peers::wire::route::Route;
use seqd_store::folder::Identity;

use super::take::TAKE_LIMIT;
use super::wiped::wiped;
use crate::context::NodeContext;
use crate::handle::{Phase, Stop};
use crate::handshake::hello::{self, ROUND};
use crate::replica::Replica;

/// The founder's first phase. It is repeated from the beginning after a crash.
pub(crate) async fn prepare_all(context: &NodeContext, identity: &Identity) -> Result<(), Stop> {
    loop {
        let mut failures = Vec::new();
        let others = identity
            .members
            .iter()
            .filter(|(node, _)| *node != identity.node);
        for (_, founder) in others {
            let prepare = Prepare {
                cluster_id: identity.cluster_id.clone(),
                founders: identity.members.clone(),
                you: founder.name.clone(),
            };
            let limit = TAKE_LIMIT;
            match hello::ask(context, &founder.peer, Route::Prepare, prepare, limit).await {
                Ok(Taken::Yes { .. }) => {}
                Ok(Taken::Used) => {
                    // The cluster was founded earlier, so this empty log is a lost one.
                    return Err(wiped(context, &identity.cluster_id, "its log is missing"));
                }
                Ok(Taken::No { why }) => failures.push(format!("{}: {why}", founder.name)),
                Err(error) => failures.push(format!("{} {error}", founder.peer)),
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        context.set_phase(Phase::Waiting {
            reason: format!(
                "waiting for quorum: founding cluster {} ({}). Nothing was stored in the cluster \
                 yet: if a peer will not return, the folders of all nodes may be emptied",
                identity.cluster_id,
                failures.join(", ")
            ),
        });
        tokio::time::sleep(ROUND).await;
    }
}

/// The founder's second phase, once all nodes have synced their identities: writes the first entry
/// of the log.
pub(crate) async fn initialize(
    context: &NodeContext,
    identity: &Identity,
    replica: &Replica,
) -> Result<(), Stop> {
    let members = identity.members.iter().cloned();
    replica.initialize(members.collect()).await?;
    let cluster = identity.cluster_id.as_str();
    tracing::info!(
        cluster,
        "all nodes have their identities, and the log has begun: the cluster is founded"
    );
    finish(context)
}

/// Records that the cluster has begun. From then on, an empty log in this folder counts as lost.
pub(crate) fn finish(context: &NodeContext) -> Result<(), Stop> {
    context
        .finish_bootstrap()
        .map_err(|e| Stop::of_io("the identity could not be stored", &e))
}
