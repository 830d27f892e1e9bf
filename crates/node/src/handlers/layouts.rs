//! Layouts: what IDs are made of and how long they last.

use std::sync::Arc;

use seqd_api::{ErrorCode, ListQuery, NoFields, Problem, nearest};
use seqd_idgen::{FieldOrder, Layout};
use serde::Serialize;

use super::cursor;
use crate::app::App;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::replica::layouts;
use crate::times::rfc3339;

pub(crate) const LAYOUTS: &str = "/v1/layouts";
pub(crate) const LAYOUT: &str = "/v1/layouts/{name}";

/// The layout of that name, or a 404 that names the nearest.
pub(crate) fn layout_named(app: &App, name: &str) -> Result<Layout, Problem> {
    let layouts = layouts(&app.raft);
    let found = layouts.iter().find(|layout| layout.name() == name);
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = layouts.iter().map(Layout::name).collect();
        let shown: String = name.chars().take(80).collect();
        let problem = Problem::new(ErrorCode::NotFound, format!("there is no layout {shown:?}"));
        match nearest(name, &names) {
            Some(near) => problem.with_hint(format!("did you mean {near:?}?")),
            None => problem.with_hint(format!("known: {}", names.join(", "))),
        }
    })
}

/// A layout as it is shown.
#[derive(Serialize)]
struct LayoutBody {
    name: String,
    epoch: String,
    epoch_ms: u64,
    tick_ms: u32,
    time_bits: u8,
    datacenter_bits: u8,
    worker_bits: u8,
    sequence_bits: u8,
    order: &'static str,
    exhausted_at: String,
    workers: u32,
    ids_per_second: String,
}

impl LayoutBody {
    fn of(layout: &Layout) -> LayoutBody {
        let spec = layout.spec();
        LayoutBody {
            name: spec.name.clone(),
            epoch: rfc3339(seqd_idgen::WallMs(spec.epoch_ms)),
            epoch_ms: spec.epoch_ms,
            tick_ms: spec.tick_ms,
            time_bits: spec.time_bits,
            datacenter_bits: spec.datacenter_bits,
            worker_bits: spec.worker_bits,
            sequence_bits: spec.sequence_bits,
            order: match spec.order {
                FieldOrder::TickWorkerSequence => "tick-worker-sequence",
                FieldOrder::TickSequenceWorker => "tick-sequence-worker",
            },
            exhausted_at: rfc3339(layout.exhausted_at()),
            workers: layout.workers(),
            ids_per_second: layout.ids_per_second().to_string(),
        }
    }
}

/// `GET /v1/layouts`
pub(crate) async fn list(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: ListQuery = ask.decode()?;
    let limit = cursor::limit(query.limit)?;
    let after = cursor::name(query.cursor.as_deref())?;
    let prefix = query.prefix.unwrap_or_default();
    let mut found = layouts(&app.raft);
    found.retain(|layout| layout.name().starts_with(&prefix));
    let items = found
        .iter()
        .map(|layout| (layout.name().to_owned(), LayoutBody::of(layout)));
    Answer::json(&cursor::page(items, after.as_deref(), limit))
}

/// `GET /v1/layouts/{name}`
pub(crate) async fn get(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    Answer::json(&LayoutBody::of(&layout_named(&app, ask.name())?))
}
