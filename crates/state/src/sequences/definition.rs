//! The definition of a sequence: its values, and how they are served.

use seqd_idgen::Progression;
use serde::{Deserialize, Serialize};

/// The most indices in one segment grant.
///
/// No buffer needs more, and a client that asks for too much cannot take a noticeable part of a
/// 64-bit sequence with it: 2^63 values are nine billion such grants.
pub const MAX_GRANT_SIZE: u64 = 1_000_000_000;

/// The longest time that a segment can be meant to last: a day. What a crash loses grows with it.
pub(crate) const MAX_SEGMENT_TARGET_MS: u64 = 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceMode {
    /// From ranges that are granted to nodes; a strict one is served value by value through the log.
    Segment,
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

/// Of a segment sequence; ignored for a strict one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSizes {
    /// How long a segment should last, in milliseconds.
    pub target_ms: u64,
    /// The size of the first segment, and the smallest.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DefinitionError {
    #[error("segment sizes are 1 to {MAX_GRANT_SIZE}, the smallest not above the largest")]
    SegmentSizes,
    #[error("a segment's target is 1 to {MAX_SEGMENT_TARGET_MS} ms")]
    SegmentTarget,
}

impl SequenceDefinition {
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
