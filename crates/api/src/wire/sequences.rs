//! Sequences: definitions, values and high-water marks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Flag, Lenient, Object, OptionalDecimal, OptionalDecimals};
use crate::request::Request;

/// The mode in which a sequence issues values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each node issues values from its own range.
    #[default]
    Segment,
    /// Every value passes through the Raft log. Values increase across all nodes; a lost response
    /// leaves a gap.
    Strict,
    /// The leader issues values from memory, after a majority has confirmed its leadership. Values
    /// increase across all nodes, with gaps when the leader changes.
    Ordered,
}

impl Mode {
    /// The name of the mode.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Strict => "strict",
            Self::Ordered => "ordered",
        }
    }
}

requests! {
    /// The size of the ranges of a segment sequence, as requested.
    SegmentSpec {
        /// The time for which a range should suffice, such as `1m`.
        target: String,
        /// The smallest range, in values.
        min: u64 as "Lenient",
        /// The largest range, in values.
        max: u64 as "Lenient",
    }
}

requests! {
    /// A requested definition. Omitted fields have the defaults of PostgreSQL.
    SequenceSpec {
        /// `segment` (each node has its own range, the default), `strict` (values increase across
        /// all nodes, through the Raft log) or `ordered` (values increase across all nodes, from
        /// memory). Cannot be changed.
        mode: Mode,
        /// The first value. Cannot be changed.
        start: i64 as "OptionalDecimal",
        /// The step. Negative for a descending sequence, never zero. Cannot be changed.
        increment: i64 as "OptionalDecimal",
        /// The smallest value.
        min: i64 as "OptionalDecimal",
        /// The largest value.
        max: i64 as "OptionalDecimal",
        /// If true, it begins again after its last value. Cannot be changed.
        cycle: bool as "Flag",
        /// The size of the ranges of a segment sequence.
        segment: SegmentSpec as "Object::<SegmentSpec>",
        /// A description for people, at most 1024 bytes. PUT ignores it if the sequence exists.
        description: String,
    }
}

/// The size of the ranges of a segment sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// The time for which a range should suffice, such as `1m`.
    pub target: String,
    /// The smallest range, in values.
    pub min: u64,
    /// The largest range, in values.
    pub max: u64,
}

/// A sequence: its definition and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sequence {
    /// Its name.
    pub name: String,
    /// `segment` (each node has its own range), `strict` (values increase across all nodes without
    /// gaps) or `ordered` (values increase across all nodes, from memory).
    pub mode: Mode,
    /// The first value.
    #[serde(with = "Decimal")]
    pub start: i64,
    /// The step.
    #[serde(with = "Decimal")]
    pub increment: i64,
    /// The smallest value.
    #[serde(with = "Decimal")]
    pub min: i64,
    /// The largest value.
    #[serde(with = "Decimal")]
    pub max: i64,
    /// If true, it begins again after its last value.
    pub cycle: bool,
    /// The size of the ranges of a segment sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Segment>,
    /// A description for people, at most 1024 bytes.
    #[serde(default)]
    pub description: String,
    /// The next value that the cluster grants. Null if none is left.
    #[serde(default, with = "OptionalDecimal")]
    pub next: Option<i64>,
    /// The number of values granted so far.
    #[serde(default, with = "OptionalDecimal")]
    pub allocated: Option<u64>,
    /// The number of remaining values. Null for a cycling sequence.
    #[serde(default, with = "OptionalDecimal")]
    pub remaining: Option<u64>,
    /// The revision of the definition. The ETag begins with it.
    #[serde(default)]
    pub revision: u64,
}

requests! {
    /// A selection of sequences.
    SequencesQuery {
        /// Only names with this prefix.
        prefix: String,
        /// If true, the node responds from its own state, which may be outdated, without contacting
        /// the leader.
        stale: bool as "Flag",
        /// Items on a page: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }

    /// Options of a read.
    GetSequenceQuery {
        /// If true, the node responds from its own state, which may be outdated, without contacting
        /// the leader.
        stale: bool as "Flag",
    }
}

requests! {
    /// The requested values.
    NextRequest {
        /// The number of values: 1 to 1000000, 1 by default.
        count: u64 as "Lenient",
        /// If true, the values must form a single range.
        contiguous: bool as "Flag",
        /// If true, the response lists every value.
        expand: bool as "Flag",
    }
}

impl NextRequest {
    /// The largest number of values per request.
    pub const MAX_COUNT: u64 = 1_000_000;
}

/// Consecutive values, `increment` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The first value.
    #[serde(with = "Decimal")]
    pub first: i64,
    /// The last value.
    #[serde(with = "Decimal")]
    pub last: i64,
    /// The number of values.
    pub count: u64,
}

