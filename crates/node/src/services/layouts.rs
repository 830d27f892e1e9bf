//! Layouts: what IDs are made of and how long they last.

use std::sync::Arc;

use seqd_api::{ListQuery, Page};
use seqd_idgen::{FieldOrder, Layout, WallMs};

use super::error::RequestError;
use super::page::PageRequest;
use crate::replica::{self, Replica};
use crate::times::rfc3339;

pub(crate) struct LayoutService {
    pub(crate) replica: Arc<dyn Replica>,
}

impl LayoutService {
    pub(crate) fn list(&self, query: &ListQuery) -> Result<Page<seqd_api::Layout>, RequestError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let prefix = query.prefix.as_deref().unwrap_or_default();
        let mut found = replica::layouts(&*self.replica);
        found.retain(|layout| layout.name().starts_with(prefix));
        let items = found.iter();
        Ok(wanted.cut(items.map(|layout| (layout.name().to_owned(), to_api(layout)))))
    }

    pub(crate) fn get(&self, name: &str) -> Result<seqd_api::Layout, RequestError> {
        Ok(to_api(&find(&*self.replica, name)?))
    }
}

pub(super) fn find(replica: &dyn Replica, name: &str) -> Result<Layout, RequestError> {
    replica::layout(replica, name).ok_or_else(|| unknown(replica, name))
}

pub(super) fn unknown(replica: &dyn Replica, name: &str) -> RequestError {
    let layouts = replica::layouts(replica);
    let known = layouts.iter().map(|layout| layout.name().to_owned());
    RequestError::NoLayout {
        name: name.to_owned(),
        known: known.collect(),
    }
}

fn to_api(layout: &Layout) -> seqd_api::Layout {
    let spec = layout.spec();
    let order = match spec.order {
        FieldOrder::TickWorkerSequence => "tick-worker-sequence",
        FieldOrder::TickSequenceWorker => "tick-sequence-worker",
    };
    seqd_api::Layout {
        name: spec.name.clone(),
        epoch: rfc3339(WallMs(spec.epoch_ms)),
        epoch_ms: spec.epoch_ms,
        tick_ms: spec.tick_ms,
        time_bits: spec.time_bits,
        datacenter_bits: spec.datacenter_bits,
        worker_bits: spec.worker_bits,
        sequence_bits: spec.sequence_bits,
        order: order.to_owned(),
        exhausted_at: rfc3339(layout.exhausted_at()),
        workers: layout.workers(),
        ids_per_second: layout.ids_per_second(),
    }
}
