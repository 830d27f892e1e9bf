//! Wall-clock time and ticks.
//!
//! Time is always an argument: no function of this crate reads a clock. The newtypes prevent
//! milliseconds and ticks from being mixed up. Monotonic time needs no type of its own: it is a
//! [`std::time::Duration`] since any fixed moment of the running process.

use std::fmt;
use std::time::Duration;

/// A wall-clock reading: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub u64);

/// A number of ticks since the epoch of one layout. The length of a tick is the layout's `tick_ms`.
///
/// Ticks of different layouts are not comparable.
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

/// The source of wall-clock readings. The server reads the operating system's clock; a test plays a
/// script. This crate has no implementation.
pub trait WallClock: Send + Sync {
    /// Returns the current reading. It may step in either direction between two calls.
    fn wall(&self) -> WallMs;

    /// Returns the time until the clock shows `at`, measured by a clock with a finer resolution
    /// than its readings, or zero if it shows `at` already. Returns `None` if there is no such
    /// clock.
    fn until(&self, at: WallMs) -> Option<Duration> {
        let _ = at;
        None
    }
}
