//! Wall-clock time and ticks.
//!
//! Time is always an argument here: no function of this crate reads a clock. The newtypes keep
//! milliseconds and ticks from being mixed up. Monotonic time needs no type of its own: it is a
//! [`std::time::Duration`] since any fixed moment of the running process.

use std::fmt;
use std::time::Duration;

/// A wall-clock reading: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub u64);

/// A number of ticks since the epoch of one layout. Its length is the layout's `tick_ms`.
///
/// Ticks of different layouts do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl fmt::Display for WallMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where wall-clock readings come from. The server reads the operating system's clock; a test
/// plays a script. This crate has no implementation.
pub trait WallClock: Send + Sync {
    /// The wall clock's reading at this moment. It may step in either direction between two calls.
    fn wall(&self) -> WallMs;

    /// How long it takes from this moment until the clock shows `at`, by a clock that is finer than
    /// its readings; zero if it shows it already. `None` from one that is not.
    fn until(&self, at: WallMs) -> Option<Duration> {
        let _ = at;
        None
    }
}
