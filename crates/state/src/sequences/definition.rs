//! What a sequence counts and how it is served.

use seqd_idgen::Progression;
use serde::{Deserialize, Serialize};

/// The most indices in one segment grant.
///
/// No buffer needs more, and a client that asks for too much cannot take a noticeable part of a
/// 64-bit sequence with it: 2^63 values are nine billion such grants.
pub const MAX_GRANT_SIZE: u64 = 1_000_000_000;

/// The longest time that a segment can be meant to last: a day. What a crash loses grows with it.
pub const MAX_SEGMENT_TARGET_MS: u64 = 86_400_000;

/// How a sequence is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceMode {
    /// From ranges that are granted to nodes.
    Segment,
    /// Value by value through the log.
    Strict,
}

impl std::fmt::Display for SequenceMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Segment => "segment",
            Self::Strict => "strict",
        })
    }
}

/// How large the ranges of a segment sequence are. Without meaning for a strict one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSizes {
    /// How long a segment should last, in milliseconds.
    pub target_ms: u64,
    /// The smallest segment that a node asks for, and its first.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// What a sequence counts and how it is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    /// How it is served.
    pub mode: SequenceMode,
    /// Its values.
    #[serde(with = "crate::foreign::progression")]
    pub progression: Progression,
    /// How large its ranges are.
    pub segment: SegmentSizes,
    /// What people say about it.
    pub description: String,
}

/// Why a definition is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DefinitionError {
    /// The smallest segment is 0, above the largest, or that is above the limit.
    #[error("segment sizes are 1 to {MAX_GRANT_SIZE}, the smallest not above the largest")]
    SegmentSizes,
    /// The target is 0 or too long.
    #[error("a segment's target is 1 to {MAX_SEGMENT_TARGET_MS} ms")]
    SegmentTarget,
}

impl SequenceDefinition {
    /// Refuses sizes that no segment can have.
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
        Ok(())
    }
}
