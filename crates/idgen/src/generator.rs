//! The generator: mints IDs of one worker of one layout inside one window of ticks.
//!
//! It is the fast path of the whole system: no lock, no allocation, one compare-and-swap for a
//! batch of any size. It never waits and never reads a clock: it answers *ready*, *wait* or
//! *refused*, and the caller sleeps. The caller extends the fence only after it was
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

/// The answer to a request for IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mint {
    /// IDs, in order, all of one tick; perhaps fewer than asked: ask again for the rest.
    Ready(IdRun),
    /// Nothing yet: read the clock again and ask again after this many milliseconds (at least 1).
    Wait {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// No IDs, and waiting a moment would not help.
    Refused(Refusal),
}

/// Why a generator refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The clock is behind the last tick by more than the tolerance.
    #[error("the clock is {by_ms} ms behind the last tick used")]
    ClockBehind {
        /// By how many milliseconds.
        by_ms: u64,
        /// The clock reading from which on it serves again.
        until: WallMs,
    },
    /// The clock has reached the end of the window.
    #[error("the window ends at tick {}", .fence.0)]
    FenceReached {
        /// The exclusive end of the window.
        fence: Tick,
    },
    /// The layout's time field is full. It stays so.
    #[error("the layout's time field is full")]
    TimeFull,
    /// The clock stands before the layout's epoch.
    #[error("the clock stands before the layout's epoch")]
    BeforeEpoch,
    /// Nothing was minted yet and the window begins later than the tolerance covers.
    #[error("the window begins in {ms} ms")]
    NotYet {
        /// In how many milliseconds it begins.
        ms: u64,
        /// Its first tick.
        from: Tick,
    },
    /// The generator was closed. It stays so.
    #[error("the generator is closed")]
    Closed,
}

/// Why a generator cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// The layout has no such worker.
    #[error("worker {} is not below {workers}", .worker.0)]
    Worker {
        /// The worker as asked.
        worker: WorkerId,
        /// How many there are.
        workers: u32,
    },
    /// The window begins past the end of the time field.
    #[error("the window begins at tick {}, past the last, {}", .from.0, .max.0)]
    Window {
        /// The first tick as asked.
        from: Tick,
        /// The last tick of the layout.
        max: Tick,
    },
}

/// Mints the IDs of one lease. Shared by reference between any number of threads.
///
/// Invariants:
/// 1. Each (tick, sequence) is handed out at most once, whatever the clock and the threads do.
/// 2. IDs are handed out in strictly increasing (tick, sequence) order: an answer that was given
///    before another request was made holds smaller ones.
/// 3. Every tick is in `[from_tick, fence)`, by a fence that was given before the answer, and not
///    above the layout's last.
/// 4. Under [`OnRollback::Refuse`](crate::OnRollback) no tick is above the reading it was asked with.
/// 5. After `close` nothing is minted, and the tick that `close` returned is the last one minted.
///
/// Make one generator per lease, ever: two of them would mint the same IDs.
#[derive(Debug)]
pub struct Generator {
    layout: Layout,
    cursor: Cursor<AtomicU64>,
}

impl Generator {
    /// A generator for the window `[from_tick, fence)`, with the default [`ClockPolicy`].
    ///
    /// `seed` varies the first sequence of each tick where the layout draws it; give each
    /// generator its own. It has no part in uniqueness.
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
        // One past the last tick is what follows a window that reached the end: it mints nothing.
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

    /// The same generator with other limits on the clock; for use before it is shared.
    #[must_use]
    pub fn with_policy(mut self, policy: ClockPolicy) -> Self {
        self.cursor.set_policy(policy);
        self
    }

    /// Takes up to `count` IDs for a clock reading of `now`. A count of 0 takes none and answers
    /// like a count of 1 otherwise.
    ///
    /// A reading that is older than one with which another thread has minted meanwhile is a clock
    /// that is behind like any other: the answer is a short wait.
    pub fn mint(&self, now: WallMs, count: u32) -> Mint {
        self.cursor.mint(now, count)
    }

    /// Raises the fence, once the new one is committed. A lower one changes nothing.
    pub fn extend(&self, fence: Tick) {
        self.cursor.extend(fence);
    }

    /// Ends the minting for good. The last tick minted, by any thread; `None` if nothing was.
    /// The same answer again if it was closed before.
    pub fn close(&self) -> Option<Tick> {
        self.cursor.close()
    }

    /// The last tick minted so far; `None` if nothing was.
    pub fn last_tick(&self) -> Option<Tick> {
        self.cursor.last_tick()
    }

    /// The exclusive end of the window.
    pub fn fence(&self) -> Tick {
        self.cursor.fence()
    }

    /// The first tick of the window.
    pub fn first_tick(&self) -> Tick {
        self.cursor.first_tick()
    }

    /// Whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// The worker.
    pub fn worker(&self) -> WorkerId {
        self.cursor.worker()
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
