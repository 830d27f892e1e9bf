//! The generator: mints IDs of one worker of one layout within one window of ticks.
//!
//! This is the fast path of the whole system: no lock, no allocation, and one compare-and-swap for
//! a batch of any size. It never waits and never reads a clock. It returns *ready*, *wait* or
//! *refused*, and the caller sleeps. The caller extends the fence only after the new fence was
//! committed.

mod chunked;
mod cursor;
#[cfg(test)]
mod interleavings;
mod run;
mod word;

use std::sync::atomic::AtomicU64;

pub use chunked::{Chunked, MintOne};
pub use run::{IdRun, IdRunIter};

use crate::layout::{Layout, WorkerId};
use crate::policy::ClockPolicy;
use crate::time::{Tick, WallMs};
use cursor::{Cursor, Rules};

/// The result of a request for IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mint {
    /// IDs in increasing order, all of one tick. There may be fewer than requested; request the
    /// rest again.
    Ready(IdRun),
    /// No ID is available yet. Read the clock and request again after this many milliseconds (at
    /// least 1).
    Wait {
        /// The duration in milliseconds.
        ms: u64,
    },
    /// No ID is available, and a short wait would not help.
    Refused(Refusal),
}

impl Mint {
    /// Returns whether a second reading of the clock may change the result: the reading may be
    /// older than that of another thread, because this thread was stopped after it.
    #[must_use]
    pub const fn may_be_stale(&self) -> bool {
        matches!(
            self,
            Self::Wait { .. } | Self::Refused(Refusal::ClockBehind { .. } | Refusal::NotYet { .. })
        )
    }
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The clock is behind the last tick by more than the tolerance.
    #[error("the clock is {by_ms} ms behind the last tick used")]
    ClockBehind {
        /// The difference in milliseconds.
        by_ms: u64,
        /// The clock reading from which IDs are minted again.
        until: WallMs,
    },
    /// The clock has reached the end of the window.
    #[error("the window ends at tick {}", .fence.0)]
    FenceReached {
        /// The exclusive end of the window.
        fence: Tick,
    },
    /// The time field of the layout is full. This is permanent.
    #[error("the layout's time field is full")]
    TimeFull,
    /// The clock is before the layout's epoch.
    #[error("the clock is before the layout's epoch")]
    BeforeEpoch,
    /// Nothing has been minted yet, and the window begins later than the tolerance covers.
    #[error("the window begins in {ms} ms")]
    NotYet {
        /// The milliseconds until the window begins.
        ms: u64,
        /// The first tick of the window.
        from: Tick,
    },
    /// The generator was closed. This is permanent.
    #[error("the generator is closed")]
    Closed,
}

/// The reason why a generator cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// The layout does not have this worker.
    #[error("worker {} is not below {workers}", .worker.0)]
    Worker {
        /// The requested worker.
        worker: WorkerId,
        /// The number of workers.
        workers: u32,
    },
    /// The window begins after the end of the time field.
    #[error("the window begins at tick {}, past the last, {}", .from.0, .max.0)]
    Window {
        /// The requested first tick.
        from: Tick,
        /// The last tick of the layout.
        max: Tick,
    },
}

/// Mints the IDs of one lease. Any number of threads may share it by reference.
///
/// Invariants:
/// 1. Each (tick, sequence) is returned at most once, whatever the clock and the threads do.
/// 2. IDs are returned in strictly increasing (tick, sequence) order: a result that was returned
///    before another request was made contains smaller IDs.
/// 3. Every tick is in `[from_tick, fence)`, for a fence that was set before the result was
///    returned, and not after the last tick of the layout.
/// 4. With [`OnRollback::Refuse`](crate::OnRollback) no tick is after the reading of its request.
/// 5. After `close` nothing is minted, and `close` returns the last minted tick.
///
/// Create exactly one generator per lease: two generators would mint the same IDs.
#[derive(Debug)]
pub struct Generator {
    layout: Layout,
    cursor: Cursor<AtomicU64>,
}

impl Generator {
    /// Creates a generator for the window `[from_tick, fence)` with the default [`ClockPolicy`].
    ///
    /// `seed` varies the first sequence of each tick if the layout draws it. Give each generator
    /// its own seed. Uniqueness does not depend on it.
    pub fn new(
        layout: Layout,
        worker: WorkerId,
        from_tick: Tick,
        fence: Tick,
        seed: u64,
    ) -> Result<Self, GeneratorError> {
        if worker.0 >= layout.workers() {
            return Err(GeneratorError::Worker {
                worker,
                workers: layout.workers(),
            });
        }
        let max = layout.max_tick();
        // A window that follows a completely used time field begins one past the last tick. It
        // mints nothing.
        if from_tick.0 > max.0 + 1 {
            return Err(GeneratorError::Window {
                from: from_tick,
                max,
            });
        }
        let rules = Rules::new(&layout, worker, from_tick, seed, ClockPolicy::default());
        Ok(Self {
            layout,
            cursor: Cursor::new(rules, fence),
        })
    }

    /// Sets other limits on the clock. Call it before the generator is shared.
    #[must_use]
    pub fn with_policy(mut self, policy: ClockPolicy) -> Self {
        self.cursor.set_policy(policy);
        self
    }

    /// Takes up to `count` IDs for the clock reading `now`. A count of 0 takes none and otherwise
    /// returns the same as a count of 1.
    ///
    /// A reading older than one with which another thread has already minted is treated as a clock
    /// that is behind: the result is a short wait.
    pub fn mint(&self, now: WallMs, count: u32) -> Mint {
        self.cursor.mint(now, count)
    }

    /// Raises the fence after the new one was committed. A lower fence has no effect.
    pub fn extend(&self, fence: Tick) {
        self.cursor.extend(fence);
    }

    /// Permanently stops minting. Returns the last tick minted by any thread, or `None` if nothing
    /// was minted. A second call returns the same.
    pub fn close(&self) -> Option<Tick> {
        self.cursor.close()
    }

    /// Returns the last minted tick, or `None` if nothing was minted.
    pub fn last_tick(&self) -> Option<Tick> {
        self.cursor.last_tick()
    }

    /// Returns the exclusive end of the window.
    pub fn fence(&self) -> Tick {
        self.cursor.fence()
    }

    /// Returns the first tick of the window.
    pub fn first_tick(&self) -> Tick {
        self.cursor.first_tick()
    }

    /// Returns whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Returns the worker.
    pub fn worker(&self) -> WorkerId {
        self.cursor.worker()
    }

    /// Returns the layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
