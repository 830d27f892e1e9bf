//! Worker leases: who may mint with which worker, and up to which tick.
//!
//! The fence alone makes IDs unique. Each grant of a worker starts at or above the fence of the
//! grant before it, so two holders can never mint the same (worker, tick), even if both act as its
//! holder. Liveness, by cluster time, only decides whether a worker may be granted again.
//!
//! Invariants of each worker, over all entries ever applied:
//! - a grant's `from_tick` is at or above the fence of the grant before it, and at or above the
//!   tick of its entry's wall clock;
//! - a fence falls only by its own lease's release, and then to no less than what was minted;
//! - a fence never lies above `tick(wall clock + window + 2 * max_peer_skew) + 1` of the entry
//!   that raised it: a clock that jumped forward cannot use up future ticks;
//! - the worker of a live lease is not granted.

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, TickError, WallMs, WorkerId};

use crate::cluster::settings::{Counter, draw};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::domains::Refusal;
use crate::level::Level;
use crate::newtypes::{ClusterMs, LeaseId};
use crate::table::Table;
use crate::tenant::Tenant;
use crate::workers::commands::{
    Holder, LeaseGrant, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
use crate::workers::past::Past;
use crate::workers::record::{WorkerKey, WorkerRecord, is_live};

/// The most workers of a layout, or of one of its datacenters, that are ever leased: beyond it those
/// that are free are leased again. Each lease looks at all of them, which takes a millisecond.
const MAX_WORKERS_KNOWN: usize = 1 << 14;

/// The workers out of so many that clients leave to the nodes and the operator: an eighth, and 3 at
/// least, so that each node of a usual cluster gets one. Of a small layout one: with 3 nothing would
/// be left for clients. The workers of a layout of 3 or fewer go to who comes first.
const fn reserve(workers: u32) -> u32 {
    match workers {
        0..4 => 0,
        4..8 => 1,
        8..24 => 3,
        workers => workers / 8,
    }
}

impl Table<WorkerRecord> {
    /// `past` is there from the level on that keeps leases that are over.
    pub(crate) fn apply(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        past: Option<Past<'_>>,
        context: &ApplyContext<'_>,
        command: &WorkerCommand,
    ) -> Result<WorkerOutcome, Refusal> {
        command.check()?;
        let key = |layout: &String, worker: &WorkerId| WorkerKey {
            layout: layout.clone(),
            worker: *worker,
        };
        match command {
            WorkerCommand::TakeLease(asked) => self.take(counter, deadlines, past, context, asked),
            WorkerCommand::ExtendLease {
                layout,
                worker,
                lease,
                fence,
            } => self.extend(deadlines, context, &key(layout, worker), (*lease, *fence)),
            WorkerCommand::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            } => self.release(
                deadlines,
                context,
                &key(layout, worker),
                (*lease, *last_tick),
            ),
        }
    }

    fn take(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        past: Option<Past<'_>>,
        context: &ApplyContext<'_>,
        asked: &TakeLease,
    ) -> Result<WorkerOutcome, Refusal> {
        if let Some(node) = asked.node {
            context.nodes.check_start(node, asked.boot)?;
        }
        let layout = context.layout(&asked.layout)?;
        let tick = context.tick(layout)?;
        context.check_restoration(layout, tick)?;
        context.check_fence(layout, asked.fence)?;
        let key = WorkerKey {
            layout: asked.layout.clone(),
            worker: self.choose(context, layout, tick, asked)?,
        };
        let before = self.get(&key);
        let fence_before = before.map_or(Tick(0), |record| record.fence);
        let from_tick = if is_out!(WindowAboveFence) {
            tick
        } else {
            tick.max(fence_before)
        };
        if asked.fence <= from_tick {
            return Err(WorkerRefusal::FenceTooLow {
                asked: asked.fence,
                from_tick,
            }
            .into());
        }
        if let (Some(mut past), Some(before)) = (past, before) {
            past.keep(&key, before, |layout, tick| context.wall_at(layout, tick));
        }
        let lease = LeaseId(draw(counter));
        let record = WorkerRecord {
            tenant: asked.tenant,
            lease,
            owner: asked.owner.clone(),
            node: asked.node,
            boot: asked.boot,
            from_tick,
            fence: asked.fence,
            taken_wall_ms: context.wall_ms,
            used_ms: context.cluster_ms,
            released: false,
        };
        deadlines.insert::<WorkerRecord>(context.expiry(layout, context.cluster_ms), &key);
        let grant = LeaseGrant {
            layout: asked.layout.clone(),
            worker: key.worker,
            lease,
            from_tick,
            fence: asked.fence,
        };
        self.put(key, record);
        Ok(WorkerOutcome::LeaseTaken(grant))
    }

    /// The worker for a new lease: the owner's last one, else one that was never used, else the one
    /// whose use lies back furthest; each only if it is free and its fence has passed.
    fn choose(
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
        let mut next_unused = first;
        let mut own: Option<((ClusterMs, LeaseId), WorkerId)> = None;
        let mut oldest: Option<((ClusterMs, LeaseId), WorkerId)> = None;
        let mut retry_after_ms = u64::MAX;
        let mut known = 0;
        let (mut of_clients, mut client_ends_ms) = (0, u64::MAX);
        for (WorkerKey { worker, .. }, record) in self.range(key(first)..=key(last)) {
            known += 1;
            if *worker == next_unused {
                next_unused = WorkerId(worker.0.saturating_add(1));
            }
            let wait_ms = wait_until_free(context, layout, tick, record);
            if wait_ms > 0 {
                retry_after_ms = retry_after_ms.min(wait_ms);
                if record.tenant != Tenant::OPERATOR {
                    of_clients += 1;
                    client_ends_ms = client_ends_ms.min(wait_ms);
                }
                continue;
            }
            let use_of = ((record.used_ms, record.lease), *worker);
            if record.owner == asked.owner && record.node == asked.node {
                own = own.max(Some(use_of));
            }
            oldest = Some(oldest.map_or(use_of, |oldest| oldest.min(use_of)));
        }
        let workers = (last.0 - first.0 + 1).min(MAX_WORKERS_KNOWN as u32);
        let reserved = reserve(workers);
        if asked.tenant != Tenant::OPERATOR
            && of_clients + reserved >= workers
            && reserved > 0
            && !is_out!(WorkersKeptForNodes)
        {
            return Err(WorkerRefusal::WorkersExhausted {
                layout: asked.layout.clone(),
                datacenter: asked.datacenter,
                retry_after_ms: client_ends_ms,
                reserved,
            });
        }
        // A record is never removed, and each is looked at here.
        let is_room = known < MAX_WORKERS_KNOWN || context.level < Level::LAYOUTS;
        let unused = (next_unused <= last && is_room).then_some(next_unused);
        let own = own.map(|(_, worker)| worker);
        let oldest = oldest.map(|(_, worker)| worker);
        own.or(unused)
            .or(oldest)
            .ok_or_else(|| WorkerRefusal::WorkersExhausted {
                layout: asked.layout.clone(),
                datacenter: asked.datacenter,
                retry_after_ms,
                reserved: 0,
            })
    }

    fn extend(
        &mut self,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        key: &WorkerKey,
        (lease, fence): (LeaseId, Tick),
    ) -> Result<WorkerOutcome, Refusal> {
        let layout = context.layout(&key.layout)?;
        let record = self.held(context, key, lease)?;
        if let Some(node) = record.node {
            context.nodes.check_start(node, record.boot)?;
        }
        context.tick(layout)?;
        context.check_fence(layout, fence)?;
        let used_before = record.used_ms;
        let fence = if is_out!(ExtendRaises) {
            fence
        } else {
            record.fence.max(fence)
        };
        if let Some(record) = self.get_mut(key) {
            record.fence = fence;
            record.used_ms = context.cluster_ms;
        }
        deadlines.remove::<WorkerRecord>(context.expiry(layout, used_before), key);
        deadlines.insert::<WorkerRecord>(context.expiry(layout, context.cluster_ms), key);
        Ok(WorkerOutcome::LeaseExtended { fence })
    }

    fn release(
        &mut self,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        key: &WorkerKey,
        (lease, last_tick): (LeaseId, Option<Tick>),
    ) -> Result<WorkerOutcome, Refusal> {
        let layout = context.layout(&key.layout)?;
        let record = self.held(context, key, lease)?;
        let (from_tick, fence) = (record.from_tick, record.fence);
        let new_fence = match last_tick {
            None => fence,
            Some(last_tick) => {
                let after = Tick(last_tick.0.saturating_add(1));
                if (after < from_tick || after > fence) && !is_out!(ReleaseInWindow) {
                    return Err(WorkerRefusal::ReleaseOutsideWindow {
                        last_tick,
                        from_tick,
                        fence,
                    }
                    .into());
                }
                after
            }
        };
        deadlines.remove::<WorkerRecord>(context.expiry(layout, record.used_ms), key);
        if let Some(record) = self.get_mut(key) {
            record.fence = new_fence;
            record.used_ms = context.cluster_ms;
            record.released = true;
        }
        Ok(WorkerOutcome::LeaseReleased { fence: new_fence })
    }

    /// The record of a lease that is the worker's latest and not released. It need not be live: until
    /// the worker is granted again, its holder may extend it.
    fn held(
        &self,
        context: &ApplyContext<'_>,
        key: &WorkerKey,
        lease: LeaseId,
    ) -> Result<&WorkerRecord, WorkerRefusal> {
        let record = self.get(key);
        let is_latest = |record: &WorkerRecord| record.lease == lease || is_out!(LeaseCompared);
        if let Some(record) = record.filter(|record| is_latest(record) && !record.released) {
            return Ok(record);
        }
        let layout = context.layout(&key.layout)?;
        let live = record.filter(|record| is_live(context, layout, record));
        Err(WorkerRefusal::LeaseLost {
            layout: key.layout.clone(),
            worker: key.worker,
            lease,
            holder: live.map(|record| Box::new(Holder::of(record))),
        })
    }
}

