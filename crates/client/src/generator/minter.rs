//! What is minted from memory: the generator in force, and the waits around it.
//!
//! The lock around the generator in force is held for an exchange of one pointer, never over a
//! request, and no call that mints makes one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use seqd_idgen::{ClockVerdict, Generator, IdRun, Mint, Refusal, SnowflakeId, Tick, WallMs};
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use super::clock::ClockWatch;
use super::error::{GenerateError, NotReleased, time};
use super::{GeneratorOptions, MAX_COUNT, Status};

/// Looks at the clock while one millisecond passes: more than an idle runtime fits into one, so
/// that only a clock that stands still ends in a sleep.
const LOOKS_PER_TICK: u32 = 20_000;

/// A renewal that ended within this has happened just now.
const FRESH: Duration = Duration::from_secs(1);

/// A lease and the one generator that it will ever have.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) generator: Generator,
    pub(super) lease: u128,
}

impl Holder {
    /// The end of its window by the wall clock.
    pub(super) fn ends(&self) -> WallMs {
        let generator = &self.generator;
        generator.layout().wall_at(generator.fence())
    }
}

/// The generator in force. Once closed it takes no other.
#[derive(Debug, Default)]
struct Place {
    holder: Option<Arc<Holder>>,
    is_closed: bool,
}

/// What the keeper last found. Each attempt makes a new value, so that waiters wake.
#[derive(Debug, Clone)]
struct LastAttempt {
    /// When it ended; `None` before the first.
    at: Option<Instant>,
    error: Option<GenerateError>,
}

/// Mints for one [`IdGenerator`](super::IdGenerator); shared with its keeper.
///
/// The holder is set by the keeper alone; a generator that left its place is closed first.
pub(super) struct Minter {
    /// The process that made it.
    made_in: u32,
    pub(super) clock: ClockWatch,
    place: RwLock<Place>,
    /// Wakes the keeper before its time.
    pub(super) wake: Notify,
    last_attempt: watch::Sender<LastAttempt>,
    /// Until when the worker is to be given back, once it is to be.
    closing: watch::Sender<Option<Instant>>,
    closed: watch::Sender<Option<Result<(), NotReleased>>>,
    leases: AtomicU64,
}

