//! The waits of a generator: for a tick, for a clock that is slightly behind, and for the keeper.
//! If no wait helps, it returns the error.

use std::time::Duration;

use seqd_idgen::{IdRun, Mint, Refusal, SnowflakeId, Tick, WallMs};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use super::MAX_COUNT;
use super::error::{GenerateError, time};
use super::minter::{LastAttempt, Minter};

/// The number of clock readings while one millisecond passes. It exceeds what an idle runtime can
/// perform in a millisecond, so the polling ends in a sleep only if the clock does not advance.
const LOOKS_PER_TICK: u32 = 20_000;

/// A renewal that ended within this time counts as recent.
const FRESH: Duration = Duration::from_secs(1);

/// See [`Mint::may_be_stale`]. The clock guard judges the reading first, and may refuse it.
fn may_be_stale(mint: &Result<Mint, GenerateError>) -> bool {
    match mint {
        Ok(mint) => mint.may_be_stale(),
        Err(error) => matches!(error, GenerateError::ClockBehind { .. }),
    }
}

impl Minter {
    /// See [`IdGenerator::ids`](super::IdGenerator::ids).
    pub(super) async fn mint(
        &self,
        count: u32,
        deadline: Instant,
    ) -> Result<Vec<SnowflakeId>, GenerateError> {
        if count == 0 || count > MAX_COUNT {
            return Err(GenerateError::Count { count });
        }
        let mut ids: Vec<SnowflakeId> = Vec::with_capacity(count as usize);
        let mut worker = None;
        loop {
            let left = count - ids.len() as u32;
            let run = self.run(left, deadline).await?;
            if worker != Some(run.worker) {
                // IDs of two leases need not increase: the earlier ones are skipped.
                ids.clear();
                worker = Some(run.worker);
            }
            ids.extend(run.iter().take(count as usize - ids.len()));
            if ids.len() == count as usize {
                return Ok(ids);
            }
        }
    }

    pub(super) async fn one(&self, deadline: Instant) -> Result<SnowflakeId, GenerateError> {
        loop {
            if let Some(id) = self.run(1, deadline).await?.first() {
                return Ok(id);
            }
        }
    }

    pub(super) fn try_id(&self) -> Result<Option<SnowflakeId>, GenerateError> {
        self.refuse_fork()?;
        let mut mint = self.step(self.clock.wall(), 1);
        if may_be_stale(&mint) {
            mint = self.step(self.clock.wall(), 1);
        }
        match mint? {
            Mint::Ready(run) => Ok(run.first()),
            Mint::Wait { .. } => Ok(None),
            Mint::Refused(refusal) => match self.error_of(refusal) {
                GenerateError::NoLease { .. } | GenerateError::WindowEnded { .. } => {
                    self.final_error().map_or(Ok(None), Err)
                }
                error => Err(error),
            },
        }
    }

    /// Waits until IDs can be minted, without taking one.
    pub(super) async fn ready(&self, deadline: Instant) -> Result<(), GenerateError> {
        self.run(0, deadline).await.map(drop)
    }

    /// Returns up to `count` IDs of one tick. With 0, it returns no ID as soon as one could be
    /// minted.
    async fn run(&self, count: u32, deadline: Instant) -> Result<IdRun, GenerateError> {
        self.refuse_fork()?;
        let mut looked_again = false;
        loop {
            let mut attempts = self.last_attempt.subscribe();
            attempts.mark_unchanged();
            let now = self.clock.wall();
            let mint = self.step(now, count);
            if !looked_again && may_be_stale(&mint) {
                looked_again = true;
                continue;
            }
            match mint? {
                Mint::Ready(run) => return Ok(run),
                Mint::Wait { ms } => self.pause(now, ms, deadline).await?,
                Mint::Refused(refusal) => {
                    let error = self.error_of(refusal);
                    self.after(error, &mut attempts, deadline).await?;
                }
            }
        }
    }

    /// Waits for a tick, or for a clock that is slightly behind.
    async fn pause(&self, now: WallMs, ms: u64, deadline: Instant) -> Result<(), GenerateError> {
        let until = Instant::now() + Duration::from_millis(ms);
        if until > deadline {
            let used = self.last_used().filter(|last| now < *last);
            return Err(match used {
                Some(last) => GenerateError::ClockBehind {
                    by_ms: last.0 - now.0,
                    until: WallMs(now.0.saturating_add(ms)),
                },
                None => GenerateError::Busy { ms },
            });
        }
        if ms > 1 {
            sleep(Duration::from_millis(ms)).await;
            return Ok(());
        }
        // One call polls the clock. Other calls wait for the lock and then find that the tick has
        // begun.
        let Ok(_looking) = timeout_at(deadline, self.looking.lock()).await else {
            return Err(GenerateError::Busy { ms });
        };
        if self.clock.wall().0 < now.0.saturating_add(ms) && !self.next_tick().await {
            sleep(Duration::from_millis(ms)).await;
        }
        Ok(())
    }

