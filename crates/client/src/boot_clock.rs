//! The time since the machine was booted, including suspended time. Holds are measured with it,
//! because steps of the wall clock do not affect it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment of the boot clock. It has no meaning on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Other systems do not count suspended time: a hold may appear valid for longer after a
/// suspension.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl BootTime {
    /// Returns the current moment.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time until this moment, or zero if it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// Returns whether this moment has passed.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Returns the moment that is later by `more`.
    #[must_use]
    pub fn after(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// Returns the moment that is earlier by `less`.
    #[must_use]
    pub fn before(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }

    /// Returns the milliseconds since boot, for another process on the same machine.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Converts the result of [`BootTime::as_millis`].
    #[must_use]
    pub fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

/// Returns when the moment has passed, even if the machine was suspended in between. Timers do not
/// advance during a suspension, so the clock is read every tenth of a second.
pub async fn sleep_until(moment: BootTime) {
    sleep_until_by(moment, BootTime::now).await;
}

/// Like [`sleep_until`], by another clock.
pub(crate) async fn sleep_until_by(moment: BootTime, clock: fn() -> BootTime) {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    loop {
        let left = moment.since(clock());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_EVERY)).await;
    }
}
