//! The current segment of an allocator, from which any number of threads draw with one atomic
//! addition.
//!
//! A word has the number of the segment in its upper half, and the offset of the next value in its
//! lower half. A draw adds to the word and so owns the offsets that it passed. Then it reads the
//! segment from its slot. A thread that was interrupted between both may find that the slot has
//! been reused. It detects that by the number of the slot, and its offsets become a gap.
//!
//! Invariants:
//! 1. An offset of a segment is drawn at most once, and none after the segment was replaced.
//! 2. The values of draws that follow each other increase in the direction of the sequence, if each
//!    installed segment is beyond the segment before.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::word::Word;

/// The number of slots: a thread must be interrupted while four segments are used up, before its
/// draw becomes a gap.
const SLOTS: usize = 4;

const OFFSET_BITS: u32 = 32;
const OFFSETS: u64 = (1 << OFFSET_BITS) - 1;

/// No segment has this number, because numbers have 32 bits.
const BEING_WRITTEN: u64 = u64::MAX;

/// The values of a segment: `first`, then `count - 1` steps of `increment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) first: i64,
    pub(super) increment: i64,
    pub(super) count: u64,
}

impl Values {
    pub(super) const NONE: Self = Self {
        first: 0,
        increment: 1,
        count: 0,
    };

    /// The value at this offset below `count`.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> i64 {
        // The result is a value of the segment, so that both wraps cancel out if they occur.
        let steps = self.increment.wrapping_mul(offset.cast_signed());
        self.first.wrapping_add(steps)
    }

    /// The values from this offset on, at most `count`.
    pub(super) fn part(&self, offset: u64, count: u64) -> Self {
        Self {
            first: self.at(offset),
            count: count.min(self.count.saturating_sub(offset)),
            ..*self
        }
    }

    pub(super) fn last(&self) -> i64 {
        self.at(self.count.saturating_sub(1))
    }
}

/// The result of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    /// At least one value, and at most the requested number.
    pub(super) values: Values,
    /// `true` for the draw that passes the offset at which the next segment should be fetched.
    pub(super) is_due: bool,
}

#[derive(Debug)]
struct Slot<W> {
    number: W,
    first: W,
    increment: W,
    count: W,
    due_at: W,
}

impl<W: Word> Slot<W> {
    /// Reads the values of the segment in this slot.
    #[inline]
    fn values(&self) -> Values {
        Values {
            first: self.first.load(Acquire).cast_signed(),
            increment: self.increment.load(Acquire).cast_signed(),
            count: self.count.load(Acquire),
        }
    }
}

/// The current segment.
#[derive(Debug)]
pub(super) struct Lane<W> {
    word: W,
    slots: [Slot<W>; SLOTS],
}

fn split(word: u64) -> (u64, u64) {
    (word >> OFFSET_BITS, word & OFFSETS)
}

impl<W: Word> Lane<W> {
    /// A lane without a segment.
    pub(super) fn new() -> Self {
        let slot = |number| Slot {
            number: W::new(number),
            first: W::new(0),
            increment: W::new(1),
            count: W::new(0),
            due_at: W::new(0),
        };
        Self {
            word: W::new(0),
            slots: [
                slot(0),
                slot(BEING_WRITTEN),
                slot(BEING_WRITTEN),
                slot(BEING_WRITTEN),
            ],
        }
    }

    fn slot(&self, number: u64) -> &Slot<W> {
        &self.slots[number as usize % SLOTS]
    }

    /// Draws up to `count` values. `None` if the segment is used up.
    ///
    /// The offset exceeds the segment by at most `count` for each thread, because a thread that
    /// finds the segment used up adds nothing.
    #[inline]
    pub(super) fn draw(&self, count: u32) -> Option<Draw> {
        loop {
            let (number, offset) = split(self.word.load(Acquire));
            if offset >= self.slot(number).count.load(Acquire) {
                return None;
            }
            let (number, offset) = split(self.word.fetch_add(u64::from(count), AcqRel));
            let slot = self.slot(number);
            // Each load has acquire ordering: a thread that reads a value of a later segment also
            // observes the number of the slot, which was written first.
            let values = slot.values();
            let due_at = slot.due_at.load(Acquire);
            if slot.number.load(Relaxed) != number {
                // The slot has been reused: the drawn offsets stay unused.
                continue;
            }
            if offset >= values.count {
                return None;
            }
            let values = values.part(offset, u64::from(count));
            return Some(Draw {
                values,
                is_due: due_at.wrapping_sub(offset) < values.count,
            });
        }
    }

    /// Draws one value, and returns whether the next segment should be fetched. `None` if the
    /// segment is used up, or its slot has been reused. The caller then calls [`Lane::settle`], so
    /// that the offset exceeds the segment by at most one for each thread.
    #[inline]
    pub(super) fn draw_one(&self) -> Option<(i64, bool)> {
        let (number, offset) = split(self.word.fetch_add(1, AcqRel));
        let slot = self.slot(number);
        let values = slot.values();
        let due_at = slot.due_at.load(Acquire);
        let is_drawn = offset < values.count && slot.number.load(Relaxed) == number;
        is_drawn.then(|| (values.at(offset), offset == due_at))
    }

    /// Sets an offset beyond the segment, which has `count`, back to its end. Not to be called
    /// during [`Lane::install`].
    pub(super) fn settle(&self, count: u64) {
        let (number, offset) = split(self.word.load(Acquire));
        // Until another segment is installed, every draw gets an offset at or beyond the end.
        if offset > count {
            self.word.store(number << OFFSET_BITS | count, Release);
        }
    }

    /// The number of drawn values of the current segment, which has `count`.
    pub(super) fn drawn(&self, count: u64) -> u64 {
        split(self.word.load(Acquire)).1.min(count)
    }

    /// Replaces the segment, and returns how many values of the former one, which has `count`, were
    /// drawn. Only one thread may call it at a time.
    pub(super) fn install(&self, values: Values, due_at: u64, count: u64) -> u64 {
        let next = (split(self.word.load(Relaxed)).0 + 1) & OFFSETS;
        let slot = self.slot(next);
        slot.number.store(BEING_WRITTEN, Relaxed);
        slot.first.store(values.first.cast_unsigned(), Release);
        slot.increment
            .store(values.increment.cast_unsigned(), Release);
        slot.count.store(values.count, Release);
        slot.due_at.store(due_at, Release);
        slot.number.store(next, Release);
        let (_, drawn) = split(self.word.swap(next << OFFSET_BITS, AcqRel));
        drawn.min(count)
    }
}

#[cfg(test)]
mod tests;
