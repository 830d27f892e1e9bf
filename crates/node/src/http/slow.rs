//! Logs requests that take too long, at most a few per second.

use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

use super::context::Arrival;
use crate::times::millis;

/// The most lines per second. If every request is slow, more lines would hide the first ones.
const LINES_PER_SECOND: u32 = 10;

/// Returns the name of the leader. Called only for a slow request.
pub(crate) type LeaderName = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct SlowLog {
    /// `None` if no request counts as slow.
    limit: Option<Duration>,
    node: String,
    leader: LeaderName,
    budget: Lock<Budget>,
}

/// The lines of the current second.
struct Budget {
    second: Instant,
    lines: u32,
    omitted: u64,
}

impl Budget {
    fn new(now: Instant) -> Budget {
        Budget {
            second: now,
            lines: 0,
            omitted: 0,
        }
    }

    /// Takes a line. Returns the number of lines omitted since the last one; `None` if this line is
    /// to be omitted.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if now - self.second >= Duration::from_secs(1) {
            (self.second, self.lines) = (now, 0);
        }
        if self.lines >= LINES_PER_SECOND {
            self.omitted += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.omitted))
    }
}

impl SlowLog {
    /// Logs requests that take at least `limit`; none if it is zero.
    pub(crate) fn new(limit: Duration, node: &str, leader: LeaderName) -> SlowLog {
        SlowLog {
            limit: (!limit.is_zero()).then_some(limit),
            node: node.to_owned(),
            leader,
            budget: Lock::new(Budget::new(Instant::now())),
        }
    }

    /// Logs no request.
    pub(super) fn off() -> SlowLog {
        Self::new(Duration::ZERO, "", Box::new(|| None))
    }

    pub(super) fn is_slow(&self, took: Duration) -> bool {
        self.limit.is_some_and(|limit| took >= limit)
    }

    #[cold]
    pub(super) fn log(
        &self,
        (route, method): (&'static str, &'static str),
        status: u16,
        took: Duration,
        arrival: &Arrival,
    ) {
        let taken = self.budget.lock().take(Instant::now());
        let Some(omitted) = taken else {
            return;
        };
        let ids = arrival.trace.ids();
        tracing::warn!(
            route,
            method,
            status,
            duration_ms = millis(took),
            request_id = arrival.id.to_str().unwrap_or("-"),
            trace_id = ids.map(|ids| ids.trace),
            parent_id = ids.map(|ids| ids.parent),
            node = self.node,
            leader = (self.leader)(),
            omitted = (omitted > 0).then_some(omitted),
            "slow request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_per_second_are_bounded_and_omitted_ones_are_counted() {
        let begin = Instant::now();
        let mut budget = Budget::new(begin);
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(budget.take(begin), Some(0));
        }
        assert_eq!((budget.take(begin), budget.take(begin)), (None, None));
        let next = begin + Duration::from_secs(1);
        assert_eq!(budget.take(next), Some(2));
        assert_eq!(budget.take(next), Some(0));
    }

    #[test]
    fn a_limit_of_zero_means_that_no_request_is_slow() {
        let log = |ms| SlowLog::new(Duration::from_millis(ms), "n1", Box::new(|| None));
        assert!(!log(0).is_slow(Duration::from_secs(9)));
        assert!(log(10).is_slow(Duration::from_millis(10)));
        assert!(!log(10).is_slow(Duration::from_millis(9)));
    }
}
