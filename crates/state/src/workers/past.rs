//! Past leases: the holder of each worker in each tick before the worker's latest lease.
//!
//! When a worker is granted again, its previous lease becomes a row of this table. The rows are
//! keyed by lease. Beyond [`MAX_PAST_LEASES`] rows, the lease whose window ended first is removed
//! first, and [`PastStart`] records the time since which none is missing. The uniqueness of IDs
//! does not depend on this table.

use std::collections::{BTreeMap, BTreeSet};

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use super::commands::Holder;
use super::record::{WorkerKey, WorkerRecord};
use crate::codec::Versioned;
use crate::newtypes::{LeaseId, NodeId};
use crate::table::{Record, Table, record};

/// The maximum number of past leases. With owners of maximum length and the indices they take 25
/// MB; in practice 5 MB. They cover half a year at two hundred starts a day.
pub const MAX_PAST_LEASES: usize = 1 << 15;

/// An ended lease whose worker was granted again. Its ID is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastLease {
    pub(crate) layout: String,
    #[serde(with = "crate::foreign::WorkerIdDef")]
    pub(crate) worker: WorkerId,
    pub(crate) owner: String,
    /// `None` for an external generator.
    pub(crate) node: Option<NodeId>,
    #[serde(with = "crate::foreign::TickDef")]
    pub(crate) from_tick: Tick,
    /// The fence when the lease ended.
    #[serde(with = "crate::foreign::TickDef")]
    pub(crate) fence: Tick,
}

impl Versioned for PastLease {
    const KIND: u8 = 21;
    const VERSION: u8 = 1;
}

impl Record for PastLease {
    type Key = LeaseId;
    const PREFIX: u8 = b'h';

    fn is_sound(&self) -> bool {
        self.from_tick <= self.fence
    }
}

/// The time since which no past lease is missing. First written by the founding command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct PastStart {
    #[serde(with = "crate::foreign::WallMsDef")]
    pub(crate) known_from: WallMs,
}

record!(PastStart, kind 22, version 1, prefix b'i', key ());

/// Past leases by worker and first tick, and by the end of their windows. Derived from the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct PastIndex {
    by_worker: BTreeMap<WorkerKey, BTreeMap<Tick, LeaseId>>,
    by_end: BTreeSet<(WallMs, LeaseId)>,
}

impl PastIndex {
    /// Builds the index. `wall_at` returns the time at which a tick of a layout begins.
    pub(crate) fn of(past: &Table<PastLease>, wall_at: impl Fn(&str, Tick) -> WallMs) -> Self {
        let mut index = Self::default();
        for (lease, record) in past.iter() {
            index.insert(*lease, record, wall_at(&record.layout, record.fence));
        }
        index
    }

    fn insert(&mut self, lease: LeaseId, record: &PastLease, end: WallMs) {
        let ticks = self.by_worker.entry(record.worker_key()).or_default();
        ticks.insert(record.from_tick, lease);
        self.by_end.insert((end, lease));
    }

    fn remove(&mut self, lease: LeaseId, record: &PastLease) {
        let key = record.worker_key();
        if let Some(ticks) = self.by_worker.get_mut(&key) {
            if ticks.get(&record.from_tick) == Some(&lease) {
                ticks.remove(&record.from_tick);
            }
            if ticks.is_empty() {
                self.by_worker.remove(&key);
            }
        }
    }

    /// Returns the worker's latest lease that began at or before `tick`.
    fn before(&self, key: &WorkerKey, tick: Tick) -> Option<LeaseId> {
        let (_, lease) = self.by_worker.get(key)?.range(..=tick).next_back()?;
        Some(*lease)
    }
}

impl PastLease {
    fn worker_key(&self) -> WorkerKey {
        WorkerKey {
            layout: self.layout.clone(),
            worker: self.worker,
        }
    }

    pub(crate) fn holder(&self, lease: LeaseId) -> Holder {
        Holder {
            lease,
            owner: self.owner.clone(),
            node: self.node,
            from_tick: self.from_tick,
            fence: self.fence,
        }
    }
}

/// The past leases, with their index and their beginning, while an entry is applied.
pub(crate) struct Past<'a> {
    pub(crate) leases: &'a mut Table<PastLease>,
    pub(crate) start: &'a mut Table<PastStart>,
    pub(crate) index: &'a mut PastIndex,
}

