//! Layouts: what IDs are made of and how long they last.

use serde::{Deserialize, Serialize};

/// One layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Its name.
    pub name: String,
    /// When tick 0 begins, RFC 3339.
    pub epoch: String,
    /// When tick 0 begins, in milliseconds of Unix time.
    pub epoch_ms: u64,
    /// The length of a tick, in milliseconds.
    pub tick_ms: u32,
    /// Bits of the tick.
    pub time_bits: u8,
    /// Bits of the datacenter; 0 where the layout has none.
    pub datacenter_bits: u8,
    /// Bits of the worker within its datacenter.
    pub worker_bits: u8,
    /// Bits of the place within the tick.
    pub sequence_bits: u8,
    /// The order of the fields: `tick-worker-sequence` or `tick-sequence-worker`.
    pub order: String,
    /// When its time field is full, RFC 3339.
    pub exhausted_at: String,
    /// Workers in all.
    pub workers: u32,
    /// The most IDs that one worker can give in a second.
    pub ids_per_second: u64,
}
