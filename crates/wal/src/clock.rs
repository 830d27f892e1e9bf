//! The clock of the log: all its measurements and the deadlines of its waits use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the time since a fixed moment. It never decreases.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The operating system's monotonic clock.
pub(crate) fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}