impl Past<'_> {
    /// Keeps the previous lease of a worker when another is granted. A lease without a tick minted
    /// no ID and is not kept.
    pub(crate) fn keep(
        &mut self,
        key: &WorkerKey,
        record: &WorkerRecord,
        wall_at: impl Fn(&str, Tick) -> WallMs,
    ) {
        if record.from_tick == record.fence {
            return;
        }
        while self.leases.len() >= MAX_PAST_LEASES {
            if !self.forget_first() {
                break;
            }
        }
        let past = PastLease {
            layout: key.layout.clone(),
            worker: key.worker,
            owner: record.owner.clone(),
            node: record.node,
            from_tick: record.from_tick,
            fence: record.fence,
        };
        let end = wall_at(&past.layout, past.fence);
        self.index.insert(record.lease, &past, end);
        self.leases.put(record.lease, past);
    }

    /// Removes the lease whose window ended first. Returns `false` if there is none.
    fn forget_first(&mut self) -> bool {
        let Some((end, lease)) = self.index.by_end.pop_first() else {
            return false;
        };
        if let Some(past) = self.leases.remove(&lease) {
            self.index.remove(lease, &past);
            let start = self.start.entry((), PastStart::default);
            start.known_from = start.known_from.max(end);
        }
        true
    }
}

impl Table<PastLease> {
    /// Returns the past lease whose window contains the tick.
    pub(crate) fn holder_at(
        &self,
        index: &PastIndex,
        key: &WorkerKey,
        tick: Tick,
    ) -> Option<Holder> {
        let lease = index.before(key, tick)?;
        let past = self.get(&lease).filter(|past| tick < past.fence)?;
        Some(past.holder(lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newtypes::ClusterMs;

    const FIRST: u64 = 100;

    fn wall_at(_: &str, tick: Tick) -> WallMs {
        WallMs(tick.0)
    }

    fn record(lease: u64) -> WorkerRecord {
        WorkerRecord {
            tenant: crate::Tenant::OPERATOR,
            lease: LeaseId(lease),
            owner: "pod".to_owned(),
            node: None,
            boot: 0,
            from_tick: Tick(lease * 10),
            fence: Tick(lease * 10 + 5),
            taken_wall_ms: WallMs(0),
            used_ms: ClusterMs(0),
            released: true,
        }
    }

    #[test]
    fn the_lease_whose_window_ended_first_is_dropped_first() {
        let (mut leases, mut start) = (Table::default(), Table::default());
        let mut index = PastIndex::default();
        let mut past = Past {
            leases: &mut leases,
            start: &mut start,
            index: &mut index,
        };
        let key = WorkerKey {
            layout: "default".to_owned(),
            worker: WorkerId(3),
        };
        let last = FIRST + MAX_PAST_LEASES as u64 + 1;
        // A lease that was granted before all others and ended after them.
        let long = WorkerRecord {
            lease: LeaseId(1),
            from_tick: Tick(1),
            fence: Tick(last * 100),
            ..record(1)
        };
        let other = WorkerKey {
            worker: WorkerId(4),
            ..key.clone()
        };
        past.keep(&other, &long, wall_at);
        for lease in FIRST..=last {
            past.keep(&key, &record(lease), wall_at);
        }
        assert_eq!(leases.len(), MAX_PAST_LEASES);
        let known_from = start.get(&()).unwrap().known_from;
        assert_eq!(known_from, WallMs((FIRST + 2) * 10 + 5));
        let again = PastIndex::of(&leases, wall_at);
        let kept = leases.holder_at(&index, &other, Tick(7));
        assert_eq!(kept.map(|holder| holder.lease), Some(LeaseId(1)));
        let held = |tick| {
            let holder = leases.holder_at(&index, &key, Tick(tick));
            assert_eq!(leases.holder_at(&again, &key, Tick(tick)), holder);
            holder.map(|holder| holder.lease.0)
        };
        let (first, second) = (FIRST + 3, FIRST + 4);
        assert_eq!(held(first * 10 - 6), None);
        assert_eq!(held(first * 10), Some(first));
        assert_eq!(held(first * 10 + 5), None, "behind its fence");
        assert_eq!(held(second * 10 + 4), Some(second));
        assert_eq!(held(last * 10), Some(last));
    }
}
