//! Layouts: the fields of IDs, how long they last, how IDs spread over shards; creation, and
//! computation of an ID.

use std::sync::Arc;

use seqd_api::{CreateLayout, EncodeRequest, Encoded, LayoutQuery, ListQuery, Page, Plan, Spread};
use seqd_idgen::{
    FieldOrder, FirstSequence, Layout, LayoutSpec, TickError, WallClock, WallMs, WorkerId,
};
use seqd_state::{LayoutCommand, LayoutOutcome, LayoutRefusal, Outcome, Refusal, State};
use tokio::time::Instant;

use super::differences::{self, Differs};
use super::error::{RequestError, ServiceError, on_state, propose, try_out, unexpected};
use super::page::PageRequest;
use crate::replica::{self, Replica};
use crate::times::{self, rfc3339};

/// 2026-01-01T00:00:00Z, as in the layout `default`.
const DEFAULT_EPOCH: &str = "1767225600000";

/// A layout that ends within ten years of its creation may end while tables with its IDs are in
/// use.
const SHORT_LIFE_MS: u64 = 10 * 366 * 24 * 3_600_000;

/// With fewer workers a restart can find no free one: three nodes may each still hold the worker of
/// their previous start within its window.
const FEW_WORKERS: u32 = 8;

/// With fewer first sequences IDs do not reach a common number of shards.
const FEW_FIRSTS: u32 = 64;

pub(crate) struct LayoutService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<dyn WallClock>,
}

