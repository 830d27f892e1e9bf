//! Chunks: let one thread take single IDs from a shared generator without an atomic operation for
//! each.
//!
//! A chunk is a run of one tick, taken with one compare-and-swap like any batch. Each of its IDs
//! then costs a comparison and an addition.

use std::num::NonZeroU32;
use std::ops::Deref;

use super::{Generator, IdRunIter, Mint, Refusal};
use crate::id::SnowflakeId;
use crate::time::WallMs;

/// The result of a request for one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MintOne {
    /// The ID.
    Ready(SnowflakeId),
    /// No ID is available yet. Read the clock and request again after this many milliseconds (at
    /// least 1).
    Wait {
        /// The duration in milliseconds.
        ms: u64,
    },
    /// No ID is available, and a short wait would not help.
    Refused(Refusal),
}

/// Returns the IDs of a generator one by one from its own chunk. Create one per thread, with a
/// reference of any kind to the shared generator: `&Generator` or `Arc<Generator>`.
///
/// Its order replaces the order of the generator:
/// 1. The IDs of one `Chunked` strictly increase.
/// 2. The IDs of several `Chunked` are ordered by tick, but not within a tick.
/// 3. With [`OnRollback::Refuse`](crate::OnRollback) the tick of an ID is the tick of the reading
///    of its request: when a reading is in a later tick, the rest of the chunk is discarded and its
///    IDs are skipped. A reading before the tick of the chunk is passed to the generator.
///
/// The IDs of a chunk count as minted when the chunk is taken. [`Generator::close`] therefore
/// returns a tick at or after that of every chunk, and the rest of a chunk may still be returned
/// after that.
///
/// The discarded rest of each chunk is lost for the other threads in its tick: choose `chunk` well
/// below [`Layout::sequences`](crate::Layout::sequences) divided by the number of threads.
#[derive(Debug)]
pub struct Chunked<G> {
    generator: G,
    chunk: NonZeroU32,
    ids: IdRunIter,
    /// The start of the chunk's tick and its length, in milliseconds.
    begins_ms: u64,
    lasts_ms: u64,
}

impl<G: Deref<Target = Generator>> Chunked<G> {
    /// Takes chunks of up to `chunk` IDs. Nothing is taken before the first request.
    pub fn new(generator: G, chunk: NonZeroU32) -> Self {
        Self {
            generator,
            chunk,
            ids: IdRunIter::empty(),
            begins_ms: 0,
            lasts_ms: 0,
        }
    }

    /// Returns one ID for the clock reading `now`. A reading may be reused for many requests while
    /// it is fresh.
    #[inline]
    pub fn mint(&mut self, now: WallMs) -> MintOne {
        let is_in_tick = now.0.wrapping_sub(self.begins_ms) < self.lasts_ms;
        if is_in_tick && let Some(id) = self.ids.next() {
            return MintOne::Ready(id);
        }
        self.mint_slowly(now)
    }

    #[cold]
    fn mint_slowly(&mut self, now: WallMs) -> MintOne {
        // A reading before the tick of the chunk takes no new chunk: in logical time, the next ID
        // is in this one.
        let is_behind = now.0 < self.begins_ms && self.ids.len() > 0;
        let count = if is_behind { 0 } else { self.chunk.get() };
        match self.generator.mint(now, count) {
            Mint::Ready(run) if !is_behind => {
                let layout = self.generator.layout();
                self.begins_ms = layout.wall_at(run.tick).0;
                self.lasts_ms = u64::from(layout.spec().tick_ms);
                self.ids = run.iter();
            }
            Mint::Ready(_) => {}
            Mint::Wait { ms } => return MintOne::Wait { ms },
            Mint::Refused(refusal) => return MintOne::Refused(refusal),
        }
        match self.ids.next() {
            Some(id) => MintOne::Ready(id),
            // A run with a requested count above zero has at least one ID.
            None => MintOne::Wait { ms: 1 },
        }
    }
}
