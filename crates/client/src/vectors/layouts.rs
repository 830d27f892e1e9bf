//! Layouts: ticks of times, and the parts and the texts of IDs.

use seqd_api::IdFormat;
use seqd_idgen::{Layout, SnowflakeId, Tick, TickError, WallMs, WorkerId};
use serde_json::{Value, json};

use crate::generator::vectors::definition;

/// 2026-11-23T19:00:00Z.
const NOW: WallMs = WallMs(1_795_460_400_000);

pub(super) fn layouts() -> Vec<Value> {
    Layout::presets().iter().map(row).collect()
}

fn row(layout: &Layout) -> Value {
    let spec = layout.spec();
    let epoch = WallMs(spec.epoch_ms);
    let end = layout.exhausted_at();
    let times = [
        WallMs(epoch.0 - 1),
        epoch,
        WallMs(epoch.0 + 1_999),
        NOW,
        WallMs(end.0 - 1),
        end,
    ];
    let times: Vec<_> = times.into_iter().map(|at| time(layout, at)).collect();
    let (worker, sequence) = (layout.workers() - 1, layout.sequences() - 1);
    let now = layout.tick_at(NOW).unwrap_or(Tick(77));
    let ids = [
        (Tick(0), 0, 0),
        (Tick(1), 1, 1),
        (now, 0, 0),
        (now, worker / 2 + 1, 3),
        (now, 1, sequence),
        (layout.max_tick(), worker, sequence),
    ];
    let ids: Vec<_> = ids.into_iter().map(|parts| id(layout, parts)).collect();
    json!({ "layout": definition(spec), "times": times, "ids": ids })
}

fn time(layout: &Layout, at: WallMs) -> Value {
    match layout.tick_at(at) {
        Ok(tick) => json!({ "unix_ms": at.0, "tick": tick.0.to_string() }),
        Err(TickError::BeforeEpoch) => json!({ "unix_ms": at.0, "refused": "before-epoch" }),
        Err(TickError::TimeFull) => json!({ "unix_ms": at.0, "refused": "layout-exhausted" }),
    }
}

fn id(layout: &Layout, (tick, worker, sequence): (Tick, u32, u32)) -> Value {
    let worker = WorkerId(worker);
    let id: SnowflakeId = layout.pack(tick, worker, sequence).unwrap();
    let text = |format: IdFormat| format.encode(id.get());
    json!({
        "id": text(IdFormat::Dec),
        "hex": text(IdFormat::Hex),
        "base62": text(IdFormat::Base62),
        "crockford": text(IdFormat::Crockford),
        "tick": tick.0.to_string(),
        "unix_ms": layout.wall_at(tick).0,
        "worker_id": worker.0,
        "datacenter": layout.datacenter_of(worker),
        "worker": layout.worker_in_datacenter(worker),
        "sequence": sequence,
    })
}