    /// Lets other tasks run until the clock shows another millisecond. Returns `false` if it does
    /// not. Timers have a resolution of a millisecond and round up, so a sleep would miss every
    /// other tick.
    async fn next_tick(&self) -> bool {
        let before = self.clock.wall();
        for _ in 0..LOOKS_PER_TICK {
            yield_now().await;
            if self.clock.wall() != before {
                return true;
            }
        }
        false
    }

    /// Waits for the keeper if that helps, and returns the error otherwise.
    async fn after(
        &self,
        error: GenerateError,
        attempts: &mut watch::Receiver<LastAttempt>,
        deadline: Instant,
    ) -> Result<(), GenerateError> {
        match &error {
            GenerateError::NoLease { .. } | GenerateError::WindowEnded { .. } => {
                if let Some(last) = self.final_error() {
                    return Err(last);
                }
                self.wake.notify_one();
                if timeout_at(deadline, attempts.changed()).await.is_ok() {
                    return Ok(());
                }
                Err(match self.last_attempt.borrow().error.clone() {
                    // Both errors contain a time of their own.
                    Some(last @ GenerateError::WorkersExhausted { .. }) => last,
                    why => error.with(why),
                })
            }
            // The window begins in the future. The call waits for it if it begins before the
            // deadline.
            GenerateError::ClockBehind { by_ms, .. } if self.last_used().is_none() => {
                let until = Instant::now() + Duration::from_millis(*by_ms);
                if until > deadline {
                    return Err(error);
                }
                sleep(Duration::from_millis(*by_ms)).await;
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn error_of(&self, refusal: Refusal) -> GenerateError {
        let layout = self
            .holder()
            .map(|holder| holder.generator.layout().clone());
        let wall_at = |tick: Tick| {
            layout
                .as_ref()
                .map_or(WallMs(0), |layout| layout.wall_at(tick))
        };
        let now = self.clock.wall();
        match refusal {
            Refusal::ClockBehind { by_ms, until } => GenerateError::ClockBehind { by_ms, until },
            Refusal::NotYet { ms, from } => GenerateError::ClockBehind {
                by_ms: ms,
                until: wall_at(from),
            },
            Refusal::BeforeEpoch => {
                let epoch = wall_at(Tick(0));
                GenerateError::ClockBehind {
                    by_ms: epoch.0.saturating_sub(now.0),
                    until: epoch,
                }
            }
            Refusal::TimeFull => GenerateError::LayoutExhausted {
                layout: layout
                    .as_ref()
                    .map_or("", |layout| layout.name())
                    .to_owned(),
                detail: layout.as_ref().map_or_else(String::new, |layout| {
                    format!("the last ended at {}", time(layout.exhausted_at()))
                }),
            },
            Refusal::FenceReached { fence } => self.window_ended(fence, wall_at(fence), now),
            Refusal::Closed if self.place().is_closed => GenerateError::Closed,
            Refusal::Closed => GenerateError::NoLease { why: None },
        }
    }

    /// A recently renewed window that has ended by this clock has not ended by the cluster's clock.
    fn window_ended(&self, fence: Tick, at: WallMs, now: WallMs) -> GenerateError {
        let renewed = {
            let last = self.last_attempt.borrow();
            let is_fresh = last.at.is_some_and(|at| at.elapsed() < FRESH);
            is_fresh && last.error.is_none()
        };
        // Read after the attempt: if the fence was raised in the meantime, it differs.
        let latest = self.holder().map(|holder| holder.generator.fence());
        if renewed && latest == Some(fence) {
            let by_ms = now.0.saturating_sub(at.0);
            return GenerateError::ClockAhead { by_ms };
        }
        GenerateError::WindowEnded { at, why: None }
    }

    /// Returns the error of the last attempt if the next attempt would most likely fail in the same
    /// way.
    fn final_error(&self) -> Option<GenerateError> {
        let last = self.last_attempt.borrow();
        last.error.clone().filter(GenerateError::is_for_good)
    }
}