impl std::fmt::Debug for Minter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minter")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Minter {
    pub(super) fn new(options: &GeneratorOptions, process: u32) -> Self {
        let last_attempt = LastAttempt {
            at: None,
            error: None,
        };
        Self {
            made_in: process,
            clock: ClockWatch::new(Arc::clone(&options.wall_clock), options.clock),
            place: RwLock::default(),
            wake: Notify::new(),
            last_attempt: watch::Sender::new(last_attempt),
            closing: watch::Sender::new(None),
            closed: watch::Sender::new(None),
            leases: AtomicU64::new(0),
        }
    }

    /// The refusal of a process that is a fork of the one that made this.
    pub(super) fn forked(&self) -> Option<GenerateError> {
        let here = std::process::id();
        let made_in = self.made_in;
        (here != made_in).then_some(GenerateError::Forked { made_in, here })
    }

    fn refuse_fork(&self) -> Result<(), GenerateError> {
        self.forked().map_or(Ok(()), Err)
    }

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
                // IDs of two leases need not increase: the earlier ones stay a gap.
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
        match self.step(self.clock.wall(), 1)? {
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

    /// Waits until IDs can be made, without taking one.
    pub(super) async fn ready(&self, deadline: Instant) -> Result<(), GenerateError> {
        self.run(0, deadline).await.map(drop)
    }

    /// Up to `count` IDs of one tick; with 0 none, once there could be one.
    async fn run(&self, count: u32, deadline: Instant) -> Result<IdRun, GenerateError> {
        self.refuse_fork()?;
        // A reading may be older than another thread's: the first wait is a second look.
        let mut looked_again = false;
        loop {
            let mut attempts = self.last_attempt.subscribe();
            attempts.mark_unchanged();
            let now = self.clock.wall();
            match self.step(now, count)? {
                Mint::Ready(run) => return Ok(run),
                Mint::Wait { .. } if !looked_again => looked_again = true,
                Mint::Wait { ms } => self.pause(now, ms, deadline).await?,
                Mint::Refused(refusal) => {
                    let error = self.error_of(refusal);
                    self.after(error, &mut attempts, deadline).await?;
                }
            }
        }
    }

    /// One attempt without any wait.
    fn step(&self, now: WallMs, count: u32) -> Result<Mint, GenerateError> {
        match self.clock.judge_for_minting(now) {
            ClockVerdict::Good => {}
            ClockVerdict::Wait { ms } => return Ok(Mint::Wait { ms }),
            verdict => return Err(GenerateError::of_clock(verdict)),
        }
        match &self.place().holder {
            Some(holder) => Ok(holder.generator.mint(now, count)),
            None => Ok(Mint::Refused(Refusal::Closed)),
        }
    }

    /// Waits for a tick, or for a clock that is a little behind.
    async fn pause(&self, now: WallMs, ms: u64, deadline: Instant) -> Result<(), GenerateError> {
        let until = Instant::now() + Duration::from_millis(ms);
        if until > deadline && Instant::now() >= deadline {
            let used = self.last_used().filter(|last| now < *last);
            return Err(match used {
                Some(last) => GenerateError::ClockBehind {
                    by_ms: last.0 - now.0,
                    until: WallMs(now.0.saturating_add(ms)),
                },
                None => GenerateError::Busy { ms },
            });
        }
        if ms > 1 || !self.next_tick().await {
            sleep(Duration::from_millis(ms)).await;
        }
        Ok(())
    }

    /// Lets other tasks run until the clock shows another millisecond; `false` if it does not. A timer's
    /// grain is a millisecond and it rounds up, so that a sleep would lose every other tick.
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

    /// Waits for the keeper where that helps; the error where it does not.
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
                    // Both name a time of their own.
                    Some(last @ GenerateError::WorkersExhausted { .. }) => last,
                    why => error.with(why),
                })
            }
            // The window begins later than now: within the deadline it is waited for.
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

    /// A window that was renewed just now and has ended by this clock has not ended by the cluster's.
    fn window_ended(&self, fence: Tick, at: WallMs, now: WallMs) -> GenerateError {
        let renewed = {
            let last = self.last_attempt.borrow();
            let is_fresh = last.at.is_some_and(|at| at.elapsed() < FRESH);
            is_fresh && last.error.is_none()
        };
        // Read after the attempt: a fence that was raised meanwhile is a later one.
        let latest = self.holder().map(|holder| holder.generator.fence());
        if renewed && latest == Some(fence) {
            let by_ms = now.0.saturating_sub(at.0);
            return GenerateError::ClockAhead { by_ms };
        }
        GenerateError::WindowEnded { at, why: None }
    }

    /// The last attempt's error, if it would most likely be the next one's too.
    fn final_error(&self) -> Option<GenerateError> {
        let last = self.last_attempt.borrow();
        last.error.clone().filter(GenerateError::is_for_good)
    }

    /// Ends the minting, has the keeper give the worker back, and waits for that.
    pub(super) async fn close(&self, deadline: Instant) -> Result<(), NotReleased> {
        if self.forked().is_some() {
            // The lease is the parent's.
            return Ok(());
        }
        let held = self.seal();
        if let Some(holder) = &held {
            holder.generator.close();
        }
        self.closing.send_if_modified(|until| {
            let is_first = until.is_none();
            *until = until.or(Some(deadline));
            is_first
        });
        let mut closed = self.closed.subscribe();
        let ended = timeout_at(deadline, closed.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(result)) => result.clone().unwrap_or(Ok(())),
            _ => match held {
                None => Ok(()),
                Some(held) => Err(not_released(&held, "no answer within the patience")),
            },
        }
    }

    /// No generator is taken from here on; the one in force stays in its place.
    pub(super) fn seal(&self) -> Option<Arc<Holder>> {
        let mut place = self.place_mut();
        place.is_closed = true;
        // Who waits for a lease is refused.
        self.last_attempt.send_modify(|_| ());
        place.holder.clone()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Until when the worker is to be given back, as soon as it is to be.
    pub(super) async fn until_closing(&self) -> Instant {
        let mut closing = self.closing.subscribe();
        match closing.wait_for(Option::is_some).await {
            Ok(until) => until.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    pub(super) fn report_closed(&self, result: Result<(), NotReleased>) {
        self.closed.send_replace(Some(result));
    }

    /// Takes a new generator into its place; the one before was closed. One that comes after
    /// [`Minter::seal`] is closed at once.
    pub(super) fn install(&self, holder: Holder) {
        self.leases.fetch_add(1, Ordering::Relaxed);
        let mut place = self.place_mut();
        if place.is_closed {
            holder.generator.close();
        }
        place.holder = Some(Arc::new(holder));
    }

    /// Closes the generator in force, whose lease is lost.
    pub(super) fn drop_holder(&self) {
        let holder = self.place_mut().holder.take();
        if let Some(holder) = holder
            && let Some(last) = holder.generator.close()
        {
            self.clock.used(holder.generator.layout().wall_at(last));
        }
    }

    pub(super) fn holder(&self) -> Option<Arc<Holder>> {
        self.place().holder.clone()
    }

    /// When the last tick began that the generator in force has used.
    fn last_used(&self) -> Option<WallMs> {
        let holder = self.holder()?;
        let generator = &holder.generator;
        let last = generator.last_tick()?;
        Some(generator.layout().wall_at(last))
    }

    pub(super) fn report(&self, error: Option<GenerateError>) {
        self.last_attempt.send_replace(LastAttempt {
            at: Some(Instant::now()),
            error,
        });
    }

    pub(super) fn status(&self) -> Status {
        let holder = self.holder().filter(|_| !self.is_closing());
        Status {
            worker: holder.as_ref().map(|holder| holder.generator.worker().0),
            window_ends: holder.as_ref().map(|holder| holder.ends()),
            leases: self.leases.load(Ordering::Relaxed),
            error: self.last_attempt.borrow().error.clone(),
        }
    }

    fn place(&self) -> RwLockReadGuard<'_, Place> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_mut(&self) -> RwLockWriteGuard<'_, Place> {
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn not_released(holder: &Holder, why: impl Into<String>) -> NotReleased {
    NotReleased {
        worker: holder.generator.worker().0,
        until: holder.ends(),
        why: why.into(),
    }
}
