//! A seat for one leased worker of a layout: the lease, its generator, and the waits for them.
//!
//! The first seat of a layout is leased from the layout's first use for as long as the node runs,
//! the others while the load needs them (`demand`). Only the seat's keeper sets the holder. The
//! keeper or a reset removes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use seqd_idgen::{ClockVerdict, Generator, Layout, Mint, Refusal, Tick, WallMs, WorkerId};
use seqd_state::LeaseId;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::line::{Line, TickTurn};
use super::{ClockWatch, MintError};

/// A node that can mint after a wait of at most this length counts as ready.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// An error more recent than this is returned at once, without a new attempt.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// A lease and the only generator that it will ever have.
#[derive(Debug)]
pub(super) struct LeasedGenerator {
    pub(super) generator: Generator,
    pub(super) lease: LeaseId,
}

/// The last result of the keeper, with its time. Each attempt sends a new value, which wakes the
/// waiting requests.
#[derive(Clone, Debug)]
struct LastAttempt {
    at: Instant,
    error: Option<MintError>,
}

/// A worker and the end of its window, for health and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeatWindow {
    /// The whole worker field.
    pub(crate) worker: WorkerId,
    pub(crate) ends: WallMs,
}

/// Only the keeper sets the holder. When a generator leaves this place, it is closed.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) layout: Layout,
    holder: RwLock<Option<Arc<LeasedGenerator>>>,
    /// Wakes the keeper early.
    pub(super) wake: Notify,
    /// Makes the keeper of an empty seat lease a worker. The signal is not stored if the keeper is
    /// not waiting for it, because the load may have ended by the time it waits.
    pub(super) wanted: Notify,
    last_attempt: watch::Sender<LastAttempt>,
    /// Attempts of the keeper that found or obtained a window, since the start.
    successes: AtomicU64,
    stopping: AtomicBool,
    pub(super) line: Line,
}

