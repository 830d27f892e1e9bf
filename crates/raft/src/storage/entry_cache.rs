//! The last entries of the log, decoded, so that followers and the state machine read them without
//! a disk access.

use std::collections::VecDeque;

use openraft::entry::RaftEntry;

use crate::types::Entry;

/// Largest number of decoded entries in memory. They serve a follower that lags by seconds, and use
/// little memory even on a small machine.
pub(super) const ENTRIES: usize = 16_384;

/// Largest encoded size of the cached entries, bytes. With their decoded commands, they take up to
/// five times as much memory.
const BYTES: usize = 4 << 20;

/// Consecutive entries, each with its encoded length.
#[derive(Default)]
pub(super) struct EntryCache {
    entries: VecDeque<(Entry, usize)>,
    bytes: usize,
}

impl EntryCache {
    pub(super) fn push(&mut self, entry: Entry, bytes: usize) {
        self.bytes += bytes;
        self.entries.push_back((entry, bytes));
        while self.entries.len() > ENTRIES || self.bytes > BYTES {
            self.pop_front();
        }
    }

    /// Index of the first entry.
    pub(super) fn first(&self) -> Option<u64> {
        self.entries.front().map(|(entry, _)| entry.index())
    }

    pub(super) fn drop_upto(&mut self, index: u64) {
        while self.first().is_some_and(|first| first <= index) {
            self.pop_front();
        }
    }

    /// Drops all entries after `last`; all entries if it is `None`.
    pub(super) fn truncate_after(&mut self, last: Option<u64>) {
        let is_after = |(entry, _): &(Entry, usize)| Some(entry.index()) > last;
        while self.entries.back().is_some_and(is_after) {
            if let Some((_, bytes)) = self.entries.pop_back() {
                self.bytes -= bytes;
            }
        }
    }

    /// The entries from `start` to before `end` that are cached without a gap, and their bytes.
    /// Returns nothing if the cache begins after `start`.
    pub(super) fn slice(&self, start: u64, end: u64, max_bytes: usize) -> (Vec<Entry>, usize) {
        let skip = match self.first() {
            Some(first) if first <= start => usize::try_from(start - first).unwrap_or(usize::MAX),
            _ => return (Vec::new(), 0),
        };
        let mut bytes = 0;
        let mut found = Vec::new();
        for (entry, size) in self.entries.iter().skip(skip) {
            if entry.index() >= end || (bytes + size > max_bytes && !found.is_empty()) {
                break;
            }
            bytes += size;
            found.push(entry.clone());
        }
        (found, bytes)
    }

    fn pop_front(&mut self) {
        if let Some((_, bytes)) = self.entries.pop_front() {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn a_read_that_begins_before_the_cache_is_not_served_from_it() {
        let mut cache = EntryCache::default();
        for index in 1..10 {
            cache.push(Entry::new_blank(types::log_id(1, index)), 1);
        }
        assert!(cache.slice(0, 10, usize::MAX).0.is_empty());
        assert_eq!(cache.slice(1, 10, usize::MAX).0.len(), 9);
    }
}
