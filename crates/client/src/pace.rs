//! The intervals between requests to the cluster: short, spread over generators, and bounded from
//! below.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The first wait after a failure. It doubles up to [`MOST`].
const FIRST: Duration = Duration::from_millis(300);

/// The longest wait after a transient failure.
const MOST: Duration = Duration::from_secs(2);

/// The longest wait that a response can request. A worker may be released before the announced
/// time.
const LONGEST_ASKED: Duration = Duration::from_secs(5);

/// The wait after a permanent refusal.
const FOR_GOOD: Duration = Duration::from_secs(10);

/// The waits of one generator or allocator.
#[derive(Debug)]
pub(crate) struct Pace {
    failures: u32,
    drawn: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        // The keys of a hasher are random in each process and differ between hashers.
        let drawn = RandomState::new().build_hasher().finish();
        Self { failures: 0, drawn }
    }

    /// After a success: slightly before `due`, so that generators that started together drift
    /// apart.
    pub(crate) fn after_success(&mut self, due: Duration) -> Duration {
        self.failures = 0;
        due.mul_f64(0.85 + 0.15 * self.draw())
    }

    /// After a failure, which may be permanent. `asked` is the wait that the response requests.
    pub(crate) fn after(&mut self, is_for_good: bool, asked: Option<Duration>) -> Duration {
        if is_for_good {
            return FOR_GOOD.mul_f64(1.0 + 0.25 * self.draw());
        }
        let doubled = FIRST * 2_u32.pow(self.failures.min(4));
        self.failures += 1;
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        let least = doubled.min(MOST).max(asked);
        least.mul_f64(1.0 + 0.25 * self.draw())
    }

    /// A number in 0..1 by xorshift. It is used only to vary waits.
    fn draw(&mut self) -> f64 {
        let mut x = self.drawn | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.drawn = x;
        (x >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound_and_follow_retry_after() {
        let mut pace = Pace::new();
        let mut waits = Vec::new();
        for _ in 0..20 {
            waits.push(pace.after(false, None));
        }
        assert!(waits[0] >= FIRST && waits[0] < FIRST * 2, "{waits:?}");
        assert!(waits[19] >= MOST && waits[19] < MOST * 2, "{waits:?}");
        let asked = pace.after(false, Some(Duration::from_secs(60)));
        assert!(asked >= LONGEST_ASKED && asked < LONGEST_ASKED * 2);
        let due = pace.after_success(Duration::from_secs(10));
        assert!(due > Duration::from_secs(8) && due <= Duration::from_secs(10));
        assert!(pace.after(false, None) < FIRST * 2);
    }
}