impl Seat {
    pub(super) fn new(layout: Layout) -> Seat {
        let last_attempt = LastAttempt {
            at: Instant::now(),
            error: Some(no_lease_yet()),
        };
        Seat {
            line: Line::of(&layout),
            layout,
            holder: RwLock::new(None),
            wake: Notify::new(),
            wanted: Notify::new(),
            last_attempt: watch::Sender::new(last_attempt),
            successes: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// The keeper's successes so far. Must be read before [`Seat::step`].
    pub(super) fn successes(&self) -> u64 {
        self.successes.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Waits for a turn. Refused at once if the IDs cannot be minted before `deadline`.
    pub(super) async fn turn(
        &self,
        count: u32,
        deadline: Instant,
    ) -> Result<TickTurn<'_>, MintError> {
        let place = self.line.join(count, deadline)?;
        match timeout_at(deadline, place.turn()).await {
            Ok(turn) => Ok(turn),
            Err(_) => Err(self.error().unwrap_or_else(|| self.line.crowded())),
        }
    }

    /// One attempt, without waiting.
    pub(super) fn step(
        &self,
        clock: &ClockWatch,
        now: WallMs,
        count: u32,
    ) -> Result<Mint, MintError> {
        match clock.judge_for_minting(now) {
            ClockVerdict::Good => {}
            ClockVerdict::Wait { ms } => return Ok(Mint::Wait { ms }),
            verdict => return Err(MintError::of_clock(verdict)),
        }
        let holder = self.holder.read().unwrap_or_else(PoisonError::into_inner);
        match holder.as_ref() {
            Some(holder) => Ok(holder.generator.mint(now, count)),
            None => Ok(Mint::Refused(Refusal::Closed)),
        }
    }

    /// Waits if that can help; otherwise returns the error. `successes` is the keeper's count from
    /// before the refusal.
    pub(super) async fn after(
        &self,
        refusal: Refusal,
        successes: u64,
        deadline: Instant,
    ) -> Result<(), MintError> {
        let error = self.error_of(refusal);
        match (refusal, error) {
            (_, error @ MintError::WindowBegins { ms }) => self.pause(ms, error, deadline).await,
            (Refusal::Closed, _) if self.is_stopping() => Err(MintError::Stopping),
            (Refusal::FenceReached { .. } | Refusal::Closed, error) => {
                self.await_keeper(error, successes, deadline).await
            }
            (_, error) => Err(error),
        }
    }

    fn error_of(&self, refusal: Refusal) -> MintError {
        match refusal {
            Refusal::ClockBehind { by_ms, until } => MintError::ClockBehind { by_ms, until },
            Refusal::TimeFull => MintError::LayoutFull {
                since: self.layout.exhausted_at(),
            },
            Refusal::BeforeEpoch => MintError::BeforeEpoch,
            Refusal::NotYet { ms, .. } if Duration::from_millis(ms) <= SHORT_WAIT => {
                MintError::WindowBegins { ms }
            }
            Refusal::NotYet { ms, from } => MintError::ClockBehind {
                by_ms: ms,
                until: self.layout.wall_at(from),
            },
            Refusal::FenceReached { fence } => MintError::WindowEnded {
                at: self.layout.wall_at(fence),
            },
            Refusal::Closed => no_lease_yet(),
        }
    }

    /// The reason why a request must wait for `ms` after a clock reading of `now`.
    pub(super) fn reason_to_wait(&self, clock: &ClockWatch, now: WallMs, ms: u64) -> MintError {
        let until = WallMs(now.0.saturating_add(ms));
        if let ClockVerdict::Wait { ms: by_ms } = clock.judge_for_minting(now) {
            return MintError::ClockBehind { by_ms, until };
        }
        match self.last_used() {
            Some(last) if now < last => MintError::ClockBehind {
                by_ms: last.0 - now.0,
                until,
            },
            Some(_) => MintError::TickFull { ms },
            None => MintError::WindowBegins { ms },
        }
    }

    /// Sleeps. Returns `reason` at once if the deadline is earlier.
    pub(super) async fn pause(
        &self,
        ms: u64,
        reason: MintError,
        deadline: Instant,
    ) -> Result<(), MintError> {
        let until = Instant::now() + Duration::from_millis(ms);
        if until > deadline {
            return Err(reason);
        }
        sleep(Duration::from_millis(ms)).await;
        Ok(())
    }

    /// Waits for the keeper's next result. If that is an error, it replaces `reason`.
    ///
    /// Returns at once if the keeper has succeeded since `successes` was read, because it may then
    /// have nothing to do and send no result.
    async fn await_keeper(
        &self,
        reason: MintError,
        successes: u64,
        deadline: Instant,
    ) -> Result<(), MintError> {
        // Subscribes before it compares the count, so that a later success appears as a change.
        let mut attempts = self.last_attempt.subscribe();
        if self.successes() != successes {
            return Ok(());
        }
        {
            let latest = attempts.borrow_and_update();
            if let Some(error) = &latest.error
                && (latest.at.elapsed() < FRESH || error.is_for_good())
                && !matches!(error, MintError::NoLeaseYet { .. })
            {
                return Err(error.clone());
            }
        }
        self.wake.notify_one();
        if timeout_at(deadline, attempts.changed()).await.is_err() {
            return Err(self.error().unwrap_or(reason));
        }
        match &attempts.borrow().error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Sets a new holder. The previous one is already closed.
    pub(super) fn install(&self, holder: LeasedGenerator) {
        let mut place = self.holder.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::new(holder));
    }

    /// Closes the generator in force, so that nothing more is minted with its lease.
    pub(super) fn close(&self) -> Option<(Arc<LeasedGenerator>, Option<Tick>)> {
        let mut place = self.holder.write().unwrap_or_else(PoisonError::into_inner);
        let holder = place.take()?;
        let last = holder.generator.close();
        Some((holder, last))
    }

    pub(super) fn holder(&self) -> Option<Arc<LeasedGenerator>> {
        self.holder
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn report(&self, error: Option<MintError>) {
        if error.is_none() {
            self.successes.fetch_add(1, Ordering::Release);
        }
        self.last_attempt.send_replace(LastAttempt {
            at: Instant::now(),
            error,
        });
    }

    /// The last error of the keeper.
    pub(super) fn error(&self) -> Option<MintError> {
        self.last_attempt.borrow().error.clone()
    }

    pub(super) fn window(&self) -> Option<SeatWindow> {
        let holder = self.holder()?;
        let ends = self.layout.wall_at(holder.generator.fence());
        Some(SeatWindow {
            worker: holder.generator.worker(),
            ends,
        })
    }

    /// The start of the last tick that this seat's generator has used.
    pub(super) fn last_used(&self) -> Option<WallMs> {
        let holder = self.holder()?;
        holder
            .generator
            .last_tick()
            .map(|tick| self.layout.wall_at(tick))
    }

    /// Checks without minting whether an ID could be issued at this moment.
    pub(super) fn check(&self, clock: &ClockWatch) -> Result<SeatWindow, MintError> {
        let mut now = clock.wall();
        let mut mint = self.step(clock, now, 0);
        if may_be_stale(&mint) {
            now = clock.wall();
            mint = self.step(clock, now, 0);
        }
        match mint? {
            Mint::Wait { ms } if Duration::from_millis(ms) > SHORT_WAIT => {
                Err(self.reason_to_wait(clock, now, ms))
            }
            Mint::Ready(_) | Mint::Wait { .. } => self.window().ok_or_else(no_lease_yet),
            Mint::Refused(Refusal::Closed) => Err(self.error().unwrap_or_else(no_lease_yet)),
            Mint::Refused(refusal) => Err(self.error_of(refusal)),
        }
    }
}

/// See [`Mint::may_be_stale`]. The clock guard judges the reading first, and may refuse it.
pub(super) fn may_be_stale(mint: &Result<Mint, MintError>) -> bool {
    match mint {
        Ok(mint) => mint.may_be_stale(),
        Err(error) => matches!(error, MintError::ClockBehind { .. }),
    }
}

fn no_lease_yet() -> MintError {
    let detail = "this node has no worker of this layout yet".to_owned();
    MintError::NoLeaseYet { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_that_came_between_the_refusal_and_the_wait_is_used_at_once() {
        let seat = Seat::new(Layout::preset("default").unwrap());
        let before = seat.successes();
        seat.report(None);
        let began = Instant::now();
        let deadline = began + Duration::from_secs(3);
        let after = seat.after(Refusal::Closed, before, deadline).await;
        assert_eq!((after, began.elapsed()), (Ok(()), Duration::ZERO));
    }
}