impl<'a> ApplyContext<'a> {
    fn layout(&self, name: &str) -> Result<&'a Layout, WorkerRefusal> {
        self.layouts
            .named(name)
            .ok_or_else(|| WorkerRefusal::UnknownLayout {
                layout: name.to_owned(),
            })
    }

    /// When a tick begins; the beginning of all time where there is no such layout.
    fn wall_at(&self, layout: &str, tick: Tick) -> WallMs {
        let layout = self.layouts.named(layout);
        layout.map_or(WallMs(0), |layout| layout.wall_at(tick))
    }

    fn tick(&self, layout: &Layout) -> Result<Tick, WorkerRefusal> {
        layout.tick_at(self.wall_ms).map_err(|error| match error {
            TickError::BeforeEpoch => WorkerRefusal::BeforeLayoutEpoch {
                layout: layout.name().to_owned(),
                epoch_ms: layout.spec().epoch_ms,
                wall_ms: self.wall_ms,
            },
            TickError::TimeFull => WorkerRefusal::LayoutExhausted {
                layout: layout.name().to_owned(),
                since: layout.exhausted_at(),
            },
        })
    }

    /// Refuses a fence above the bound in the invariants.
    fn check_fence(&self, layout: &Layout, asked: Tick) -> Result<(), WorkerRefusal> {
        let reach_ms = self.settings.fence_reach_ms(layout);
        let limit = layout.fence_at(WallMs(self.wall_ms.0.saturating_add(reach_ms)));
        if asked > limit && !is_out!(FenceReach) {
            return Err(WorkerRefusal::FenceTooFar { asked, limit });
        }
        Ok(())
    }

    /// Refuses a lease before the windows of a restored cluster begin.
    fn check_restoration(&self, layout: &Layout, tick: Tick) -> Result<(), WorkerRefusal> {
        let Some(restored) = self.restoration else {
            return Ok(());
        };
        let from = restored.windows_from(self.settings, layout);
        if tick >= from || is_out!(RestorationDelaysWindows) {
            return Ok(());
        }
        let until = layout.wall_at(from);
        Err(WorkerRefusal::WindowsBeginLater {
            layout: layout.name().to_owned(),
            until,
            retry_after_ms: until.0.saturating_sub(self.wall_ms.0).max(1),
        })
    }
}

/// The workers that may be chosen, first and last.
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

/// Milliseconds until the worker can be granted.
fn wait_until_free(
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
        layout
            .wall_at(record.fence)
            .0
            .saturating_sub(context.wall_ms.0)
            .max(1)
    } else {
        0
    };
    live_ms.max(fence_ms)
}

#[cfg(test)]
mod tests;
