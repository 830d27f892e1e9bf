//! Worker leases: the holder of each worker, and the end of its lease.

use std::sync::Arc;

use seqd_api::{Page, Worker, WorkersQuery};
use seqd_idgen::{Layout, WorkerId};
use seqd_net::Lock;
use seqd_state::{Holder, LeaseId, LeaseView, Share, State};
use tokio::time::Instant;

use super::error::{RequestError, ServiceError, on_state, read};
use super::layouts;
use super::leases::LeasesRequested;
use super::page::PageRequest;
use crate::minting::ClockWatch;
use crate::replica::Replica;
use crate::times::rfc3339;

pub(crate) struct WorkerService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<ClockWatch>,
    /// The window until the replicated setting is known, in milliseconds.
    pub(crate) window_ms: u64,
    /// The share of a layout's workers that one tenant may hold.
    pub(crate) share: Share,
    pub(super) requested: Lock<LeasesRequested>,
}

impl WorkerService {
    /// The workers with a lease, ordered by layout and number, as this node has applied them. If
    /// `past` is given, with either value, the list is read by a linearizable read.
    pub(crate) async fn list(
        &self,
        query: &WorkersQuery,
        deadline: Instant,
    ) -> Result<Page<Worker>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let (layout, prefix) = (query.layout.as_deref(), query.prefix.as_deref());
        if let Some(layout) = layout {
            layouts::find(&*self.replica, layout)?;
        }
        let lists_past = query.past.unwrap_or(false);
        let after = wanted.after.as_deref();
        let past_after = after.filter(|_| lists_past).map(lease_of);
        let past_after = past_after.transpose()?.unwrap_or(LeaseId(0));
        let after = after.filter(|_| !lists_past).map(worker_of).transpose()?;
        if query.past.is_some() {
            read(&*self.replica, deadline).await?;
        }
        on_state(&*self.replica, |state| {
            let is_wanted = |of: &str, owner: &str| {
                layout.is_none_or(|layout| of == layout)
                    && prefix.is_none_or(|prefix| owner.starts_with(prefix))
            };
            if lists_past {
                let past = state.past_leases(past_after);
                let past = past.filter(|(layout, _, holder)| is_wanted(layout, &holder.owner));
                // Leading zeros, so that names sort like the leases.
                return wanted.cut(past.map(|(layout, worker, holder)| {
                    let name = format!("{:020}", holder.lease.0);
                    (name, to_api(state, (layout, worker), &holder, false))
                }));
            }
            // Sorts like the leases: no name of a layout contains the separator, and every
            // character of a name is greater.
            let name = |view: &LeaseView<'_>| format!("{}\0{:010}", view.layout, view.worker.0);
            let leases = state.leases();
            let leases = leases.filter(|view| {
                let is_after = after.is_none_or(|after| (view.layout, view.worker) > after);
                is_after && is_wanted(view.layout, &view.record.owner)
            });
            wanted.cut(leases.map(|view| {
                let holder = Holder::of(view.record);
                let worker = to_api(state, (view.layout, view.worker), &holder, view.live);
                (name(&view), worker)
            }))
        })
    }
}

/// The lease in the cursor of a list of past leases.
fn lease_of(after: &str) -> Result<LeaseId, RequestError> {
    let lease = after.parse().map(LeaseId);
    lease.map_err(|_| foreign())
}

/// The layout and the worker in the cursor of a list of leases.
fn worker_of(after: &str) -> Result<(&str, WorkerId), RequestError> {
    let (layout, worker) = after.split_once('\0').ok_or_else(foreign)?;
    let worker = worker.parse().map(WorkerId);
    Ok((layout, worker.map_err(|_| foreign())?))
}

fn foreign() -> RequestError {
    RequestError::invalid("cursor does not belong to this list")
}

fn to_api(state: &State, (name, id): (&str, WorkerId), holder: &Holder, live: bool) -> Worker {
    let layout: Option<&Layout> = state.layout(name);
    Worker {
        layout: name.to_owned(),
        worker: layout.map_or(id.0, |layout| layout.worker_in_datacenter(id)),
        datacenter: layout.and_then(|layout| layout.datacenter_of(id)),
        id: id.0,
        owner: holder.owner.clone(),
        node: holder
            .node
            .and_then(|id| state.node(id))
            .map(|node| node.name.clone()),
        lease: holder.lease.0,
        from_tick: holder.from_tick.0,
        fence_tick: holder.fence.0,
        fence_time: layout
            .map(|layout| rfc3339(layout.wall_at(holder.fence)))
            .unwrap_or_default(),
        live,
    }
}
