//! One layout's minter: the generator in force, and the waits around it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use seqd_api::ErrorCode;
use seqd_idgen::{ClockVerdict, Generator, IdRun, Layout, Mint, Refusal, Tick, WallMs, WorkerId};
use seqd_state::LeaseId;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::line::{Line, Turn};
use super::{ClockWatch, MintError};

/// What begins within this is waited for, if the caller's deadline allows, and leaves the node ready.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// An error that was found within this is returned at once instead of being looked into again.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// The codes of refusals that can come at any time.
const REFUSALS: [ErrorCode; 7] = [
    ErrorCode::ClockBehind,
    ErrorCode::ClockSkewed,
    ErrorCode::Draining,
    ErrorCode::NoQuorum,
    ErrorCode::NoWorkerYet,
    ErrorCode::Overloaded,
    ErrorCode::WorkersExhausted,
];

/// IDs of one worker, in order: one run per tick.
#[derive(Debug)]
pub(crate) struct Minted {
    first: IdRun,
    more: Vec<IdRun>,
}

impl Minted {
    /// The whole worker field.
    pub(crate) fn worker(&self) -> WorkerId {
        self.first.worker
    }

    pub(crate) fn len(&self) -> usize {
        let runs = std::iter::once(&self.first).chain(&self.more);
        runs.map(|run| run.count as usize).sum()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(&self.first)
            .chain(&self.more)
            .flat_map(|run| run.iter())
            .map(|id| id.get())
    }
}

/// A lease and the one generator that it will ever have.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) generator: Generator,
    pub(super) lease: LeaseId,
}

/// What the keeper last found, with when. Each attempt makes a new value, so that waiters wake.
#[derive(Clone, Debug)]
pub(super) struct LastAttempt {
    pub(super) at: Instant,
    pub(super) error: Option<MintError>,
}

/// A worker and the end of its window, for health and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The whole worker field.
    pub(crate) worker: WorkerId,
    pub(crate) ends: WallMs,
}

/// Mints in one layout.
///
/// The holder is set by the keeper alone; a generator that left this place is closed first.
#[derive(Debug)]
pub(crate) struct Minter {
    pub(super) layout: Layout,
    holder: RwLock<Option<Arc<Holder>>>,
    /// Wakes the keeper before its time.
    pub(super) wake: Notify,
    last_attempt: watch::Sender<LastAttempt>,
    /// Attempts of the keeper that found or made a window, since the start.
    successes: AtomicU64,
    pub(super) stopping: AtomicBool,
    line: Line,
    minted: AtomicU64,
    refused: Mutex<std::collections::BTreeMap<&'static str, u64>>,
}

