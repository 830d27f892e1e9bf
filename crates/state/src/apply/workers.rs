//! Worker leases: which holder may mint with which worker, and up to which tick.
//!
//! Uniqueness of IDs depends on the fence alone. Each grant of a worker starts at or above the
//! fence of the previous grant, so two holders can never mint the same (worker, tick), even if both
//! act as the lease holder. Liveness, by cluster time, only decides whether a worker may be granted
//! again.
//!
//! Invariants of each worker, over all entries ever applied:
//! - A grant's `from_tick` is at or above the fence of the previous grant, and at or above the tick
//!   of its entry's wall clock.
//! - A fence decreases only when its own lease is released, and never below the minted ticks.
//! - A fence is never above `tick(wall clock + window + 2 * max_peer_skew) + 1` of the entry that
//!   raised it, so a clock that jumped forward cannot use up future ticks.
//! - The worker of a live lease is not granted.
//! - A client's lease is not extended once its worker can be granted again: it no longer counts
//!   towards the share of its tenant. No share applies to the leases of nodes.

mod choice;

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, TickError, WallMs, WorkerId};

use crate::cluster::settings::{Counter, draw};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::domains::Refusal;
use crate::newtypes::LeaseId;
use crate::table::Table;
use crate::workers::commands::{
    Holder, LeaseGrant, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
use crate::workers::past::Past;
use crate::workers::record::{WorkerKey, WorkerRecord, is_live, ms_until_free};

impl Table<WorkerRecord> {
    pub(crate) fn apply(
        &mut self,
        counter: &mut Table<Counter>,
        deadlines: &mut Deadlines,
        past: Past<'_>,
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
        mut past: Past<'_>,
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
        if let Some(before) = before {
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
        let tick = context.tick(layout)?;
        if record.node.is_none() && ms_until_free(context, layout, tick, record) == 0 {
            return Err(lost(key, lease, None).into());
        }
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

    /// Returns the record of a lease if it is the worker's latest lease and not released. The lease
    /// need not be live.
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
        Err(lost(key, lease, live))
    }
}

/// The refusal of a lease that is not, or no longer, the worker's.
fn lost(key: &WorkerKey, lease: LeaseId, holder: Option<&WorkerRecord>) -> WorkerRefusal {
    WorkerRefusal::LeaseLost {
        layout: key.layout.clone(),
        worker: key.worker,
        lease,
        holder: holder.map(|record| Box::new(Holder::of(record))),
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

    /// Returns the time at which a tick begins, or 0 if the layout does not exist.
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

    /// Refuses a fence above the limit stated in the invariants.
    fn check_fence(&self, layout: &Layout, asked: Tick) -> Result<(), WorkerRefusal> {
        let reach_ms = self.settings.fence_reach_ms(layout);
        let limit = layout.fence_at(WallMs(self.wall_ms.0.saturating_add(reach_ms)));
        if asked > limit && !is_out!(FenceReach) {
            return Err(WorkerRefusal::FenceTooFar { asked, limit });
        }
        Ok(())
    }

    /// Refuses a lease until the windows of a restored cluster begin.
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

#[cfg(test)]
mod tests;
