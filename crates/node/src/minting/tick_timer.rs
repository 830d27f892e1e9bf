//! A sleep until the next tick, exact to about ten microseconds.
//!
//! The runtime's own timers have a resolution of a millisecond and round up. A sleep until the next
//! 1 ms tick would end in the tick after it, and every other tick would be lost. On Linux this is a
//! kernel timer that the runtime polls with its sockets, so it needs no thread. On other systems,
//! or if the kernel timer is not available, it is the runtime's timer.

use std::time::Duration;

use tokio::time::sleep;

/// The timer of one sleeper, created at its first sleep.
#[derive(Debug, Default)]
pub(super) struct TickTimer {
    #[cfg(target_os = "linux")]
    kernel: Option<linux::KernelTimer>,
}

impl TickTimer {
    /// Sleeps for `exactly` if it is given and the kernel timer works, otherwise for `ms`.
    pub(super) async fn sleep(&mut self, ms: u64, exactly: Option<Duration>) {
        #[cfg(target_os = "linux")]
        if let Some(duration) = exactly
            && self.sleep_by_kernel(duration).await.is_ok()
        {
            return;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = exactly;
        sleep(Duration::from_millis(ms)).await;
    }

    #[cfg(target_os = "linux")]
    async fn sleep_by_kernel(&mut self, duration: Duration) -> std::io::Result<()> {
        let timer = match &mut self.kernel {
            Some(timer) => timer,
            none => none.insert(linux::KernelTimer::new()?),
        };
        timer.sleep(duration).await
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    #[derive(Debug)]
    pub(super) struct KernelTimer(AsyncFd<OwnedFd>);

    impl KernelTimer {
        pub(super) fn new() -> io::Result<KernelTimer> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe code; this descriptor is open until the AsyncFd ends"
            )]
            let timer = AsyncFd::try_with_interest(timer, Interest::READABLE)?;
            Ok(KernelTimer(timer))
        }

        pub(super) async fn sleep(&self, duration: Duration) -> io::Result<()> {
            // Zero would disarm the timer.
            let first = duration.max(Duration::from_nanos(1));
            let time = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec::try_from(first).map_err(io::Error::other)?,
            };
            // Also clears an expiration that an earlier, cancelled sleep left.
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &time)?;
            let read = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
            self.0.async_io(Interest::READABLE, read).await.map(drop)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn it_sleeps_at_least_as_long_as_requested_and_again_after_a_cancelled_sleep() {
        let mut timer = TickTimer::default();
        let long = Some(Duration::from_secs(3600));
        let given_up = tokio::time::timeout(Duration::from_millis(1), timer.sleep(0, long)).await;
        assert!(given_up.is_err());
        let mut took = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            timer.sleep(10_000, Some(Duration::from_micros(300))).await;
            took.push(began.elapsed());
        }
        assert!(took.iter().all(|took| *took >= Duration::from_micros(300)));
    }
}
