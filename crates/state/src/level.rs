//! The level: a replicated number, which only rises, of the formats that a cluster may write.
//!
//! A cluster writes nothing that one of its members cannot read. Each command, and each version of
//! a record, belongs to the level that brought it. A level is raised when every member can read
//! what it brings; see `cluster::level`.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u32);

impl Level {
    /// A new cluster: entries are bincode enums, and the first six layouts are not replicated.
    pub const FIRST: Self = Self(1);
    /// Entries are lists of frames, and layouts are rows.
    pub const FRAMES: Self = Self(2);
    /// A secret of the cluster's own, which the codes of grants over HTTP are made with; access
    /// tokens; changes of sequences that are in use.
    pub const TOKENS: Self = Self(3);
    /// Layouts of one's own, and the leases that are over.
    pub const LAYOUTS: Self = Self(4);
    /// Locks, idempotency keys, one-time tokens.
    pub const LOCKS: Self = Self(5);

    /// Of no released program: for tests of clusters of two versions.
    #[cfg(any(test, feature = "test-next-level"))]
    pub const NEXT: Self = Self::LOCKS.next();

    /// The highest level that this program can be part of.
    #[cfg(not(any(test, feature = "test-next-level")))]
    pub const NEWEST: Self = Self::LOCKS;
    /// The highest level that this program can be part of.
    #[cfg(any(test, feature = "test-next-level"))]
    pub const NEWEST: Self = Self::NEXT;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPosition {
    pub term: u64,
    pub index: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of term {}", self.index, self.term)
    }
}
