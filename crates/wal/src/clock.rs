//! The log's clock: all that it measures, and the deadlines of its waits, come from here.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the time since a fixed moment. Never falls.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The operating system's monotonic clock.
pub(crate) fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}
