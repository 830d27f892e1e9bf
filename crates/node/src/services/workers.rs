//! Worker leases: who holds which worker, and until when.

use std::sync::Arc;

use seqd_api::{Page, Worker, WorkersQuery};
use seqd_idgen::Layout;
use seqd_state::{LeaseView, State};

use super::error::RequestError;
use super::layouts;
use super::page::PageRequest;
use crate::minting::ClockWatch;
use crate::replica::{Replica, peek};
use crate::times::rfc3339;

pub(crate) struct WorkerService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<ClockWatch>,
    /// The window until the replicated setting is known, in milliseconds.
    pub(crate) window_ms: u64,
}

impl WorkerService {
    /// The workers with a lease, by layout and number.
    pub(crate) fn list(&self, query: &WorkersQuery) -> Result<Page<Worker>, RequestError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let (layout, prefix) = (query.layout.as_deref(), query.prefix.as_deref());
        if let Some(layout) = layout {
            layouts::find(&*self.replica, layout)?;
        }
        let page = peek(&*self.replica, |state| {
            let is_wanted = |view: &LeaseView<'_>| {
                layout.is_none_or(|layout| view.layout == layout)
                    && prefix.is_none_or(|prefix| view.record.owner.starts_with(prefix))
            };
            let leases = state.leases().filter(is_wanted);
            // Numbers with leading zeroes, so that names sort as the workers do.
            wanted.cut(leases.map(|view| {
                let name = format!("{}/{:010}", view.layout, view.worker.0);
                (name, to_api(state, &view))
            }))
        });
        Ok(page.unwrap_or_else(|| wanted.cut(std::iter::empty())))
    }
}

fn to_api(state: &State, view: &LeaseView<'_>) -> Worker {
    let layout: Option<&Layout> = state.layout(view.layout);
    let record = view.record;
    Worker {
        layout: view.layout.to_owned(),
        worker: layout.map_or(view.worker.0, |layout| {
            layout.worker_in_datacenter(view.worker)
        }),
        datacenter: layout.and_then(|layout| layout.datacenter_of(view.worker)),
        id: view.worker.0,
        owner: record.owner.clone(),
        node: record
            .node
            .and_then(|id| state.node(id))
            .map(|node| node.name.clone()),
        lease: record.lease.0,
        from_tick: record.from_tick.0,
        fence_tick: record.fence.0,
        fence_time: layout
            .map(|layout| rfc3339(layout.wall_at(record.fence)))
            .unwrap_or_default(),
        live: view.live,
    }
}