impl Minter {
    pub(crate) fn new(layout: Layout) -> Minter {
        let last_attempt = LastAttempt {
            at: Instant::now(),
            error: Some(no_lease_yet()),
        };
        Minter {
            line: Line::of(&layout),
            layout,
            holder: RwLock::new(None),
            wake: Notify::new(),
            last_attempt: watch::Sender::new(last_attempt),
            successes: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            minted: AtomicU64::new(0),
            // A counter that first appears with a refusal shows no increase.
            refused: Mutex::new(REFUSALS.iter().map(|code| (code.as_str(), 0)).collect()),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Mints `count` IDs of one worker, waiting for its turn, the clock or the keeper until `deadline`.
    pub(crate) async fn mint(
        &self,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<Minted, MintError> {
        let minted = self.mint_by(clock, count, deadline).await;
        match &minted {
            Ok(_) => {
                self.minted.fetch_add(u64::from(count), Ordering::Relaxed);
            }
            Err(error) => self.count_refusal(error),
        }
        minted
    }

    async fn mint_by(
        &self,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<Minted, MintError> {
        let mut got: Option<Minted> = None;
        let mut left = count;
        // Who needs IDs of more than one tick, or comes when others wait for a tick, waits in line.
        let mut turn = None;
        if self.line.is_waited_in() || u64::from(count) > self.line.per_tick() {
            turn = Some(self.turn(count, deadline).await?);
        }
        // A reading may be older than another thread's: the first wait is a second look.
        let mut looked_again = false;
        loop {
            let successes = self.successes.load(Ordering::Acquire);
            let now = clock.wall();
            match self.step(clock, now, left)? {
                Mint::Ready(run) => {
                    left = gather(&mut got, run, left, count);
                    looked_again = false;
                    if let Some(all) = got.take_if(|_| left == 0) {
                        return Ok(all);
                    }
                }
                Mint::Wait { .. } if !looked_again => looked_again = true,
                Mint::Wait { ms } => match (self.reason_to_wait(clock, now, ms), &mut turn) {
                    (MintError::TickFull { .. }, None) => {
                        turn = Some(self.turn(left, deadline).await?);
                    }
                    (reason @ MintError::TickFull { .. }, Some(turn)) => {
                        let exactly = clock.until(WallMs(now.0.saturating_add(ms)));
                        let whole = Duration::from_millis(ms);
                        if Instant::now() + exactly.unwrap_or(whole) > deadline {
                            return Err(reason);
                        }
                        turn.timer.sleep(ms, exactly).await;
                    }
                    (reason, _) => self.pause(ms, reason, deadline).await?,
                },
                Mint::Refused(refusal) => self.after(refusal, successes, deadline).await?,
            }
        }
    }

    /// Waits for its turn; a refusal at once where `deadline` comes before its IDs can.
    async fn turn(&self, count: u32, deadline: Instant) -> Result<Turn<'_>, MintError> {
        let place = self.line.join(count, deadline)?;
        match timeout_at(deadline, place.turn()).await {
            Ok(turn) => Ok(turn),
            Err(_) => Err(self.error().unwrap_or_else(|| self.line.crowded())),
        }
    }

    /// One attempt without any wait.
    fn step(&self, clock: &ClockWatch, now: WallMs, count: u32) -> Result<Mint, MintError> {
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

    /// Waits where a wait helps; the error where it does not. `successes` is the keeper's count
    /// from before the refusal.
    async fn after(
        &self,
        refusal: Refusal,
        successes: u64,
        deadline: Instant,
    ) -> Result<(), MintError> {
        let error = self.error_of(refusal);
        match (refusal, error) {
            (_, error @ MintError::WindowBegins { ms }) => self.pause(ms, error, deadline).await,
            (Refusal::Closed, _) if self.stopping.load(Ordering::Acquire) => {
                Err(MintError::Stopping)
            }
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

    /// Why a reading of `now` has to wait for `ms`.
    fn reason_to_wait(&self, clock: &ClockWatch, now: WallMs, ms: u64) -> MintError {
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

    /// Sleeps; returns `reason` at once where the deadline is earlier.
    async fn pause(&self, ms: u64, reason: MintError, deadline: Instant) -> Result<(), MintError> {
        let until = Instant::now() + Duration::from_millis(ms);
        if until > deadline {
            return Err(reason);
        }
        sleep(Duration::from_millis(ms)).await;
        Ok(())
    }

    /// Waits for the keeper's next finding; its error, if it has one, is the better reason.
    ///
    /// Returns at once if the keeper succeeded after `successes` was read: it may have nothing to do
    /// any more and report nothing.
    async fn await_keeper(
        &self,
        reason: MintError,
        successes: u64,
        deadline: Instant,
    ) -> Result<(), MintError> {
        // Before the count is compared: a later success is seen as a change.
        let mut attempts = self.last_attempt.subscribe();
        if self.successes.load(Ordering::Acquire) != successes {
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

    /// Takes a new holder; the one before is closed already.
    pub(super) fn install(&self, holder: Holder) {
        let mut place = self.holder.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::new(holder));
    }

    /// Closes the generator in force, so that nothing is minted with its lease any more.
    pub(super) fn close(&self) -> Option<(Arc<Holder>, Option<Tick>)> {
        let mut place = self.holder.write().unwrap_or_else(PoisonError::into_inner);
        let holder = place.take()?;
        let last = holder.generator.close();
        Some((holder, last))
    }

    pub(super) fn holder(&self) -> Option<Arc<Holder>> {
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

    /// What the keeper last found to be wrong.
    pub(crate) fn error(&self) -> Option<MintError> {
        self.last_attempt.borrow().error.clone()
    }

    pub(crate) fn window(&self) -> Option<Window> {
        let holder = self.holder()?;
        let ends = self.layout.wall_at(holder.generator.fence());
        Some(Window {
            worker: holder.generator.worker(),
            ends,
        })
    }

    /// When the last tick began that this minter's generator has used.
    pub(crate) fn last_used(&self) -> Option<WallMs> {
        let holder = self.holder()?;
        holder
            .generator
            .last_tick()
            .map(|tick| self.layout.wall_at(tick))
    }

    /// Whether an ID could be given at this moment, without taking one.
    pub(crate) fn check(&self, clock: &ClockWatch) -> Result<Window, MintError> {
        let now = clock.wall();
        match self.step(clock, now, 0)? {
            Mint::Wait { ms } if Duration::from_millis(ms) > SHORT_WAIT => {
                Err(self.reason_to_wait(clock, now, ms))
            }
            Mint::Ready(_) | Mint::Wait { .. } => self.window().ok_or_else(no_lease_yet),
            Mint::Refused(Refusal::Closed) => Err(self.error().unwrap_or_else(no_lease_yet)),
            Mint::Refused(refusal) => Err(self.error_of(refusal)),
        }
    }

    pub(crate) fn minted(&self) -> u64 {
        self.minted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused
            .iter()
            .map(|(code, count)| (*code, *count))
            .collect()
    }

    fn count_refusal(&self, error: &MintError) {
        let code = error.code().as_str();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(code).or_default() += 1;
    }
}

fn no_lease_yet() -> MintError {
    let detail = "this node has no worker of this layout yet".to_owned();
    MintError::NoLeaseYet { detail }
}

/// Adds a run; returns how many IDs are left. IDs of another lease do not mix with those gathered
/// before: the request begins anew and the earlier ones stay a gap.
fn gather(got: &mut Option<Minted>, run: IdRun, left: u32, count: u32) -> u32 {
    match got {
        Some(minted) if minted.first.worker == run.worker => {
            minted.more.push(run);
            left - run.count
        }
        _ => {
            *got = Some(Minted {
                first: run,
                more: Vec::new(),
            });
            count - run.count
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_that_came_between_the_refusal_and_the_wait_is_used_at_once() {
        let minter = Minter::new(Layout::preset("default").unwrap());
        let before = minter.successes.load(Ordering::Acquire);
        minter.report(None);
        let began = Instant::now();
        let deadline = began + Duration::from_secs(3);
        let after = minter.after(Refusal::Closed, before, deadline).await;
        assert_eq!((after, began.elapsed()), (Ok(()), Duration::ZERO));
    }
}
