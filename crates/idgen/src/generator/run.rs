//! A run of consecutive IDs of one tick, as taken by one `mint`.

use std::iter::FusedIterator;

use crate::id::SnowflakeId;
use crate::layout::{Geometry, WorkerId};
use crate::time::Tick;

/// IDs with consecutive sequence numbers of one worker and one tick. Iteration packs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdRun {
    /// The tick.
    pub tick: Tick,
    /// The worker.
    pub worker: WorkerId,
    /// The sequence number of the first ID.
    pub first_sequence: u32,
    /// The number of IDs; 0 only if none was requested.
    pub count: u32,
    base: u64,
    step: u64,
}

impl IdRun {
    /// The caller must have checked that all parts fit the layout.
    pub(super) fn new(
        geometry: &Geometry,
        tick: Tick,
        worker: WorkerId,
        first_sequence: u32,
        count: u32,
    ) -> Self {
        Self {
            tick,
            worker,
            first_sequence,
            count,
            base: geometry.join(tick, worker, first_sequence),
            step: 1 << geometry.sequence_shift,
        }
    }

    /// Returns the first and smallest ID, or `None` for an empty run.
    pub fn first(&self) -> Option<SnowflakeId> {
        (self.count > 0).then(|| SnowflakeId::from_u64(self.base))
    }

    /// Returns the last and greatest ID, or `None` for an empty run.
    pub fn last(&self) -> Option<SnowflakeId> {
        let steps = u64::from(self.count.checked_sub(1)?);
        Some(SnowflakeId::from_u64(self.base + steps * self.step))
    }

    /// Returns the IDs in increasing order.
    pub fn iter(&self) -> IdRunIter {
        IdRunIter {
            next: self.base,
            step: self.step,
            left: self.count,
        }
    }
}

/// The IDs of a run, in increasing order.
#[derive(Clone, Debug)]
pub struct IdRunIter {
    next: u64,
    step: u64,
    left: u32,
}

impl IdRunIter {
    pub(super) const fn empty() -> Self {
        Self {
            next: 0,
            step: 0,
            left: 0,
        }
    }
}

impl Iterator for IdRunIter {
    type Item = SnowflakeId;

    #[inline]
    fn next(&mut self) -> Option<SnowflakeId> {
        self.left = self.left.checked_sub(1)?;
        let id = SnowflakeId::from_u64(self.next);
        self.next += self.step;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for IdRunIter {}
impl FusedIterator for IdRunIter {}
