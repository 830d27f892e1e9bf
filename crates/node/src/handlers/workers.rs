//! Worker leases: who holds which worker, and until when.

use std::sync::Arc;

use seqd_api::{Problem, Worker, WorkersQuery};
use seqd_idgen::Layout;
use seqd_state::{LeaseView, State};

use super::cursor;
use super::layouts::layout_named;
use crate::app::App;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::times::rfc3339;

/// `GET /v1/workers`
pub(crate) async fn list(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: WorkersQuery = ask.decode()?;
    let limit = cursor::limit(query.limit)?;
    let after = cursor::name(query.cursor.as_deref())?;
    if let Some(layout) = &query.layout {
        layout_named(&app, layout)?;
    }
    let page = app.raft.state(|state| {
        let wanted = |view: &LeaseView<'_>| {
            query
                .layout
                .as_deref()
                .is_none_or(|layout| view.layout == layout)
                && query
                    .prefix
                    .as_deref()
                    .is_none_or(|prefix| view.record.owner.starts_with(prefix))
        };
        let leases = state.leases().filter(wanted);
        // Numbers with leading zeroes, so that names sort as the workers do.
        let items = leases.map(|view| {
            (
                format!("{}/{:010}", view.layout, view.worker.0),
                worker(state, &view),
            )
        });
        cursor::page(items, after.as_deref(), limit)
    });
    Answer::json(&page)
}

fn worker(state: &State, view: &LeaseView<'_>) -> Worker {
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
        live: view.is_live(),
    }
}
