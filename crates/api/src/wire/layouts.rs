//! Layouts: the fields of IDs and their lifetime.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Lenient, TimeText};

/// One layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Its name.
    pub name: String,
    /// The start of tick 0, RFC 3339.
    pub epoch: String,
    /// The start of tick 0, in milliseconds of Unix time.
    pub epoch_ms: u64,
    /// The length of a tick, in milliseconds.
    pub tick_ms: u32,
    /// Bits of the tick.
    pub time_bits: u8,
    /// Bits of the datacenter. 0 if the layout has none.
    pub datacenter_bits: u8,
    /// Bits of the worker within its datacenter.
    pub worker_bits: u8,
    /// Bits of the sequence within the tick.
    pub sequence_bits: u8,
    /// The order of the fields: `tick-worker-sequence` or `tick-sequence-worker`.
    pub order: String,
    /// The time when its time field is full, RFC 3339. After the year 9999: `N ms after 1970`.
    pub exhausted_at: String,
    /// The number of workers.
    pub workers: u32,
    /// The largest number of IDs that one worker can mint per second.
    pub ids_per_second: u64,
    /// The largest number of IDs that all workers together can mint per second.
    #[serde(default, with = "Decimal")]
    pub ids_per_second_of_all: u128,
    /// The first sequence of a tick: `zero`, `spread` (any value, so that IDs at a low rate are
    /// distributed evenly over remainders), or `random:N` (below N).
    #[serde(default)]
    pub first_sequence: String,
    /// Bits of an ID, without the sign bit.
    #[serde(default)]
    pub bits: u32,
    /// The largest ID.
    #[serde(default, with = "Decimal")]
    pub largest: u64,
    /// True if each ID is exact as a double, which JavaScript uses for numbers.
    #[serde(default)]
    pub fits_53_bits: bool,
    /// Layouts that can emit the same numbers as this one, at present or in the future.
    #[serde(default)]
    pub overlaps: Vec<String>,
    /// Warnings for its users.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The time since which all leases of its workers are recorded, in milliseconds of Unix time.
    /// Null if no lease is recorded.
    #[serde(default)]
    pub leases_known_from_ms: Option<u64>,
    /// The clock of the answering node, in milliseconds of Unix time. Null in lists.
    #[serde(default)]
    pub now_ms: Option<u64>,
    /// The distribution of IDs over remainders, if the request has a rate or a modulus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// The distribution of the IDs of one worker over `id mod modulus`, counted in a simulation of at
/// least a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The rate in IDs per second, at random times.
    pub rate: u64,
    /// The divisor.
    pub modulus: u32,
    /// The number of counted IDs.
    pub ids: u64,
    /// The number of remainders that occurred.
    pub used: u32,
    /// The number of IDs with the most frequent remainder.
    pub most: u64,
    /// The number of IDs with the least frequent remainder.
    pub least: u64,
}

requests! {
    /// The parameters of the distribution.
    LayoutQuery {
        /// The rate of the distribution in IDs per second: 20 by default.
        rate: u64 as "Lenient",
        /// The divisor of the distribution: 2 to 1024, 16 by default.
        modulus: u32 as "Lenient",
    }

    /// A new layout.
    CreateLayout {
        /// Its name.
        name: String,
        /// The start of tick 0, RFC 3339 or milliseconds of Unix time: 2026-01-01 by default.
        epoch: String as "TimeText",
        /// The length of a tick in milliseconds: 1 (the default), 10 or 1000.
        tick_ms: u32 as "Lenient",
        /// Bits of the tick: 41 by default.
        time_bits: u8 as "Lenient",
        /// Upper bits of the worker field that contain the datacenter: 0 by default.
        datacenter_bits: u8 as "Lenient",
        /// Bits of the worker within its datacenter: 10 by default.
        worker_bits: u8 as "Lenient",
        /// Bits of the sequence within the tick: 12 by default.
        sequence_bits: u8 as "Lenient",
        /// `tick-worker-sequence` (the default) or `tick-sequence-worker`.
        order: String,
        /// `spread` (the default), `zero` or `random:N`.
        first_sequence: String,
    }

    /// The parts of an ID to compute.
    EncodeRequest {
        /// The time, RFC 3339 or milliseconds of Unix time.
        time: String as "TimeText",
        /// The worker, within its datacenter if one is given: 0 by default.
        worker: u32 as "Lenient",
        /// The datacenter, for a layout that has datacenters.
        datacenter: u32 as "Lenient",
        /// The sequence within the tick: 0 by default.
        sequence: u32 as "Lenient",
    }
}

/// A computed ID, which is not allocated, with the bounds of its tick. A scan of all IDs in a
/// time range starts at the first ID of its first tick and ends at the last ID of its last tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Encoded {
    /// The ID of these parts.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// The layout.
    pub layout: String,
    /// The tick that contains the time.
    #[serde(with = "Decimal")]
    pub tick: u64,
    /// The start of the tick, RFC 3339.
    pub time: String,
    /// The smallest ID of the tick.
    #[serde(with = "Decimal")]
    pub first: u64,
    /// The largest ID of the tick.
    #[serde(with = "Decimal")]
    pub last: u64,
}
