//! Who waits for IDs of ticks to come: they are served in the order in which they came, each whole.
//!
//! Without a line all would share each tick, and all would miss their deadlines with a part each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqd_idgen::Layout;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::MintError;
use super::tick_timer::TickTimer;

#[derive(Debug)]
pub(super) struct Line {
    /// IDs that those in line wait for.
    ids: AtomicU64,
    /// Fair: it goes to whoever has waited for longest.
    turn: Mutex<TickTimer>,
    /// IDs that a tick has.
    per_tick: u64,
    tick_ms: u64,
}

/// A place in line; dropped, also by a caller that goes away, it is left.
#[derive(Debug)]
pub(super) struct Place<'a> {
    line: &'a Line,
    ids: u64,
}

/// The right to take IDs of ticks to come.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _place: Place<'a>,
    /// For the sleep to the next tick: one at a time sleeps for it, so that one timer is enough.
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

    /// IDs that those in line wait for.
    pub(super) fn waited_for(&self) -> u64 {
        self.ids.load(Ordering::Relaxed)
    }

    /// How long it takes until so many IDs were made.
    fn ms_of(&self, ids: u64) -> u64 {
        ids.div_ceil(self.per_tick).saturating_mul(self.tick_ms)
    }

    /// Too many IDs are waited for.
    pub(super) fn crowded(&self) -> MintError {
        let ids = self.waited_for();
        let ms = self.ms_of(ids);
        MintError::Crowded { ids, ms }
    }

    /// A place at the end; a refusal where the IDs of those before and its own come after `deadline`. Its
    /// first IDs may be of the present tick.
    pub(super) fn join(&self, count: u32, deadline: Instant) -> Result<Place<'_>, MintError> {
        let ids = u64::from(count);
        let before = self.ids.fetch_add(ids, Ordering::Relaxed);
        let place = Place { line: self, ids };
        let ms = self.ms_of(before + ids).saturating_sub(self.tick_ms);
        if Instant::now() + Duration::from_millis(ms) > deadline {
            drop(place);
            return Err(self.crowded());
        }
        Ok(place)
    }
}

impl<'a> Place<'a> {
    pub(super) async fn turn(self) -> Turn<'a> {
        Turn {
            timer: self.line.turn.lock().await,
            _place: self,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.ids.fetch_sub(self.ids, Ordering::Relaxed);
    }
}
