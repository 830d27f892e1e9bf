//! The positions of the live entries, and the marks of the log.
//!
//! This module accesses no files, so that an open and a running log use the same rules.

use std::collections::VecDeque;

use crate::format::{Kind, RecordView, u64_at};
use crate::segment::SegmentNumber;

/// The position of an entry's bytes. It has 16 bytes, so the size of the map is 16 bytes per live
/// entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntrySlot {
    /// `None` while the entry is only queued.
    pub(crate) segment: Option<SegmentNumber>,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// CRC-32C of the bytes, so that a read can verify one entry without its whole batch.
    pub(crate) crc: u32,
}

impl EntrySlot {
    pub(crate) const QUEUED: Self = Self {
        segment: None,
        offset: 0,
        len: 0,
        crc: 0,
    };

    /// Returns the position of an entry in the batch that begins at `batch_at`. The offset fits
    /// because a segment is shorter than 4 GiB.
    pub(crate) fn of(segment: SegmentNumber, batch_at: u64, record: &RecordView<'_>) -> Self {
        Self {
            segment: Some(segment),
            offset: (batch_at + record.at as u64) as u32,
            len: record.bytes.len() as u32,
            crc: crc32c::crc32c(record.bytes),
        }
    }
}

/// Consecutive entries and their positions.
#[derive(Debug, Default)]
pub(crate) struct LogIndex {
    first: u64,
    slots: VecDeque<EntrySlot>,
}

impl LogIndex {
    /// Returns an empty map whose next entry is `next`.
    pub(crate) fn empty_at(next: u64) -> Self {
        Self {
            first: next,
            slots: VecDeque::new(),
        }
    }

    /// Returns the index of the first entry, or of the next entry if the map is empty.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(crate) fn get(&self, index: u64) -> Option<EntrySlot> {
        let position = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.slots.get(position).copied()
    }

    /// Returns the total size of all entries after `index`, excluding entries that are only queued.
    pub(crate) fn bytes_after(&self, index: u64) -> u64 {
        let skipped = index.saturating_add(1).saturating_sub(self.first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let behind = self.slots.iter().skip(skipped);
        behind.map(|slot| u64::from(slot.len)).sum()
    }

    /// Adds the entry `index`. It must be the next one, or any if the map is empty.
    pub(crate) fn push(&mut self, index: u64, slot: EntrySlot) {
        if self.slots.is_empty() {
            self.first = index;
        }
        debug_assert_eq!(index, self.next());
        self.slots.push_back(slot);
    }

    /// Replaces the position of an existing entry.
    pub(crate) fn place(&mut self, index: u64, slot: EntrySlot) {
        let position = index
            .checked_sub(self.first)
            .and_then(|p| usize::try_from(p).ok());
        if let Some(place) = position.and_then(|p| self.slots.get_mut(p)) {
            *place = slot;
        }
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        match from.checked_sub(self.first) {
            Some(keep) if keep > 0 => {
                self.slots
                    .truncate(usize::try_from(keep).unwrap_or(usize::MAX));
            }
            _ => *self = Self::empty_at(from),
        }
    }

    /// Removes entries up to and including `upto`.
    pub(crate) fn purge(&mut self, upto: u64) {
        if upto >= self.next() {
            *self = Self::empty_at(upto + 1);
            return;
        }
        while self.first <= upto {
            self.slots.pop_front();
            self.first += 1;
        }
        // Frees the memory of a log that shrank, in steps that are cheap individually.
        if self.slots.capacity() > 4 * self.slots.len().max(1024) {
            self.slots.shrink_to(2 * self.slots.len());
        }
    }
}

/// The data that the log holds in addition to the entries, according to its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) vote: Option<Vec<u8>>,
    pub(crate) committed: Option<Vec<u8>>,
    pub(crate) purged: Option<(u64, Vec<u8>)>,
    /// The index of the first entry, or of the next entry if there is none.
    pub(crate) first: u64,
    pub(crate) next: u64,
}

impl Marks {
    /// Returns whether an entry may be appended at `index`. An empty log that was never purged may
    /// begin at any index.
    pub(crate) fn accepts(&self, index: u64) -> bool {
        let may_begin_anywhere = self.first == self.next && self.purged.is_none();
        index < u64::MAX && (index == self.next || may_begin_anywhere)
    }

    /// Returns the highest index that is in the log or was purged from it.
    pub(crate) fn last_index(&self) -> Option<u64> {
        if self.first == self.next && self.purged.is_none() {
            None
        } else {
            Some(self.next - 1)
        }
    }

    pub(crate) fn append(&mut self, index: u64) {
        if self.first == self.next {
            self.first = index;
        }
        self.next = index + 1;
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        self.next = from;
    }

    pub(crate) fn purge(&mut self, upto: u64, meta: Vec<u8>) {
        self.first = self.first.max(upto + 1);
        self.next = self.next.max(self.first);
        self.purged = Some((upto, meta));
    }

