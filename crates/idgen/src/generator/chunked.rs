//! Chunks: how one thread takes single IDs from a shared generator without an atomic for each.
//!
//! A chunk is a run of one tick, taken with one compare-and-swap like any batch; its IDs are then
//! handed out with a comparison and an addition each.

use std::num::NonZeroU32;
use std::ops::Deref;

use super::{Generator, IdRunIter, Mint, Refusal};
use crate::id::SnowflakeId;
use crate::time::WallMs;

/// The answer to a request for one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MintOne {
    /// The ID.
    Ready(SnowflakeId),
    /// Nothing yet: read the clock again and ask again after this many milliseconds (at least 1).
    Wait {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// No ID, and waiting a moment would not help.
    Refused(Refusal),
}

/// Hands out a generator's IDs one by one, from a chunk of its own. One for each thread, with a
/// reference of any kind to the generator that they share: `&Generator` or `Arc<Generator>`.
///
/// Order, in the place of the generator's own:
/// 1. The IDs of one `Chunked` strictly increase.
/// 2. Those of several are in the order of their ticks, and in none within a tick.
/// 3. Under [`OnRollback::Refuse`](crate::OnRollback) an ID's tick is that of the reading that it was
///    asked with: what is left of a chunk is dropped, and stays a gap, once a reading is in a later
///    tick. A reading before the chunk's tick is answered by the generator, as ever.
///
/// What is in a chunk counts as minted when the chunk is taken: the tick that
/// [`Generator::close`] returns is at or above that of every chunk, and what is left of one may still
/// be handed out after it.
///
/// Each chunk costs the others of its tick as many IDs as are left of it: choose `chunk` well below
/// [`Layout::sequences`](crate::Layout::sequences) divided by the number of threads.
#[derive(Debug)]
pub struct Chunked<G> {
    generator: G,
    chunk: NonZeroU32,
    ids: IdRunIter,
    /// When the chunk's tick begins and how long it lasts, in milliseconds.
    begins_ms: u64,
    lasts_ms: u64,
}

impl<G: Deref<Target = Generator>> Chunked<G> {
    /// Takes chunks of up to so many IDs; nothing before the first request.
    pub fn new(generator: G, chunk: NonZeroU32) -> Self {
        Self {
            generator,
            chunk,
            ids: IdRunIter::empty(),
            begins_ms: 0,
            lasts_ms: 0,
        }
    }

    /// One ID for a clock reading of `now`, which may serve many requests as long as it is fresh.
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
        // A reading before the chunk's tick takes no chunk: in logical time the next ID is of this one.
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
            // A run that was asked for has an ID at least.
            None => MintOne::Wait { ms: 1 },
        }
    }
}