/// The values that `next` returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    /// The values, as ranges, in order.
    pub ranges: Vec<Range>,
    /// The first value. Null if there are several ranges.
    #[serde(default, with = "OptionalDecimal")]
    pub first: Option<i64>,
    /// The last value. Null if there are several ranges.
    #[serde(default, with = "OptionalDecimal")]
    pub last: Option<i64>,
    /// The number of all values.
    pub count: u64,
    /// The step between two values of a range.
    #[serde(with = "Decimal")]
    pub increment: i64,
    /// The mode of the sequence.
    pub mode: Mode,
    /// Every value, if the request has `expand`.
    #[serde(
        default,
        with = "OptionalDecimals",
        skip_serializing_if = "Option::is_none"
    )]
    pub values: Option<Vec<i64>>,
}

impl Next {
    /// Returns the response with these ranges.
    #[must_use]
    pub fn new(ranges: Vec<Range>, increment: i64, mode: Mode, expand: bool) -> Self {
        let single = match ranges.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        let count = ranges.iter().map(|range| range.count).sum();
        let mut next = Self {
            first: single.map(|range| range.first),
            last: single.map(|range| range.last),
            ranges,
            count,
            increment,
            mode,
            values: None,
        };
        if expand {
            next.values = Some(next.each().collect());
        }
        next
    }

    /// Returns every value, in order.
    pub fn each(&self) -> impl Iterator<Item = i64> + '_ {
        self.ranges.iter().flat_map(move |range| {
            (0..range.count).map(move |step| {
                // A server never sends a range that exceeds 64 bits. Values of a malicious server
                // wrap around here.
                range
                    .first
                    .wrapping_add(self.increment.wrapping_mul(step.cast_signed()))
            })
        })
    }
}

/// A request to move a sequence forward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdvanceRequest {
    /// The lower bound of the next granted value: the first value of the sequence at or after it is
    /// granted next.
    #[serde(with = "Decimal")]
    pub to: i64,
}

impl Request for AdvanceRequest {
    const FIELDS: &'static [&'static str] = &["to"];
}

/// The result of `advance`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advanced {
    /// The sequence.
    pub name: String,
    /// The next value that the cluster grants. Null if none is left.
    #[serde(default, with = "OptionalDecimal")]
    pub next: Option<i64>,
    /// The number of values granted or skipped so far.
    #[serde(default, with = "OptionalDecimal")]
    pub allocated: Option<u64>,
    /// The number of remaining values. Null for a cycling sequence.
    #[serde(default, with = "OptionalDecimal")]
    pub remaining: Option<u64>,
    /// Members that have not confirmed the change and may still issue older values.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
}

/// The result of the deletion of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The sequence.
    pub name: String,
    /// Members that have not confirmed the deletion and may still issue values.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_has_first_and_last_and_several_have_null() {
        let one = Next::new(
            vec![Range {
                first: 5,
                last: 9,
                count: 3,
            }],
            2,
            Mode::Strict,
            true,
        );
        assert_eq!(
            serde_json::to_string(&one).unwrap(),
            r#"{"ranges":[{"first":"5","last":"9","count":3}],"first":"5","last":"9","count":3,"increment":"2","mode":"strict","values":["5","7","9"]}"#
        );
        let ranges = vec![
            Range {
                first: 1,
                last: 1,
                count: 1,
            },
            Range {
                first: 9,
                last: 10,
                count: 2,
            },
        ];
        let two = Next::new(ranges, 1, Mode::Segment, false);
        assert_eq!(
            serde_json::to_string(&two).unwrap(),
            r#"{"ranges":[{"first":"1","last":"1","count":1},{"first":"9","last":"10","count":2}],"first":null,"last":null,"count":3,"increment":"1","mode":"segment"}"#
        );
        assert_eq!(two.each().collect::<Vec<_>>(), [1, 9, 10]);
    }
}
