//! Indices that have left the buffer but are not issued yet.
//!
//! A request may need more indices than the buffer holds at once, and it may be cancelled while it
//! waits. The indices gathered for it stay here in order, and the next request gets them first.

use std::collections::VecDeque;

use seqd_idgen::{IndexRange, Progression};

/// Gathered ranges, increasing, each within one pass.
#[derive(Debug, Default)]
pub(super) struct Staged {
    ranges: VecDeque<IndexRange>,
}

impl Staged {
    /// The number of indices.
    pub(super) fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    /// Appends a range. It joins the last range if both are adjacent within one pass.
    pub(super) fn push(&mut self, range: IndexRange, progression: &Progression) {
        if let Some(last) = self.ranges.back_mut()
            && last.end() == range.first
            && progression.pass_end(last.first) > range.first
        {
            last.count += range.count;
            return;
        }
        self.ranges.push_back(range);
    }

    /// Takes `count` indices from the front, or none if there are fewer.
    pub(super) fn take(&mut self, count: u64) -> Option<Vec<IndexRange>> {
        if self.count() < count {
            return None;
        }
        let mut taken = Vec::new();
        let mut left = count;
        while left > 0 {
            let front = self.ranges.front_mut()?;
            let part = IndexRange {
                first: front.first,
                count: front.count.min(left),
            };
            front.first += part.count;
            front.count -= part.count;
            if front.count == 0 {
                self.ranges.pop_front();
            }
            left -= part.count;
            taken.push(part);
        }
        Some(taken)
    }

    /// Takes `count` adjacent indices. Discards the indices before them, because indices are issued
    /// only in increasing order, and returns the number of discarded ones.
    pub(super) fn take_together(&mut self, count: u64) -> Option<(IndexRange, u64)> {
        let at = self.ranges.iter().position(|range| range.count >= count)?;
        let abandoned = self.ranges.drain(..at).map(|range| range.count).sum();
        let taken = self.take(count)?;
        Some((*taken.first()?, abandoned))
    }

    /// Discards everything. Returns the number of discarded indices.
    pub(super) fn clear(&mut self) -> u64 {
        let count = self.count();
        self.ranges.clear();
        count
    }

    /// The last range, if it ends at `end`; a returned tail can begin with it.
    pub(super) fn ending_at(&self, end: u64) -> Option<IndexRange> {
        self.ranges.back().copied().filter(|last| last.end() == end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, count: u64) -> IndexRange {
        IndexRange { first, count }
    }

    fn counting() -> Progression {
        Progression::with_defaults(None, None, None, None, false).unwrap()
    }

    #[test]
    fn neighbours_join_and_are_taken_in_order() {
        let mut staged = Staged::default();
        staged.push(range(10, 5), &counting());
        staged.push(range(15, 5), &counting());
        staged.push(range(40, 5), &counting());
        assert_eq!(staged.take(16), None);
        assert_eq!(staged.take(12), Some(vec![range(10, 10), range(40, 2)]));
        assert_eq!(staged.count(), 3);
    }

    #[test]
    fn a_run_taken_together_leaves_nothing_smaller_behind() {
        let mut staged = Staged::default();
        staged.push(range(0, 3), &counting());
        staged.push(range(10, 8), &counting());
        assert_eq!(staged.take_together(9), None);
        assert_eq!(staged.take_together(5), Some((range(10, 5), 3)));
        assert_eq!(staged.take(3), Some(vec![range(15, 3)]));
    }

    #[test]
    fn ranges_do_not_join_over_the_end_of_a_pass() {
        let cycling = Progression::with_defaults(Some(1), None, Some(1), Some(10), true).unwrap();
        let mut staged = Staged::default();
        staged.push(range(8, 2), &cycling);
        staged.push(range(10, 2), &cycling);
        assert_eq!(staged.take_together(3), None);
    }
}