impl LayoutService {
    pub(crate) fn list(&self, query: &ListQuery) -> Result<Page<seqd_api::Layout>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let prefix = query.prefix.as_deref().unwrap_or_default();
        let found = on_state(&*self.replica, |state| state.layouts().cloned().collect());
        let mut found: Vec<Layout> = found?;
        found.retain(|layout| layout.name().starts_with(prefix));
        let items = found.iter();
        Ok(wanted.cut(items.map(|layout| (layout.name().to_owned(), to_api(layout)))))
    }

    /// A layout with its end, spread and warnings.
    pub(crate) fn get(
        &self,
        name: &str,
        query: &LayoutQuery,
    ) -> Result<seqd_api::Layout, ServiceError> {
        let layout = find(&*self.replica, name)?;
        let mut view = self.explained(&layout);
        if query.rate.is_some() || query.modulus.is_some() {
            view.spread = Some(spread(&layout, query)?);
        }
        Ok(view)
    }

    /// Creates a layout, unless an equal one exists. Returns whether it is new.
    pub(crate) async fn create(
        &self,
        wanted: CreateLayout,
        deadline: Instant,
    ) -> Result<(seqd_api::Layout, bool), ServiceError> {
        let layout = defined(wanted)?;
        let command = LayoutCommand::Create {
            layout: layout.clone(),
        };
        let proposed = propose(&*self.replica, command, deadline).await;
        match proposed.map_err(|error| self.differing(&layout, error))? {
            Outcome::Layouts(LayoutOutcome::Created { created }) => {
                Ok((self.explained(&layout), created))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The effect that a creation would have: the state's own check, without its effect.
    pub(crate) async fn plan_create(
        &self,
        wanted: CreateLayout,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let layout = defined(wanted)?;
        let command = LayoutCommand::Create {
            layout: layout.clone(),
        };
        let now = self.clock.wall();
        let check = |state: &State| state.try_layout(now, &command);
        let tried = try_out(&*self.replica, deadline, check).await;
        let LayoutOutcome::Created { created } =
            tried.map_err(|error| self.differing(&layout, error))?;
        let name = layout.name();
        let effect = if created {
            format!("creates the layout {name}, which can never be changed or removed")
        } else {
            format!("nothing: {name} already exists with the same definition")
        };
        let mut plan = Plan::new(effect, None);
        plan.layout = Some(self.explained(&layout));
        Ok(plan)
    }

    /// Computes the ID of a time, a worker and a sequence. Nothing is allocated.
    pub(crate) fn encode(
        &self,
        name: &str,
        request: &EncodeRequest,
    ) -> Result<Encoded, ServiceError> {
        let layout = find(&*self.replica, name)?;
        let missing = || RequestError::invalid("time is missing: RFC 3339, or Unix milliseconds");
        let at = time("time", request.time.as_deref().ok_or_else(missing)?)?;
        let tick = layout.tick_at(at).map_err(|error| {
            let spec = layout.spec();
            let (from, to) = (
                rfc3339(WallMs(spec.epoch_ms)),
                rfc3339(layout.exhausted_at()),
            );
            let why = match error {
                TickError::BeforeEpoch => "is before the epoch",
                TickError::TimeFull => "is past the end",
            };
            RequestError::Invalid(format!(
                "time {why} of {name}: it has ticks from {from} to {to}"
            ))
        })?;
        let worker = worker(&layout, request)?;
        let id = layout.pack(tick, worker, request.sequence.unwrap_or(0));
        let (first, last) = layout.tick_numbers(tick);
        Ok(Encoded {
            id: id.map_err(RequestError::invalid)?.get(),
            layout: layout.name().to_owned(),
            tick: tick.0,
            time: rfc3339(layout.wall_at(tick)),
            first,
            last,
        })
    }

    /// Adds the fields that differ to the refusal of an existing layout.
    fn differing(&self, asked: &Layout, error: ServiceError) -> ServiceError {
        let ServiceError::Refused(Refusal::Layouts(LayoutRefusal::Exists { name })) = &error else {
            return error;
        };
        let Some(have) = replica::layout(&*self.replica, name) else {
            return error;
        };
        let fields = differences::between(&to_api(&have), &to_api(asked), differences::OF_LAYOUTS);
        if fields.is_empty() {
            return error;
        }
        ServiceError::Differs(Differs {
            what: "layout",
            name: name.clone(),
            is_deleted: false,
            fields,
        })
    }

    fn explained(&self, layout: &Layout) -> seqd_api::Layout {
        let now = self.clock.wall();
        let others = replica::layouts(&*self.replica);
        let others = others.iter().filter(|other| other.name() != layout.name());
        let shared = others.filter(|other| layout.shared_numbers(other, now).is_some());
        let known_from = replica::peek(&*self.replica, |state| state.leases_known_from(layout));
        seqd_api::Layout {
            leases_known_from_ms: known_from.flatten().map(|from| from.0),
            now_ms: Some(now.0),
            overlaps: shared.map(|other| other.name().to_owned()).collect(),
            warnings: warnings(layout, now),
            ..to_api(layout)
        }
    }
}

pub(super) fn find(replica: &dyn Replica, name: &str) -> Result<Layout, ServiceError> {
    if let Some(layout) = replica::layout(replica, name) {
        return Ok(layout);
    }
    // Without a state, the node cannot determine that the cluster has no such layout.
    on_state(replica, |_| ())?;
    Err(unknown(replica, name).into())
}

/// Like [`find`], but if this node has no such layout, looks it up by a linearizable read, since it
/// may have been created through another node.
pub(super) async fn find_anywhere(
    replica: &dyn Replica,
    name: &str,
    deadline: Instant,
) -> Result<Layout, ServiceError> {
    if let Some(layout) = replica::layout(replica, name) {
        return Ok(layout);
    }
    // Without a quorum, this node's applied state decides.
    let _ = replica.read(deadline).await;
    find(replica, name)
}

pub(super) fn unknown(replica: &dyn Replica, name: &str) -> RequestError {
    let layouts = replica::layouts(replica);
    let known = layouts.iter().map(|layout| layout.name().to_owned());
    RequestError::NoLayout {
        name: name.to_owned(),
        known: known.collect(),
    }
}

/// The fields that depend neither on the day nor on other layouts.
pub(super) fn to_api(layout: &Layout) -> seqd_api::Layout {
    let spec = layout.spec();
    seqd_api::Layout {
        name: spec.name.clone(),
        epoch: rfc3339(WallMs(spec.epoch_ms)),
        epoch_ms: spec.epoch_ms,
        tick_ms: spec.tick_ms,
        time_bits: spec.time_bits,
        datacenter_bits: spec.datacenter_bits,
        worker_bits: spec.worker_bits,
        sequence_bits: spec.sequence_bits,
        order: order_text(spec.order).to_owned(),
        exhausted_at: rfc3339(layout.exhausted_at()),
        workers: layout.workers(),
        ids_per_second: layout.ids_per_second(),
        ids_per_second_of_all: u128::from(layout.ids_per_second()) * u128::from(layout.workers()),
        first_sequence: first_text(spec.first_sequence),
        bits: layout.bits(),
        largest: layout.largest(),
        fits_53_bits: layout.bits() <= 53,
        overlaps: Vec::new(),
        warnings: Vec::new(),
        leases_known_from_ms: None,
        now_ms: None,
        spread: None,
    }
}

const fn order_text(order: FieldOrder) -> &'static str {
    match order {
        FieldOrder::TickWorkerSequence => "tick-worker-sequence",
        FieldOrder::TickSequenceWorker => "tick-sequence-worker",
    }
}

fn first_text(first: FirstSequence) -> String {
    match first {
        FirstSequence::Zero => "zero".to_owned(),
        FirstSequence::RandomBelow(bound) => format!("random:{bound}"),
        FirstSequence::Spread => "spread".to_owned(),
    }
}

/// The layout that a request defines; missing fields are as in the layout `default`.
fn defined(wanted: CreateLayout) -> Result<Layout, RequestError> {
    let missing = || RequestError::invalid("name is missing");
    let order = wanted.order.as_deref().unwrap_or("tick-worker-sequence");
    let orders = [
        FieldOrder::TickWorkerSequence,
        FieldOrder::TickSequenceWorker,
    ];
    let order = orders.into_iter().find(|known| order_text(*known) == order);
    let order = order.ok_or_else(|| {
        RequestError::invalid("order must be tick-worker-sequence or tick-sequence-worker")
    })?;
    let epoch = time("epoch", wanted.epoch.as_deref().unwrap_or(DEFAULT_EPOCH))?;
    let layout = Layout::new(LayoutSpec {
        name: wanted.name.ok_or_else(missing)?,
        epoch_ms: epoch.0,
        tick_ms: wanted.tick_ms.unwrap_or(1),
        time_bits: wanted.time_bits.unwrap_or(41),
        datacenter_bits: wanted.datacenter_bits.unwrap_or(0),
        worker_bits: wanted.worker_bits.unwrap_or(10),
        sequence_bits: wanted.sequence_bits.unwrap_or(12),
        order,
        first_sequence: first_sequence(wanted.first_sequence.as_deref().unwrap_or("spread"))?,
    });
    layout.map_err(RequestError::invalid)
}

fn first_sequence(text: &str) -> Result<FirstSequence, RequestError> {
    let below = |bound: &str| bound.parse().ok().map(FirstSequence::RandomBelow);
    let found = match text {
        "zero" => Some(FirstSequence::Zero),
        "spread" => Some(FirstSequence::Spread),
        text => text.strip_prefix("random:").and_then(below),
    };
    found.ok_or_else(|| {
        RequestError::invalid(
            "first_sequence must be spread, zero, or random:N for a number below N",
        )
    })
}

fn time(field: &str, text: &str) -> Result<WallMs, RequestError> {
    times::parse(text).ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        RequestError::Invalid(format!(
            "{field} is RFC 3339, such as 2026-11-21T02:26:41.118Z, or milliseconds of Unix time, not \
             {text:?}"
        ))
    })
}

