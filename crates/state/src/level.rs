//! The level: a replicated number that identifies the formats that a cluster may write. It never
//! decreases.
//!
//! A cluster writes nothing that one of its members cannot read. Each command, and each version of
//! a record, belongs to the level that introduced it. A level is raised only when every member can
//! read what it introduces; see `cluster::level`.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

static HIGHEST: AtomicU32 = AtomicU32::new(Level::NEWEST.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u32);

impl Level {
    /// The level of a new cluster.
    pub const FIRST: Self = Self(1);

    /// A level of no released program: that of `seqd-next`, for tests of a rolling upgrade.
    #[cfg(feature = "test-next-level")]
    pub const NEXT: Self = Self::FIRST.next();

    /// The highest level that this program supports.
    #[cfg(not(feature = "test-next-level"))]
    pub const NEWEST: Self = Self::FIRST;
    /// The highest level that this program supports.
    #[cfg(feature = "test-next-level")]
    pub const NEWEST: Self = Self::NEXT;

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the highest level whose entries and rows this process reads and writes:
    /// [`Level::NEWEST`], or one more after [`Level::widen`].
    #[must_use]
    pub fn highest() -> Self {
        Self(HIGHEST.load(Ordering::Relaxed))
    }

    /// Lets this process read and write the formats of the level above [`Level::NEWEST`], for tests
    /// in which members report that they support it.
    pub fn widen() {
        HIGHEST.store(Self::NEWEST.next().0, Ordering::Relaxed);
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
