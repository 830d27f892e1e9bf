//! The memory of a process under test, according to the kernel.

use std::time::Duration;

use rustix::process::Pid;

use crate::wait;

/// The interval between two samples, which is shorter than any phase of a snapshot of a large
/// state.
const EVERY: Duration = Duration::from_millis(20);

/// The resident memory of a process, in bytes.
pub fn resident(pid: Pid) -> u64 {
    resident_if_running(pid).expect("the process runs")
}

/// Like [`resident`]. `None` if the process has ended.
pub fn resident_if_running(pid: Pid) -> Option<u64> {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Runs `work`. Also returns the largest resident memory of the process during it, in bytes.
pub fn most_during<T>(pid: Pid, work: impl FnOnce() -> T) -> (T, u64) {
    let sample = || {
        let bytes = resident(pid);
        std::thread::sleep(EVERY);
        bytes
    };
    // A sample after the work covers memory that it keeps, even if the other thread rarely ran.
    let measured = || (work(), resident(pid));
    let ((result, last), samples) = wait::beside(sample, measured);
    (result, samples.into_iter().fold(last, u64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_seen() {
        let own = rustix::process::getpid();
        let before = resident(own);
        let (_touched, most) = most_during(own, || vec![1u8; 64 << 20]);
        assert!(most >= before + (48 << 20), "{before} and at most {most}");
    }
}
