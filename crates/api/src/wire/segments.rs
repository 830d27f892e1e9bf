//! Segments for allocators in clients: the grant of a range, and the return of its unused end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, OptionalDecimal};

requests! {
    /// A request for a range.
    GrantRequest {
        /// The number of values: up to 100000000, 10000 by default.
        size: u64 as "OptionalDecimal",
        /// The previous grant of the caller. If it is still the latest grant, the new range
        /// continues its run; otherwise a new run begins.
        after: u128 as "OptionalDecimal",
    }
}

impl GrantRequest {
    /// The largest segment of a client. A larger segment would exceed any sensible prefetch, and a
    /// client that disappears loses its whole segment.
    pub const MAX_SIZE: u64 = 100_000_000;

    /// The default size.
    pub const DEFAULT_SIZE: u64 = 10_000;
}

/// A range that belongs to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// The secret name of the grant, an integer of 128 bits. The caller returns the unused end with
    /// it.
    #[serde(with = "Decimal")]
    pub grant: u128,
    /// The first value.
    #[serde(with = "Decimal")]
    pub first: i64,
    /// The last value.
    #[serde(with = "Decimal")]
    pub last: i64,
    /// The number of values.
    pub count: u64,
    /// The step between two values.
    #[serde(with = "Decimal")]
    pub increment: i64,
}

requests! {
    /// The unused part of a grant.
    ReturnRequest {
        /// The number of unused values at the end of the range.
        unused: u64 as "OptionalDecimal",
    }
}

/// The result of a return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// The number of values that will be granted again.
    pub returned: u64,
}
