//! Counters of a running log.

use std::time::Duration;

/// The upper bounds of the buckets for sync durations, in microseconds. Another bucket counts
/// longer syncs. The range is from the best of a fast local disk (tens of microseconds) to a stall
/// that causes an election.
pub const SYNC_BUCKETS_US: [u64; 13] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 2_000_000,
];

/// The counters of a log since it was opened, and its current size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalStats {
    /// The `fdatasync` calls of the writer, one per batch and one per new segment.
    pub fsyncs: u64,
    pub batches: u64,
    /// Witness batches, which an idle log writes and no caller waits for.
    pub witnesses: u64,
    pub records: u64,
    pub bytes: u64,
    /// The segment files of the log.
    pub segments: u64,
    /// The size of the segment files on disk in bytes, excluding the prepared segment.
    pub disk_bytes: u64,
    pub queued_bytes: u64,
    /// Syncs by duration: `sync_buckets[i]` counts the syncs of at most `SYNC_BUCKETS_US[i]`, the
    /// last one the longer syncs.
    pub sync_buckets: [u64; SYNC_BUCKETS_US.len() + 1],
    pub sync_total: Duration,
}

impl WalStats {
    pub(crate) fn observe_sync(&mut self, took: Duration) {
        let bucket = SYNC_BUCKETS_US.partition_point(|bound| u128::from(*bound) < took.as_micros());
        self.sync_buckets[bucket] += 1;
        self.sync_total += took;
        self.fsyncs += 1;
    }
}
