//! Resets of a node's workers: the plan of a reset, and the order.
//!
//! The order is replicated, so it reaches the node through any member, and also a node that starts
//! later.

use std::collections::BTreeMap;

use seqd_api::{Plan, ResetLayout, WorkersReset, validate_name};
use seqd_idgen::{Tick, WallMs};
use seqd_raft::MemberError;
use seqd_state::{ClusterCommand, ClusterOutcome, NodeId, Outcome, State};
use tokio::time::Instant;

use super::error::{RequestError, ServiceError, on_state, propose, read, unexpected};
use super::workers::WorkerService;
use crate::minting::MintError;
use crate::times::rfc3339;

impl WorkerService {
    /// The effect that a reset of this member would have.
    pub(crate) async fn plan_reset(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let (_, reset) = self.look(name, deadline).await?;
        Ok(Plan::new(reset.effect, None))
    }

    /// Orders a reset, unless no window of the member lies ahead of the clock.
    pub(crate) async fn reset(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<WorkersReset, ServiceError> {
        let (node, reset) = self.look(name, deadline).await?;
        if reset.layouts.is_empty() {
            return Ok(reset);
        }
        let command = ClusterCommand::ResetWorkers { node };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Cluster(ClusterOutcome::WorkersReset { .. }) => Ok(reset),
            other => Err(unexpected(&other)),
        }
    }

    async fn look(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<(NodeId, WorkersReset), ServiceError> {
        validate_name(name).map_err(|error| RequestError::Invalid(format!("name: {error}")))?;
        read(&*self.replica, deadline).await?;
        // A wrong clock would show none or all of the windows in the future.
        let now = self.clock.agreed_time();
        let now = now.ok_or_else(MintError::clock_unknown)?;
        on_state(&*self.replica, |state| look_at(state, name, now))?
    }
}

fn look_at(state: &State, name: &str, now: WallMs) -> Result<(NodeId, WorkersReset), ServiceError> {
    let present = || state.nodes().filter(|(_, record)| !record.removed);
    let Some((node, _)) = present().find(|(_, record)| record.name == name) else {
        let known: Vec<&str> = present().map(|(_, record)| record.name.as_str()).collect();
        return Err(ServiceError::Member {
            removes_voter: false,
            error: MemberError::NotFound {
                name: name.to_owned(),
                known: known.join(", "),
            },
        });
    };
    let mut layouts = BTreeMap::new();
    for view in state.leases() {
        let Some((layout, settings)) = state.layout(view.layout).zip(state.settings()) else {
            continue;
        };
        let reach_ms = settings.fence_reach_ms(layout);
        let reach = layout.fence_at(WallMs(now.0.saturating_add(reach_ms)));
        if view.record.node == Some(node) && view.record.fence > reach {
            let (workers, until) = layouts
                .entry(view.layout)
                .or_insert_with(|| (Vec::new(), Tick(0)));
            workers.push(view.worker.0);
            *until = view.record.fence.max(*until);
        }
    }
    let layouts = layouts.into_iter();
    let layouts = layouts.filter_map(|(name, (workers, until))| {
        let layout = state.layout(name)?;
        let taken = state.leases().filter(|view| {
            let passed = layout
                .tick_at(now)
                .is_ok_and(|tick| view.record.fence <= tick);
            view.layout == name && (view.live || !passed)
        });
        let taken = u32::try_from(taken.count()).unwrap_or(u32::MAX);
        Some(ResetLayout {
            layout: name.to_owned(),
            workers,
            until: rfc3339(layout.wall_at(until)),
            free: layout.workers().saturating_sub(taken),
        })
    });
    let mut reset = WorkersReset {
        name: name.to_owned(),
        effect: String::new(),
        layouts: layouts.collect(),
    };
    reset.effect = effect(&reset);
    Ok((node, reset))
}

fn effect(reset: &WorkersReset) -> String {
    let name = &reset.name;
    if reset.layouts.is_empty() {
        return format!("nothing: no worker of {name} has a window ahead of the clock");
    }
    let each = reset.layouts.iter().map(|of| {
        let workers: Vec<String> = of.workers.iter().map(u32::to_string).collect();
        let (layout, until, workers) = (&of.layout, &of.until, workers.join(", "));
        match of.free {
            0 => format!(
                "layout {layout}: workers {workers} stay unusable until {until}, and no other \
                 worker is free; create another layout (seqd layout create) and mint with it"
            ),
            free => format!(
                "layout {layout}: workers {workers} stay unusable until {until}; the node leases one of \
                 {free} others"
            ),
        }
    });
    let each: Vec<String> = each.collect();
    format!(
        "{name} gives up the windows that are ahead of the clock and mints at the current time \
         again. Its next IDs are smaller than the IDs that it minted ahead of the clock. {}",
        each.join(". ")
    )
}
