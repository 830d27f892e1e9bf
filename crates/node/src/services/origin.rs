//! The origin of an ID: the holder of its worker at its tick, if there was one.

use seqd_api::Holder;
use seqd_idgen::{Layout, Parts};
use seqd_state::{Origin, State};
use tokio::time::Instant;

use super::ids::IdService;
use crate::replica::peek;
use crate::times::rfc3339;

/// The origin of an ID.
pub(super) struct IdOrigin {
    /// The origin, as the contract names it.
    pub(super) origin: &'static str,
    pub(super) detail: String,
    pub(super) holder: Option<Holder>,
}

impl IdService {
    /// Looks up an origin in this node's state. If that has no holder, looks again after a
    /// linearizable read.
    pub(super) async fn origin(
        &self,
        layout: &Layout,
        parts: &Parts,
        deadline: Instant,
    ) -> IdOrigin {
        let found = self.local_origin(layout, parts);
        if found.origin == "held" {
            return found;
        }
        match self.replica.read(deadline).await {
            Ok(_) => self.local_origin(layout, parts),
            // This node may lack a lease that was granted.
            Err(_) if found.origin == "nobody" => IdOrigin {
                origin: "unknown",
                detail: "this node has no contact with a quorum, so there may be leases that it \
                    has not recorded"
                    .to_owned(),
                holder: None,
            },
            Err(_) => found,
        }
    }

    fn local_origin(&self, layout: &Layout, parts: &Parts) -> IdOrigin {
        let at = layout.wall_at(parts.tick);
        let now = self.clock.right_time().unwrap_or(self.clock.wall());
        let skew_ms = peek(&*self.replica, |state| {
            state
                .settings()
                .map_or(0, |settings| settings.max_peer_skew_ms)
        });
        let reach_ms = now.0.saturating_add(skew_ms.unwrap_or(0));
        let found = peek(&*self.replica, |state| {
            let origin = state.origin(layout, parts.worker, parts.tick);
            of_state(state, layout, parts, origin)
        });
        let mut found = found.unwrap_or_else(|| IdOrigin {
            origin: "unknown",
            detail: "this node has no state yet".to_owned(),
            holder: None,
        });
        if at.0 > reach_ms {
            found.origin = "ahead";
            found.detail = format!(
                "its time, {}, is {} ms ahead of this node's clock: {}",
                rfc3339(at),
                at.0 - now.0,
                found.detail
            );
        }
        found
    }
}

fn of_state(state: &State, layout: &Layout, parts: &Parts, origin: Origin) -> IdOrigin {
    let (name, worker) = (layout.name(), parts.worker.0);
    match origin {
        Origin::Held(holder) => {
            let node = holder.node.and_then(|id| state.node(id));
            let node = node.map(|node| node.name.clone());
            let who = match &node {
                Some(node) => format!("node {node}"),
                None => format!("{} (outside the cluster)", holder.owner),
            };
            let (from, fence) = (
                layout.wall_at(holder.from_tick),
                layout.wall_at(holder.fence),
            );
            IdOrigin {
                origin: "held",
                detail: format!(
                    "{who} held worker {worker} of {name} from {} to {}",
                    rfc3339(from),
                    rfc3339(fence)
                ),
                holder: Some(Holder {
                    owner: holder.owner,
                    node,
                    lease: holder.lease.0,
                    from_tick: holder.from_tick.0,
                    fence_tick: holder.fence.0,
                }),
            }
        }
        Origin::Nobody => IdOrigin {
            origin: "nobody",
            detail: format!(
                "no lease held worker {worker} of {name} at that time: the ID was not issued by \
                 this cluster in this layout"
            ),
            holder: None,
        },
        Origin::Unknown { known_from } => IdOrigin {
            origin: "unknown",
            detail: match known_from {
                Some(from) => format!("leases from before {} are not recorded", rfc3339(from)),
                None => "leases from that time are not recorded".to_owned(),
            },
            holder: None,
        },
    }
}