    /// Applies a record. The error is the reason why it cannot follow the earlier ones.
    pub(crate) fn apply(&mut self, record: &RecordView<'_>) -> Result<(), String> {
        let index = record.index;
        match record.kind {
            Kind::Entry if self.accepts(index) => self.append(index),
            Kind::Entry => {
                return Err(format!("entry {index} follows, but {} is next", self.next));
            }
            Kind::Vote => self.vote = Some(record.bytes.to_vec()),
            Kind::Committed => self.committed = Some(record.bytes.to_vec()),
            Kind::Truncate if (self.first..=self.next).contains(&index) => self.truncate(index),
            Kind::Truncate => {
                let (first, next) = (self.first, self.next);
                return Err(format!(
                    "a truncation from {index} in a log of {first}..{next}"
                ));
            }
            Kind::Purge if index == u64::MAX => return Err("a purge of everything".into()),
            Kind::Purge => self.purge(index, record.bytes.to_vec()),
            Kind::Extent if record.bytes.len() == 8 => {
                self.first = index;
                self.next = u64_at(record.bytes, 0);
                if self.first > self.next {
                    return Err(format!("an extent of {}..{}", self.first, self.next));
                }
            }
            Kind::Extent => return Err("an extent record of a wrong length".into()),
        }
        Ok(())
    }
}

/// The segments that hold live entries, according to the durable records.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// In ascending order and without overlap, in segments and in indexes.
    runs: VecDeque<Run>,
}

#[derive(Debug)]
struct Run {
    segment: SegmentNumber,
    first: u64,
    end: u64,
}

impl Holdings {
    pub(crate) fn append(&mut self, segment: SegmentNumber, index: u64) {
        match self.runs.back_mut() {
            Some(run) if run.segment == segment && run.end == index => run.end += 1,
            _ => self.runs.push_back(Run {
                segment,
                first: index,
                end: index + 1,
            }),
        }
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        while self.runs.back().is_some_and(|run| run.first >= from) {
            self.runs.pop_back();
        }
        if let Some(run) = self.runs.back_mut() {
            run.end = run.end.min(from);
        }
    }

    pub(crate) fn purge(&mut self, upto: u64) {
        while self.runs.front().is_some_and(|run| run.end <= upto + 1) {
            self.runs.pop_front();
        }
    }

    /// Returns the oldest segment that still holds a live entry.
    pub(crate) fn oldest(&self) -> Option<SegmentNumber> {
        self.runs.front().map(|run| run.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(offset: u32) -> EntrySlot {
        EntrySlot {
            segment: SegmentNumber::new(1),
            offset,
            len: 0,
            crc: 0,
        }
    }

    #[test]
    fn the_bytes_after_an_entry_are_those_of_all_later_ones() {
        let mut index = LogIndex::empty_at(5);
        for entry in 5..9 {
            let len = u32::try_from(entry).unwrap();
            index.push(entry, EntrySlot { len, ..slot(0) });
        }
        index.push(9, EntrySlot::QUEUED);
        let behind = [0, 4, 5, 7, 8, 9, u64::MAX].map(|at| index.bytes_after(at));
        assert_eq!(behind, [26, 26, 21, 8, 0, 0, 0]);
    }

    #[test]
    fn a_slot_stays_small() {
        assert_eq!(size_of::<EntrySlot>(), 16);
    }

    #[test]
    fn truncate_and_purge_keep_the_entries_between() {
        let mut index = LogIndex::empty_at(0);
        for i in 5..10 {
            index.push(i, slot(i as u32));
        }
        index.purge(5);
        index.truncate(8);
        assert_eq!((index.first(), index.next()), (6, 8));
        assert_eq!(index.get(5), None);
        assert_eq!(index.get(7), Some(slot(7)));
        assert_eq!(index.get(8), None);
        index.truncate(6);
        assert_eq!((index.first(), index.next()), (6, 6));
        index.purge(20);
        assert_eq!((index.first(), index.next()), (21, 21));
    }

    #[test]
    fn memory_of_purged_entries_is_released() {
        let mut index = LogIndex::empty_at(0);
        for i in 0..1_000_000 {
            index.push(i, slot(0));
        }
        index.purge(999_000);
        assert!(
            index.slots.capacity() < 10_000,
            "{}",
            index.slots.capacity()
        );
    }

    #[test]
    fn a_segment_is_held_by_its_live_entries_alone() {
        let [one, two, three] = [1, 2, 3].map(|n| SegmentNumber::new(n).unwrap());
        let mut holdings = Holdings::default();
        for i in 0..10 {
            holdings.append(one, i);
        }
        for i in 10..20 {
            holdings.append(two, i);
        }
        holdings.truncate(8);
        holdings.append(three, 8);
        assert_eq!(holdings.oldest(), Some(one));
        holdings.purge(7);
        assert_eq!(holdings.oldest(), Some(three));
        holdings.truncate(8);
        assert_eq!(holdings.oldest(), None);
    }
}
