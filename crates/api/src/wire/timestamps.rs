//! Timestamps that increase over all nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Lenient};

requests! {
    /// The number of requested timestamps.
    TimestampsRequest {
        /// The number of timestamps, 1 (the default) to 100000.
        count: u64 as "Lenient",
    }
}

impl TimestampsRequest {
    /// The largest number of timestamps in one request.
    pub const MAX_COUNT: u64 = 100_000;
}

/// Consecutive timestamps. A timestamp is 64 bits: Unix milliseconds, and below them a counter of 18
/// bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timestamps {
    /// The first timestamp.
    #[serde(with = "Decimal")]
    pub first: u64,
    /// The last timestamp: `first` + `count` - 1.
    #[serde(with = "Decimal")]
    pub last: u64,
    /// The number of timestamps.
    pub count: u64,
    /// The Unix time of the first timestamp, milliseconds.
    pub physical_ms: u64,
}

impl Timestamps {
    /// The bits of the counter below the milliseconds.
    pub const COUNTER_BITS: u32 = 18;

    /// Consecutive timestamps from `first` on.
    #[must_use]
    pub const fn new(first: u64, count: u64) -> Self {
        Self {
            first,
            last: first.saturating_add(count.saturating_sub(1)),
            count,
            physical_ms: first >> Self::COUNTER_BITS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_text_and_their_time_is_a_number() {
        let two = Timestamps::new((1_795_228_001_118 << 18) + 5, 2);
        let text = serde_json::to_string(&two).unwrap();
        let expected = r#"{"first":"470608249125076997","last":"470608249125076998","count":2,"physical_ms":1795228001118}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Timestamps>(&text).unwrap(), two);
    }
}
