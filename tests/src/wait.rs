//! Waiting for a condition with a deadline, which is the only way a story waits.

use std::time::{Duration, Instant};

/// The pause between two probes: short against what is waited for, long against a probe's cost.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Probes until `probe` gives a value, or answers `None` once `deadline` has passed.
pub fn within<T>(deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        if begin.elapsed() >= deadline {
            return None;
        }
        std::thread::sleep(PROBE_PAUSE);
    }
}

/// Probes until `probe` gives a value.
pub fn until<T>(what: &str, deadline: Duration, probe: impl FnMut() -> Option<T>) -> T {
    within(deadline, probe).unwrap_or_else(|| panic!("not within {deadline:?}: {what}"))
}
