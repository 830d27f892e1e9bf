//! The queue of requests that wait for IDs of future ticks. They are served in the order of
//! arrival, each completely.
//!
//! Without a queue, all requests would share each tick, and all would miss their deadlines with
//! only a part of their IDs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqd_idgen::Layout;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::MintError;
use super::tick_timer::TickTimer;
use crate::times::millis;

#[derive(Debug)]
pub(super) struct Line {
    /// The number of IDs that the queued requests wait for.
    ids: AtomicU64,
    /// Fair: the request that has waited longest acquires it.
    turn: Mutex<TickTimer>,
    /// The number of IDs per tick.
    per_tick: u64,
    tick_ms: u64,
}

/// A place in the queue. Dropping it, also when its caller is cancelled, leaves the queue.
#[derive(Debug)]
pub(super) struct QueuePlace<'a> {
    line: &'a Line,
    ids: u64,
}

/// The right to take IDs of future ticks.
#[derive(Debug)]
pub(super) struct TickTurn<'a> {
    _place: QueuePlace<'a>,
    /// Sleeps until the next tick. Only the holder of the turn sleeps, so one timer is enough.
    pub(super) timer: MutexGuard<'a, TickTimer>,
}

impl Line {
    pub(super) fn of(layout: &Layout) -> Line {
        Line {
            ids: AtomicU64::new(0),
            turn: Mutex::default(),
            per_tick: u64::from(layout.sequences()),
            tick_ms: layout.spec().tick_ms.into(),
        }
    }

    pub(super) fn per_tick(&self) -> u64 {
        self.per_tick
    }

    pub(super) fn is_waited_in(&self) -> bool {
        self.waited_for() > 0
    }

    /// The number of IDs that the queued requests wait for.
    pub(super) fn waited_for(&self) -> u64 {
        self.ids.load(Ordering::Relaxed)
    }

    /// The time in which `ids` IDs are minted.
    fn ms_of(&self, ids: u64) -> u64 {
        ids.div_ceil(self.per_tick).saturating_mul(self.tick_ms)
    }

    /// The error for a queue that is too long.
    pub(super) fn crowded(&self) -> MintError {
        self.crowded_by(self.waited_for())
    }

    fn crowded_by(&self, ids: u64) -> MintError {
        let ms = self.ms_of(ids);
        MintError::Crowded { ids, ms }
    }

    /// Refuses a request whose own IDs cannot be minted before `deadline`. The first of its IDs may
    /// be of the current tick.
    pub(super) fn check(&self, count: u32, deadline: Instant) -> Result<(), MintError> {
        let ids = u64::from(count);
        // The IDs of one tick, as in most requests, need no reading of the clock.
        if ids <= self.per_tick || !self.is_late(ids, deadline) {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let ticks = 1 + millis(left) / self.tick_ms;
        Err(MintError::TooMany {
            ids,
            ms: self.ms_of(ids),
            limit: ticks.saturating_mul(self.per_tick),
        })
    }

    /// Joins the end of the queue. Refused if the IDs of the earlier requests and its own cannot be
    /// minted before `deadline`.
    pub(super) fn join(&self, count: u32, deadline: Instant) -> Result<QueuePlace<'_>, MintError> {
        let ids = u64::from(count);
        let before = self.ids.fetch_add(ids, Ordering::Relaxed);
        let place = QueuePlace { line: self, ids };
        if self.is_late(before + ids, deadline) {
            return Err(self.crowded_by(before));
        }
        Ok(place)
    }

    fn is_late(&self, ids: u64, deadline: Instant) -> bool {
        let ms = self.ms_of(ids).saturating_sub(self.tick_ms);
        Instant::now() + Duration::from_millis(ms) > deadline
    }
}

impl<'a> QueuePlace<'a> {
    pub(super) async fn turn(self) -> TickTurn<'a> {
        TickTurn {
            timer: self.line.turn.lock().await,
            _place: self,
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.line.ids.fetch_sub(self.ids, Ordering::Relaxed);
    }
}
