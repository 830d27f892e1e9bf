//! Mints from memory with the current generator, and installs and removes generators.
//!
//! The lock around the current generator is held only while a pointer is exchanged, never during a
//! request. A call that mints sends no request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use seqd_idgen::{ClockVerdict, Generator, Mint, Refusal, WallMs};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::clock::ClockWatch;
use super::error::{GenerateError, NotReleased};
use super::{GeneratorOptions, Status};

/// A lease and its only generator.
#[derive(Debug)]
pub(super) struct LeasedGenerator {
    pub(super) generator: Generator,
    pub(super) lease: u128,
}

impl LeasedGenerator {
    /// Returns the end of its window by the wall clock.
    pub(super) fn ends(&self) -> WallMs {
        let generator = &self.generator;
        generator.layout().wall_at(generator.fence())
    }
}

/// The current generator. After it is closed, no other generator is accepted.
#[derive(Debug, Default)]
pub(super) struct CurrentGenerator {
    holder: Option<Arc<LeasedGenerator>>,
    pub(super) is_closed: bool,
}

/// The result of the keeper's last attempt. Each attempt sends a new value, which wakes the
/// waiters.
#[derive(Debug, Clone, Default)]
pub(super) struct LastAttempt {
    /// The end of the attempt. `None` before the first.
    pub(super) at: Option<Instant>,
    pub(super) error: Option<GenerateError>,
}

/// Mints for one [`IdGenerator`](super::IdGenerator), which shares it with its keeper.
///
/// Only the keeper sets the holder. A generator is closed before another one is installed.
pub(super) struct Minter {
    /// The ID of the process that created it.
    made_in: u32,
    pub(super) clock: ClockWatch,
    place: RwLock<CurrentGenerator>,
    /// Wakes the keeper before its next attempt is due.
    pub(super) wake: Notify,
    pub(super) last_attempt: watch::Sender<LastAttempt>,
    /// Held by the one call that polls the clock for the next millisecond.
    pub(super) looking: tokio::sync::Mutex<()>,
    /// The deadline for the release of the worker. `None` until the generator is closing.
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
        Self {
            made_in: process,
            clock: ClockWatch::new(Arc::clone(&options.wall_clock), options.clock),
            place: RwLock::default(),
            wake: Notify::new(),
            last_attempt: watch::Sender::default(),
            looking: tokio::sync::Mutex::new(()),
            closing: watch::Sender::default(),
            closed: watch::Sender::default(),
            leases: AtomicU64::new(0),
        }
    }

    /// Returns an error if this process is a fork of the process that created the minter.
    pub(super) fn forked(&self) -> Option<GenerateError> {
        let here = std::process::id();
        let made_in = self.made_in;
        (here != made_in).then_some(GenerateError::Forked { made_in, here })
    }

    pub(super) fn refuse_fork(&self) -> Result<(), GenerateError> {
        self.forked().map_or(Ok(()), Err)
    }

    /// One attempt to mint, without waiting.
    pub(super) fn step(&self, now: WallMs, count: u32) -> Result<Mint, GenerateError> {
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

    /// Stops minting, lets the keeper release the worker, and waits for the result.
    pub(super) async fn close(&self, deadline: Instant) -> Result<(), NotReleased> {
        if self.forked().is_some() {
            // The lease belongs to the parent.
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
                Some(held) => Err(not_released(&held, "no response within the time limit")),
            },
        }
    }

    /// Prevents the installation of another generator. The current one stays in place.
    pub(super) fn seal(&self) -> Option<Arc<LeasedGenerator>> {
        let mut place = self.place_mut();
        place.is_closed = true;
        // Wakes the callers that wait for a lease, so that they fail.
        self.last_attempt.send_modify(|_| ());
        place.holder.clone()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Waits until the generator is closing, and returns the deadline for the release of the
    /// worker.
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

    /// Installs a new generator. The previous one is already closed. A generator that arrives after
    /// [`Minter::seal`] is closed immediately.
    pub(super) fn install(&self, holder: LeasedGenerator) {
        self.leases.fetch_add(1, Ordering::Relaxed);
        let mut place = self.place_mut();
        if place.is_closed {
            holder.generator.close();
        }
        place.holder = Some(Arc::new(holder));
    }

    /// Closes and removes the current generator, whose lease is lost.
    pub(super) fn drop_holder(&self) {
        let holder = self.place_mut().holder.take();
        if let Some(holder) = holder
            && let Some(last) = holder.generator.close()
        {
            self.clock.used(holder.generator.layout().wall_at(last));
        }
    }

    pub(super) fn holder(&self) -> Option<Arc<LeasedGenerator>> {
        self.place().holder.clone()
    }

    /// Returns the start of the last tick that the current generator used.
    pub(super) fn last_used(&self) -> Option<WallMs> {
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

    pub(super) fn place(&self) -> RwLockReadGuard<'_, CurrentGenerator> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_mut(&self) -> RwLockWriteGuard<'_, CurrentGenerator> {
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn not_released(holder: &LeasedGenerator, why: impl Into<String>) -> NotReleased {
    NotReleased {
        worker: holder.generator.worker().0,
        until: holder.ends(),
        why: why.into(),
    }
}
