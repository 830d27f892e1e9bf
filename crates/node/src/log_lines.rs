//! A limit on log lines that callers can cause.

use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

/// The most lines per second. More lines would hide the first ones, and fill the disk.
const LINES_PER_SECOND: u32 = 10;

/// The lines of one kind.
#[derive(Debug)]
pub(crate) struct LineBudget(Lock<Second>);

/// The lines of the current second.
#[derive(Debug)]
struct Second {
    begin: Instant,
    lines: u32,
    omitted: u64,
}

impl LineBudget {
    pub(crate) fn new() -> LineBudget {
        LineBudget(Lock::new(Second {
            begin: Instant::now(),
            lines: 0,
            omitted: 0,
        }))
    }

    /// Takes a line. Returns the number of lines omitted since the last one; `None` if this line is
    /// to be omitted.
    pub(crate) fn take(&self, now: Instant) -> Option<u64> {
        let mut second = self.0.lock();
        if now.saturating_duration_since(second.begin) >= Duration::from_secs(1) {
            (second.begin, second.lines) = (now, 0);
        }
        if second.lines >= LINES_PER_SECOND {
            second.omitted += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_per_second_are_bounded_and_omitted_ones_are_counted() {
        let budget = LineBudget::new();
        let begin = Instant::now();
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(budget.take(begin), Some(0));
        }
        assert_eq!((budget.take(begin), budget.take(begin)), (None, None));
        let next = begin + Duration::from_secs(1);
        assert_eq!(budget.take(next), Some(2));
        assert_eq!(budget.take(next), Some(0));
    }
}
