//! Logs requests that take too long, at most a few per second.

use std::time::Duration;

use tokio::time::Instant;

use super::context::Arrival;
use crate::log_lines::LineBudget;
use crate::times::millis;

/// Returns the name of the leader. Called only for a slow request.
pub(crate) type LeaderName = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct SlowLog {
    /// `None` if no request counts as slow.
    limit: Option<Duration>,
    node: String,
    leader: LeaderName,
    budget: LineBudget,
}

impl SlowLog {
    /// Logs requests that take at least `limit`; none if it is zero.
    pub(crate) fn new(limit: Duration, node: &str, leader: LeaderName) -> SlowLog {
        SlowLog {
            limit: (!limit.is_zero()).then_some(limit),
            node: node.to_owned(),
            leader,
            budget: LineBudget::new(),
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
        let taken = self.budget.take(Instant::now());
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
    fn a_limit_of_zero_means_that_no_request_is_slow() {
        let log = |ms| SlowLog::new(Duration::from_millis(ms), "n1", Box::new(|| None));
        assert!(!log(0).is_slow(Duration::from_secs(9)));
        assert!(log(10).is_slow(Duration::from_millis(10)));
        assert!(!log(10).is_slow(Duration::from_millis(9)));
    }
}
