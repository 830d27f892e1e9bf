//! Layouts: what IDs are made of and how long they last.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Lenient, TimeText};

/// One layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The most IDs that all workers together can give in a second.
    #[serde(default, with = "Decimal")]
    pub ids_per_second_of_all: u128,
    /// The first sequence of a tick: `zero`, `spread` (any, so that IDs that are made at a low rate
    /// spread over remainders), or `random:N` (below N).
    #[serde(default)]
    pub first_sequence: String,
    /// Bits of an ID, the zero sign bit not counted.
    #[serde(default)]
    pub bits: u32,
    /// The largest ID.
    #[serde(default, with = "Decimal")]
    pub largest: u64,
    /// Whether each ID is exact as a number of JavaScript and of JSON readers that use doubles.
    #[serde(default)]
    pub fits_53_bits: bool,
    /// Layouts that, from today on, can emit numbers that this one can emit too.
    #[serde(default)]
    pub overlaps: Vec<String>,
    /// What to know before it is used.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// From which time on every lease of its workers is known, in milliseconds of Unix time: who held a
    /// worker before can be unknown. Null where none is known.
    #[serde(default)]
    pub leases_known_from_ms: Option<u64>,
    /// What the clock of the answering node shows, in milliseconds of Unix time; null in lists.
    #[serde(default)]
    pub now_ms: Option<u64>,
    /// How IDs spread over remainders; there if a rate or a modulus was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// How the IDs of one worker spread over `id mod modulus`, by counting those of a simulated second
/// or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// IDs a second, at random times.
    pub rate: u64,
    /// The divisor.
    pub modulus: u32,
    /// IDs that were counted.
    pub ids: u64,
    /// Remainders that came up.
    pub used: u32,
    /// IDs of the most frequent remainder.
    pub most: u64,
    /// IDs of the least frequent one.
    pub least: u64,
}

requests! {
    /// What is asked about a layout.
    LayoutQuery {
        /// IDs a second, for the spread over remainders; 20 by default.
        rate: u64 as "Lenient",
        /// The divisor, for the spread over remainders: 2 to 1024; 16 by default.
        modulus: u32 as "Lenient",
    }

    /// A layout that is to be created.
    CreateLayout {
        /// Its name.
        name: String,
        /// When tick 0 begins, RFC 3339 or milliseconds of Unix time; 2026-01-01 by default.
        epoch: String as "TimeText",
        /// The length of a tick, 1, 10 or 1000 milliseconds; 1 by default.
        tick_ms: u32 as "Lenient",
        /// Bits of the tick; 41 by default.
        time_bits: u8 as "Lenient",
        /// Upper bits of the worker field that name a datacenter; 0 by default.
        datacenter_bits: u8 as "Lenient",
        /// Bits of the worker within its datacenter; 10 by default.
        worker_bits: u8 as "Lenient",
        /// Bits of the place within the tick; 12 by default.
        sequence_bits: u8 as "Lenient",
        /// `tick-worker-sequence` (the default) or `tick-sequence-worker`.
        order: String,
        /// `spread` (the default), `zero` or `random:N`.
        first_sequence: String,
    }

    /// The parts of an ID that is to be computed.
    EncodeRequest {
        /// RFC 3339, or milliseconds of Unix time.
        time: String as "TimeText",
        /// The worker, within its datacenter where one is given; 0 by default.
        worker: u32 as "Lenient",
        /// The datacenter, for a layout that has some.
        datacenter: u32 as "Lenient",
        /// The place within the tick; 0 by default.
        sequence: u32 as "Lenient",
    }
}

/// An ID that was computed and allocated to nobody, with the bounds of its tick: a scan of all IDs of
/// a span of time goes from the first of its first tick to the last of its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Encoded {
    /// The ID of these parts.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// The layout.
    pub layout: String,
    /// The tick that holds the time.
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