/// The whole worker field of a request.
fn worker(layout: &Layout, request: &EncodeRequest) -> Result<WorkerId, RequestError> {
    let number = request.worker.unwrap_or(0);
    let Some(datacenter) = request.datacenter else {
        return Ok(WorkerId(number));
    };
    let Some((first, last)) = layout.workers_of_datacenter(datacenter) else {
        let bits = layout.spec().datacenter_bits;
        let last = (1_u64 << bits) - 1;
        return Err(RequestError::Invalid(match bits {
            0 => format!("{} has no datacenters", layout.name()),
            _ => format!(
                "{} has datacenters 0 to {last}, not {datacenter}",
                layout.name()
            ),
        }));
    };
    match first.0.checked_add(number) {
        Some(worker) if worker <= last.0 => Ok(WorkerId(worker)),
        _ => Err(RequestError::Invalid(format!(
            "a datacenter of {} has workers 0 to {}, not {number}",
            layout.name(),
            last.0 - first.0
        ))),
    }
}

fn spread(layout: &Layout, query: &LayoutQuery) -> Result<Spread, RequestError> {
    const MAX_RATE: u64 = 1_000_000;
    let (rate, modulus) = (query.rate.unwrap_or(20), query.modulus.unwrap_or(16));
    if !(1..=MAX_RATE).contains(&rate) {
        let detail = format!("rate is 1 to {MAX_RATE}, not {rate}");
        return Err(RequestError::Invalid(detail));
    }
    if !(2..=Layout::MAX_MODULUS).contains(&modulus) {
        let detail = format!("modulus is 2 to {}, not {modulus}", Layout::MAX_MODULUS);
        return Err(RequestError::Invalid(detail));
    }
    let counted = layout.remainders(rate, modulus);
    let counted = counted.ok_or_else(|| {
        RequestError::invalid("the layout's time field ends before that many IDs could be issued")
    })?;
    Ok(Spread {
        rate,
        modulus,
        ids: counted.ids,
        used: counted.used,
        most: counted.most,
        least: counted.least,
    })
}

fn warnings(layout: &Layout, now: WallMs) -> Vec<String> {
    let spec = layout.spec();
    let mut warnings = Vec::new();
    let ends = layout.exhausted_at();
    let end = rfc3339(ends);
    if ends <= now {
        warnings.push(format!(
            "its time field has been full since {end}: its IDs can only be decoded"
        ));
    } else if ends.0 - now.0 < SHORT_LIFE_MS {
        warnings.push(format!(
            "its time field is full on {end}, in less than ten years"
        ));
    }
    let workers = layout.workers();
    if workers < FEW_WORKERS {
        warnings.push(format!(
            "{workers} workers are few: each start leases another worker, and a worker that was \
             not released stays reserved for a window"
        ));
    }
    let firsts = match spec.first_sequence {
        FirstSequence::Zero => 1,
        FirstSequence::RandomBelow(bound) => bound,
        FirstSequence::Spread => layout.sequences(),
    };
    if firsts < FEW_FIRSTS && firsts < layout.sequences() {
        warnings.push(format!(
            "IDs issued at a low rate have sequence numbers below {firsts}, so they share \
             remainders: id mod N leaves most shards empty"
        ));
    }
    if layout.ids_per_second() < 1000 {
        let most = layout.ids_per_second();
        warnings.push(format!("a worker makes at most {most} IDs a second"));
    }
    warnings
}
