//! Limits the number of requests per second that each token may send to this node. A burst of one
//! second's requests is permitted.
//!
//! Uses the generic cell rate algorithm (ITU-T I.371), which stores one time per token: the time
//! until which the token's requests have used up its rate.

use std::collections::HashMap;
use std::time::Duration;

use seqd_net::Lock;
use seqd_state::{AccessId, MAX_TOKENS};
use tokio::time::Instant;

/// The length of a burst: the requests of this time may arrive at once.
const BURST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Rates(Lock<HashMap<AccessId, Instant>>);

impl Rates {
    /// Counts a request. If the rate is used up, refuses the request and returns the time to wait.
    pub(super) fn take(&self, id: AccessId, per_second: u32, now: Instant) -> Result<(), Duration> {
        let mut used = self.0.lock();
        // Revoked tokens leave entries that are not removed otherwise.
        if used.len() > 2 * MAX_TOKENS {
            used.retain(|_, until| *until > now);
        }
        let until = used.entry(id).or_insert(now);
        let next = (*until).max(now) + Duration::from_secs(1) / per_second.max(1);
        match next.checked_duration_since(now + BURST) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *until = next;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_requests_may_come_at_once_and_then_one_at_a_time() {
        let rates = Rates::default();
        let (now, id) = (Instant::now(), AccessId(7));
        let mut passed = 0;
        let wait = loop {
            match rates.take(id, 10, now) {
                Ok(()) => passed += 1,
                Err(wait) => break wait,
            }
        };
        assert_eq!((passed, wait), (10, Duration::from_millis(100)));
        assert!(rates.take(AccessId(8), 10, now).is_ok(), "another token");
        assert!(rates.take(id, 10, now + wait / 2).is_err());
        assert!(rates.take(id, 10, now + wait).is_ok());
        assert!(rates.take(id, 10, now + wait).is_err());
        let later = now + Duration::from_secs(60);
        assert_eq!(
            (0..20)
                .filter(|_| rates.take(id, 10, later).is_ok())
                .count(),
            10
        );
    }
}
