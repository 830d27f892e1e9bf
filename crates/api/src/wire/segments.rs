//! Segments for client-side allocators: a range to a client, and its unused end back.

use serde::{Deserialize, Serialize};

use crate::Request;
use crate::number_text;

requests! {
    /// How large a range is wanted.
    GrantRequest {
        /// How many values; [`GrantRequest::DEFAULT_SIZE`] by default.
        size: u64 as "number_text::option",
        /// The grant that this one follows: granted only if no other came in between.
        after: u128 as "number_text::option",
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name, with which its end is given back: an integer of 128 bits that nobody else can guess.
    #[serde(with = "number_text")]
    pub grant: u128,
    /// The first value.
    #[serde(with = "number_text")]
    pub first: i64,
    /// The last value.
    #[serde(with = "number_text")]
    pub last: i64,
    /// How many.
    pub count: u64,
    /// The step between two values.
    #[serde(with = "number_text")]
    pub increment: i64,
}

requests! {
    /// How much of a grant comes back.
    ReturnRequest {
        /// How many of its last values were not used.
        unused: u64 as "number_text::option",
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// How many values will be granted again.
    pub returned: u64,
}
