//! The definition of a sequence: its values and how they are served.

use seqd_idgen::Progression;
use serde::{Deserialize, Serialize};

/// The maximum number of indices in one segment grant.
///
/// No buffer needs more, and a client that requests too much cannot use up a noticeable part of a
/// 64-bit sequence: 2^63 values are nine billion such grants.
pub const MAX_GRANT_SIZE: u64 = 1_000_000_000;

/// The longest target duration of a segment: a day. The loss in a crash grows with it.
pub(crate) const MAX_SEGMENT_TARGET_MS: u64 = 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceMode {
    /// Each node issues values from ranges that it is granted.
    Segment,
    /// Each value is issued through the log.
    Strict,
    /// The leader issues values from a range that it is granted, after a quorum has confirmed its
    /// leadership.
    Ordered,
}

impl SequenceMode {
    /// The mode after its indefinite article, for messages.
    #[must_use]
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Segment => "a segment",
            Self::Strict => "a strict",
            Self::Ordered => "an ordered",
        }
    }
}

impl std::fmt::Display for SequenceMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Segment => "segment",
            Self::Strict => "strict",
            Self::Ordered => "ordered",
        })
    }
}

/// The sizes of a segment sequence; ignored for any other mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSizes {
    /// The target duration of a segment, in milliseconds.
    pub target_ms: u64,
    /// The size of the first segment, and the minimum size.
    pub min: u64,
    pub max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    pub mode: SequenceMode,
    #[serde(with = "crate::foreign::progression")]
    pub progression: Progression,
    pub segment: SegmentSizes,
    pub description: String,
}

/// The changes that are possible while values are taken from a sequence. Omitted fields stay
/// unchanged.
///
/// Each index keeps its value, so no granted range becomes invalid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionChange {
    /// The end of an ascending sequence; never below the old one.
    pub max: Option<i64>,
    /// The end of a descending sequence; never above the old one.
    pub min: Option<i64>,
    pub target_ms: Option<u64>,
    pub segment_min: Option<u64>,
    pub segment_max: Option<u64>,
    pub description: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    Min,
    Max,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

/// The reason why a bound of a sequence cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BoundError {
    #[error("the sequence cycles, and the end of a pass determines the value at each index")]
    Cycles,
    #[error("the sequence does not move towards this bound")]
    NotTheEnd,
    #[error("it is {now} and can only be extended: values up to it may already be granted")]
    Narrower { now: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DefinitionError {
    #[error("segment sizes must be 1 to {MAX_GRANT_SIZE}, and the smallest at most the largest")]
    SegmentSizes,
    #[error("a segment's target must be 1 to {MAX_SEGMENT_TARGET_MS} ms")]
    SegmentTarget,
    #[error("an ordered sequence cannot cycle: its values would not increase")]
    OrderedCycles,
}

impl DefinitionChange {
    /// Returns whether the change concerns the sizes of segments.
    pub(crate) fn is_of_segments(&self) -> bool {
        let sizes = [self.target_ms, self.segment_min, self.segment_max];
        sizes.iter().any(Option::is_some)
    }
}

impl SequenceDefinition {
    /// Returns the progression with the bound at the sequence's end moved.
    pub(crate) fn extended(
        &self,
        min: Option<i64>,
        max: Option<i64>,
    ) -> Result<Progression, (Bound, BoundError)> {
        let now = self.progression;
        let upwards = now.increment() > 0;
        let mut bounds = (now.min(), now.max());
        for (bound, asked) in [(Bound::Min, min), (Bound::Max, max)] {
            let Some(asked) = asked else { continue };
            let (place, is_end) = match bound {
                Bound::Min => (&mut bounds.0, !upwards),
                Bound::Max => (&mut bounds.1, upwards),
            };
            let is_narrower = if upwards {
                asked < *place
            } else {
                asked > *place
            };
            let refused = if asked == *place {
                None
            } else if now.cycle() {
                Some(BoundError::Cycles)
            } else if !is_end {
                Some(BoundError::NotTheEnd)
            } else if is_narrower {
                Some(BoundError::Narrower { now: *place })
            } else {
                None
            };
            if let Some(why) = refused {
                return Err((bound, why));
            }
            *place = asked;
        }
        let (start, increment) = (now.start(), now.increment());
        let wider = Progression::new(start, increment, bounds.0, bounds.1, now.cycle());
        #[expect(
            clippy::expect_used,
            reason = "the bounds hold what the former ones held, which were those of a progression"
        )]
        let wider = wider.expect("wider bounds are bounds");
        Ok(wider)
    }

    pub(crate) fn check(&self) -> Result<(), DefinitionError> {
        let SegmentSizes {
            target_ms,
            min,
            max,
        } = self.segment;
        if min == 0 || min > max || max > MAX_GRANT_SIZE {
            return Err(DefinitionError::SegmentSizes);
        }
        if target_ms == 0 || target_ms > MAX_SEGMENT_TARGET_MS {
            return Err(DefinitionError::SegmentTarget);
        }
        if self.mode == SequenceMode::Ordered && self.progression.cycle() {
            return Err(DefinitionError::OrderedCycles);
        }
        Ok(())
    }
}
