//! Chooses the worker of a new lease.

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, WorkerId};

use crate::context::ApplyContext;
use crate::newtypes::{ClusterMs, LeaseId};
use crate::table::Table;
use crate::tenant::Tenant;
use crate::workers::commands::{TakeLease, WorkerRefusal};
use crate::workers::record::{WorkerKey, WorkerRecord, ms_until_free};
use crate::workers::room::{MAX_WORKERS_KNOWN, group_size, reserve};

/// A worker that was leased before.
struct KnownWorker<'a> {
    worker: u32,
    record: &'a WorkerRecord,
    /// Milliseconds until the worker can be granted; 0 if it is free.
    wait_ms: u64,
}

impl KnownWorker<'_> {
    fn is_free(&self) -> bool {
        self.wait_ms == 0
    }

    /// Returns a key that orders workers by their latest use.
    fn latest_use(&self) -> (ClusterMs, LeaseId) {
        (self.record.used_ms, self.record.lease)
    }

    fn is_of_client(&self) -> bool {
        self.record.tenant != Tenant::OPERATOR
    }
}

/// A group of workers, some of which are reserved for the nodes: the workers of a datacenter, or of
/// a layout without datacenters.
struct Group<'a> {
    first: u32,
    size: u32,
    /// In the order of their numbers.
    known: &'a [KnownWorker<'a>],
}

impl Group<'_> {
    fn taken(&self) -> usize {
        self.known.iter().filter(|one| !one.is_free()).count()
    }

    /// Returns the maximum number of workers of the group that are ever leased.
    fn workers(&self) -> u32 {
        self.size.min(MAX_WORKERS_KNOWN as u32)
    }

    /// Returns whether clients have taken all workers of the group except the reserved ones.
    fn is_reserved(&self) -> bool {
        let taken = self.known.iter().filter(|one| !one.is_free());
        let of_clients = taken.filter(|one| one.is_of_client()).count() as u32;
        let reserved = reserve(self.workers());
        reserved > 0 && of_clients + reserved >= self.workers()
    }

    /// Returns the lowest worker that was never leased.
    fn unused(&self) -> Option<u32> {
        let mut unused = self.first;
        for known in self.known {
            if known.worker != unused {
                break;
            }
            unused += 1;
        }
        (unused - self.first < self.size).then_some(unused)
    }

    /// Returns the least recently used free worker.
    fn oldest(&self) -> Option<u32> {
        let free = self.known.iter().filter(|one| one.is_free());
        free.min_by_key(|one| one.latest_use())
            .map(|one| one.worker)
    }
}

/// Returns the groups of the workers from `first` to `last`, each of `size` workers: every group
/// with a known worker, and the first of the other groups.
fn groups<'a>(
    known: &'a [KnownWorker<'a>],
    (first, last): (u32, u32),
    size: u32,
) -> Vec<Group<'a>> {
    let chunks = known.chunk_by(|one, next| one.worker / size == next.worker / size);
    let mut groups: Vec<Group<'a>> = chunks
        .map(|known| Group {
            first: known[0].worker / size * size,
            size,
            known,
        })
        .collect();
    let mut unknown = first;
    for group in &groups {
        if group.first == unknown {
            unknown += size;
        }
    }
    if unknown <= last {
        groups.push(Group {
            first: unknown,
            size,
            known: &[],
        });
    }
    groups
}

impl Table<WorkerRecord> {
    /// Returns the worker for a new lease: the owner's previous worker, or else a worker that was
    /// never leased, or else the least recently used one. Each is chosen only if it is free and its
    /// fence has passed. If the request names no datacenter, the group with the fewest taken
    /// workers is used, so that such clients leave some workers in each.
    pub(super) fn choose(
        &self,
        context: &ApplyContext<'_>,
        layout: &Layout,
        tick: Tick,
        asked: &TakeLease,
    ) -> Result<WorkerId, WorkerRefusal> {
        let (first, last) = candidates(layout, asked.datacenter)?;
        let key = |worker| WorkerKey {
            layout: asked.layout.clone(),
            worker,
        };
        let known = self
            .range(key(first)..=key(last))
            .map(|(key, record)| KnownWorker {
                worker: key.worker.0,
                record,
                wait_ms: ms_until_free(context, layout, tick, record),
            });
        let known: Vec<KnownWorker<'_>> = known.collect();
        let mut groups = groups(&known, (first.0, last.0), group_size(layout));
        let mut reserved = 0;
        if asked.tenant != Tenant::OPERATOR && !is_out!(WorkersKeptForNodes) {
            groups.retain(|group| {
                let is_reserved = group.is_reserved();
                reserved += u32::from(is_reserved) * reserve(group.workers());
                !is_reserved
            });
        }
        let free = groups.iter().flat_map(|group| group.known);
        let own = free.filter(|one| {
            one.is_free() && one.record.owner == asked.owner && one.record.node == asked.node
        });
        if let Some(own) = own.max_by_key(|one| one.latest_use()) {
            return Ok(WorkerId(own.worker));
        }
        // Records are never removed, and this function examines all of them.
        let is_room = known.len() < MAX_WORKERS_KNOWN;
        groups.sort_by_key(Group::taken);
        let unused = groups.iter().filter(|_| is_room).find_map(Group::unused);
        let worker = unused.or_else(|| groups.iter().find_map(Group::oldest));
        worker.map(WorkerId).ok_or_else(|| {
            let taken = known.iter().filter(|one| !one.is_free());
            let ends = taken.filter(|one| reserved == 0 || one.is_of_client());
            WorkerRefusal::WorkersExhausted {
                layout: asked.layout.clone(),
                datacenter: asked.datacenter,
                retry_after_ms: ends.map(|one| one.wait_ms).min().unwrap_or(u64::MAX),
                reserved,
            }
        })
    }
}

fn candidates(
    layout: &Layout,
    datacenter: Option<u32>,
) -> Result<(WorkerId, WorkerId), WorkerRefusal> {
    let Some(datacenter) = datacenter else {
        return Ok((WorkerId(0), WorkerId(layout.workers() - 1)));
    };
    layout.workers_of_datacenter(datacenter).ok_or_else(|| {
        let bits = layout.spec().datacenter_bits;
        let datacenters = if bits == 0 { 0 } else { 1 << bits };
        WorkerRefusal::UnknownDatacenter {
            layout: layout.name().to_owned(),
            datacenter,
            datacenters,
        }
    })
}
