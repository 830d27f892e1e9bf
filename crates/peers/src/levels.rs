//! The levels of format that a program supports.
//!
//! The cluster's level is replicated and only rises. A program that does not support it could not
//! read all messages, so the handshake refuses its node before anything else is sent to it.

use std::fmt;

use seqd_state::Level;
use serde::{Deserialize, Serialize};

/// The lowest and the highest level that a program can be part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRange {
    pub oldest: u32,
    pub newest: u32,
}

impl LevelRange {
    /// The range of this program.
    pub const OWN: Self = Self {
        oldest: Level::FIRST.0,
        newest: Level::NEWEST.0,
    };

    /// Returns whether a program with this range can be part of a cluster at `level`.
    #[must_use]
    pub fn contains(self, level: Level) -> bool {
        (self.oldest..=self.newest).contains(&level.0)
    }
}

impl fmt::Display for LevelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.oldest, self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_both_its_ends() {
        let range = LevelRange {
            oldest: 2,
            newest: 3,
        };
        let held: Vec<u32> = (0..6)
            .filter(|level| range.contains(Level(*level)))
            .collect();
        assert_eq!(held, [2, 3]);
        assert_eq!(range.to_string(), "2..3");
    }
}
