//! Segments for client-side allocators: a range to a client, and its unused end back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, OptionalDecimal};

requests! {
    /// How large a range is wanted.
    GrantRequest {
        /// How many values, up to 100000000; 10000 by default.
        size: u64 as "OptionalDecimal",
        /// The grant that this one follows: granted only if no other came in between.
        after: u128 as "OptionalDecimal",
    }
}

impl GrantRequest {
    /// The largest segment of a client: more would be out of proportion to any prefetch, and a
    /// client that vanishes takes it with it.
    pub const MAX_SIZE: u64 = 100_000_000;

    /// The size by default.
    pub const DEFAULT_SIZE: u64 = 10_000;
}

/// A range that belongs to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// Its name, with which its end is given back: an integer of 128 bits that nobody else can guess.
    #[serde(with = "Decimal")]
    pub grant: u128,
    /// The first value.
    #[serde(with = "Decimal")]
    pub first: i64,
    /// The last value.
    #[serde(with = "Decimal")]
    pub last: i64,
    /// How many.
    pub count: u64,
    /// The step between two values.
    #[serde(with = "Decimal")]
    pub increment: i64,
}

requests! {
    /// How much of a grant comes back.
    ReturnRequest {
        /// How many of its last values were not used.
        unused: u64 as "OptionalDecimal",
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// How many values will be granted again.
    pub returned: u64,
}
