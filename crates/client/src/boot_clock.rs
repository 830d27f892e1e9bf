//! Time since the machine was started, in which the time that it was suspended counts: what a hold
//! that ends is measured with. No wall clock, so that no step moves it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment of the clock since the start of the machine; of no meaning on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Other systems show no time of suspension: there a hold may be thought to last while they sleep.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl BootTime {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    /// How long this moment is after `earlier`; zero if it is before it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long it is until this moment; zero if it is over.
    #[must_use]
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// Whether this moment is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// The moment that is later by so much.
    #[must_use]
    pub fn after(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// The moment that is earlier by so much.
    #[must_use]
    pub fn before(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }

    /// Milliseconds since the start of the machine, for another process on it.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// From [`BootTime::as_millis`].
    #[must_use]
    pub fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

/// Returns once the moment is over, also where the machine was suspended meanwhile: looks again
/// every tenth of a second, as timers stand still while it is.
pub async fn sleep_until(moment: BootTime) {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    loop {
        let left = moment.left();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_EVERY)).await;
    }
}
