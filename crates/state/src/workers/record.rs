//! The latest lease of each worker, and whether it is live.

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use super::commands::Holder;
use crate::codec::Versioned;
use crate::context::ApplyContext;
use crate::deadlines::{Expiring, Passing};
use crate::newtypes::{ClusterMs, LeaseId, NodeId, TableKey};
use crate::table::{Record, Table};
use crate::tenant::Tenant;

/// The latest lease of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// The tenant that took the lease.
    pub tenant: Tenant,
    pub lease: LeaseId,
    pub owner: String,
    /// `None` for an external generator.
    pub node: Option<NodeId>,
    pub boot: u64,
    /// The first tick that the holder may mint.
    #[serde(with = "crate::foreign::TickDef")]
    pub from_tick: Tick,
    /// The first tick that the holder may not mint.
    #[serde(with = "crate::foreign::TickDef")]
    pub fence: Tick,
    /// The wall clock at which the lease was taken. Only stored: no code reads it.
    #[serde(with = "crate::foreign::WallMsDef")]
    pub taken_wall_ms: WallMs,
    /// The cluster time at which the lease was last taken, extended or released.
    pub used_ms: ClusterMs,
    pub released: bool,
}

/// A worker with its latest lease at the applied cluster time.
#[derive(Debug, Clone, Copy)]
pub struct LeaseView<'a> {
    pub layout: &'a str,
    pub worker: WorkerId,
    pub record: &'a WorkerRecord,
    /// True if the lease has not ended.
    pub live: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerKey {
    pub(crate) layout: String,
    pub(crate) worker: WorkerId,
}

impl TableKey for WorkerKey {
    /// A zero byte, which no name contains, ends the layout's name, so that keys sort in the order
    /// of names.
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.layout.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&self.worker.0.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (name, worker) = bytes
            .split_last_chunk::<4>()
            .map(|(name, worker)| (name, *worker))?;
        let name = name.strip_suffix(&[0])?;
        let layout = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.contains('\0'))?;
        let worker = WorkerId(u32::from_be_bytes(worker));
        Some(Self {
            layout: layout.to_owned(),
            worker,
        })
    }
}

impl Versioned for WorkerRecord {
    const KIND: u8 = 14;
    const VERSION: u8 = 1;
}

impl Record for WorkerRecord {
    type Key = WorkerKey;
    const PREFIX: u8 = b'w';

    fn is_sound(&self) -> bool {
        self.from_tick <= self.fence
    }
}

impl Expiring for WorkerRecord {
    fn deadline(&self, key: &WorkerKey, context: &ApplyContext<'_>) -> Option<ClusterMs> {
        let layout = context.layouts.named(&key.layout)?;
        is_live(context, layout, self).then(|| context.expiry(layout, self.used_ms))
    }

    /// The record stays, because its fence is valid forever.
    fn pass(_: &mut Table<Self>, _: &WorkerKey, _: Passing<'_>) {}
}

impl Table<WorkerRecord> {
    /// Releases every lease. The fences do not change.
    pub(crate) fn end_all(&mut self) {
        let held = self.iter().filter(|(_, record)| !record.released);
        let held: Vec<WorkerKey> = held.map(|(key, _)| key.clone()).collect();
        for key in held {
            if let Some(record) = self.get_mut(&key) {
                record.released = true;
            }
        }
    }

    pub(crate) fn view<'a>(
        &self,
        context: &ApplyContext<'_>,
        key: &'a WorkerKey,
        record: &'a WorkerRecord,
    ) -> LeaseView<'a> {
        let layout = context.layouts.named(&key.layout);
        let live = layout.is_some_and(|layout| is_live(context, layout, record));
        LeaseView {
            layout: &key.layout,
            worker: key.worker,
            record,
            live,
        }
    }
}

impl Holder {
    #[must_use]
    pub fn of(record: &WorkerRecord) -> Self {
        Self {
            lease: record.lease,
            owner: record.owner.clone(),
            node: record.node,
            from_tick: record.from_tick,
            fence: record.fence,
        }
    }
}

pub(crate) fn is_live(context: &ApplyContext<'_>, layout: &Layout, record: &WorkerRecord) -> bool {
    !record.released && context.cluster_ms < context.expiry(layout, record.used_ms)
}

/// Returns the milliseconds until the worker can be granted, at this tick of its layout; 0 if it is
/// free. If a lease was released without its last tick, the worker stays taken up to the fence.
pub(crate) fn ms_until_free(
    context: &ApplyContext<'_>,
    layout: &Layout,
    tick: Tick,
    record: &WorkerRecord,
) -> u64 {
    let live_ms = if is_live(context, layout, record) && !is_out!(LiveLeaseKept) {
        context.expiry(layout, record.used_ms).0 - context.cluster_ms.0
    } else {
        0
    };
    let fence_ms = if record.fence > tick && !is_out!(WindowAboveFence) {
        let end = layout.wall_at(record.fence);
        end.0.saturating_sub(context.wall_ms.0).max(1)
    } else {
        0
    };
    live_ms.max(fence_ms)
}
