//! The level: up to where the formats of a cluster have come.
//!
//! A cluster writes nothing that one of its members cannot read. What it may write is a number that
//! is replicated and only rises: each command, and each version of a record, belongs to the level
//! that brought it. A level is raised when every member can read what it brings; see
//! `cluster::level`.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Up to where the formats of a cluster have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u32);

impl Level {
    /// What a cluster is at before its level was raised for the first time: entries are bincode
    /// enums, and the six first layouts belong to the program.
    pub const FIRST: Self = Self(1);
    /// Entries are lists of frames, and layouts are rows.
    pub const FRAMES: Self = Self(2);

    /// Of no released program: what the tests of clusters of two versions bring.
    #[cfg(any(test, feature = "test-next-level"))]
    pub const NEXT: Self = Self::FRAMES.next();

    /// The levels that this program can be part of.
    pub const SUPPORTED: RangeInclusive<Self> = Self::FIRST..=Self::NEWEST;
    /// The highest level that this program can be part of.
    #[cfg(not(any(test, feature = "test-next-level")))]
    pub const NEWEST: Self = Self::FRAMES;
    /// The highest level that this program can be part of.
    #[cfg(any(test, feature = "test-next-level"))]
    pub const NEWEST: Self = Self::NEXT;

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPosition {
    /// The term of the leader that wrote the entry.
    pub term: u64,
    /// Its index.
    pub index: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of term {}", self.index, self.term)
    }
}
