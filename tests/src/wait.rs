//! Waits for conditions with a deadline, which is the only way in which a story waits, and repeats
//! actions while other work runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause between two probes, short compared with the awaited time and long compared with the
/// cost of a probe.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Probes until `probe` returns a value. Returns `None` if `deadline` passes first.
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

/// Probes until `probe` returns a value. Panics if `deadline` passes first.
pub fn until<T>(what: &str, deadline: Duration, probe: impl FnMut() -> Option<T>) -> T {
    within(deadline, probe).unwrap_or_else(|| panic!("not within {deadline:?}: {what}"))
}

/// Sets the flag when it is dropped, even if the work panics. A scope waits for its threads, so
/// without this a panic would never end threads that wait for the flag.
#[derive(Debug)]
pub struct SetsAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work`, and meanwhile runs `repeated` in another thread repeatedly. Returns the results of
/// both.
pub fn beside<T, U: Send>(
    mut repeated: impl FnMut() -> U + Send,
    work: impl FnOnce() -> T,
) -> (T, Vec<U>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut results = Vec::new();
            while !over.load(Ordering::Relaxed) {
                results.push(repeated());
            }
            results
        });
        let end = SetsAtEnd(&over);
        let result = work();
        drop(end);
        (result, other.join().expect("what is repeated"))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_panics_ends_the_repeated_work() {
        let (send, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let work = || {
                beside(
                    || std::thread::sleep(PROBE_PAUSE),
                    || panic!("planted, the output is expected"),
                )
            };
            let _ = send.send(std::panic::catch_unwind(work).is_err());
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
}
