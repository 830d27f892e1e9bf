//! Which worker a new lease gets.

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, WorkerId};

use crate::context::ApplyContext;
use crate::newtypes::{ClusterMs, LeaseId};
use crate::table::Table;
use crate::tenant::Tenant;
use crate::workers::commands::{TakeLease, WorkerRefusal};
use crate::workers::record::{WorkerKey, WorkerRecord, ms_until_free};

/// The most workers of a layout, or of one of its datacenters, that are ever leased: beyond it those
/// that are free are leased again. Each lease looks at all of them, which takes a millisecond.
const MAX_WORKERS_KNOWN: usize = 1 << 14;

/// The workers out of so many that clients leave to the nodes and the operator: an eighth, and 3 at
/// least, so that each node of a usual cluster gets one. Of a small layout one: with 3 nothing would
/// be left for clients. The workers of a layout of 3 or fewer go to who comes first.
pub(super) const fn reserve(workers: u32) -> u32 {
    match workers {
        0..4 => 0,
        4..8 => 1,
        8..24 => 3,
        workers => workers / 8,
    }
}

/// A worker that was leased before.
struct Known<'a> {
    worker: u32,
    record: &'a WorkerRecord,
    /// Until it can be granted; 0 if it is free.
    wait_ms: u64,
}

impl Known<'_> {
    fn is_free(&self) -> bool {
        self.wait_ms == 0
    }

    /// Its latest use, in the order of all uses.
    fn latest_use(&self) -> (ClusterMs, LeaseId) {
        (self.record.used_ms, self.record.lease)
    }

    fn is_of_client(&self) -> bool {
        self.record.tenant != Tenant::OPERATOR
    }
}

/// Workers among which clients leave some to the nodes: those of a datacenter, or of a layout that
/// has none.
struct Group<'a> {
    first: u32,
    size: u32,
    /// In the order of their numbers.
    known: &'a [Known<'a>],
}

impl Group<'_> {
    fn taken(&self) -> usize {
        self.known.iter().filter(|one| !one.is_free()).count()
    }

    /// The most workers of it that are ever leased.
    fn workers(&self) -> u32 {
        self.size.min(MAX_WORKERS_KNOWN as u32)
    }

    /// Whether clients have all that they may have of it.
    fn is_reserved(&self) -> bool {
        let taken = self.known.iter().filter(|one| !one.is_free());
        let of_clients = taken.filter(|one| one.is_of_client()).count() as u32;
        let reserved = reserve(self.workers());
        reserved > 0 && of_clients + reserved >= self.workers()
    }

    /// The lowest worker that was never leased.
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

    /// The free one whose use lies back furthest.
    fn oldest(&self) -> Option<u32> {
        let free = self.known.iter().filter(|one| one.is_free());
        free.min_by_key(|one| one.latest_use())
            .map(|one| one.worker)
    }
}

/// The groups of the workers from `first` to `last`, each of `size`: those of which some are known, and
/// the first of the others.
fn groups<'a>(known: &'a [Known<'a>], (first, last): (u32, u32), size: u32) -> Vec<Group<'a>> {
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
    /// The worker for a new lease: the owner's last one, else one that was never used, else the one
    /// whose use lies back furthest; each only if it is free and its fence has passed. Without a
    /// datacenter it is of the one with most that are not taken: a client that names none leaves
    /// some in each.
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
            .map(|(key, record)| Known {
                worker: key.worker.0,
                record,
                wait_ms: ms_until_free(context, layout, tick, record),
            });
        let known: Vec<Known<'_>> = known.collect();
        let of_first = layout.workers_of_datacenter(0);
        let size = of_first.map_or(layout.workers(), |(first, last)| last.0 - first.0 + 1);
        let mut groups = groups(&known, (first.0, last.0), size);
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
        // A record is never removed, and each is looked at here.
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
