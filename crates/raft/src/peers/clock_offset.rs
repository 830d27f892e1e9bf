//! How far a peer's clock is ahead, by one exchange of messages, and how far that may be wrong.

use std::time::Duration;

use tokio::time::Instant;

/// How far a peer's clock is ahead of this node's, by one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    /// Milliseconds; negative if it is behind.
    pub(crate) ms: i64,
    /// By how much that may be wrong: the answer may have been written at either end of the
    /// exchange.
    pub(crate) uncertain_ms: u64,
    pub(crate) seen: Instant,
}

impl ClockOffset {
    /// From an answer that took `took`: taken as written half-way.
    pub(crate) fn of_answer(asked_wall_ms: u64, took: Duration, answered_wall_ms: u64) -> Self {
        let half_ms = u64::try_from(took.as_millis() / 2).unwrap_or(u64::MAX);
        let written = asked_wall_ms.saturating_add(half_ms);
        Self {
            ms: answered_wall_ms.wrapping_sub(written).cast_signed(),
            uncertain_ms: half_ms.saturating_add(1),
            seen: Instant::now(),
        }
    }

    pub(crate) fn is_within(self, limit_ms: u64) -> bool {
        self.ms.unsigned_abs().saturating_add(self.uncertain_ms) <= limit_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_taken_as_written_half_way() {
        let took = Duration::from_millis(40);
        let ahead = ClockOffset::of_answer(1_000, took, 1_520);
        assert_eq!((ahead.ms, ahead.uncertain_ms), (500, 21));
        assert!(ahead.is_within(521) && !ahead.is_within(520));
        let behind = ClockOffset::of_answer(1_000, took, 920);
        assert_eq!(behind.ms, -100);
        assert!(behind.is_within(121) && !behind.is_within(120));
    }
}
