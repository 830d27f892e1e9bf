//! The minter of one layout: chooses the worker that mints, and waits if necessary.
//!
//! All IDs of a batch are of one worker, and each worker's IDs increase. IDs of different workers
//! are ordered only by tick. The first worker serves alone as long as it can, so that an idle node
//! issues IDs of one worker. The others follow in order, each when the workers before it have used
//! up the tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqd_api::ErrorCode;
use seqd_idgen::{IdRun, Layout, Mint, WallMs, WorkerId};
use seqd_net::Lock;
use tokio::time::{Instant, timeout_at};

use super::demand::Demand;
use super::line::TickTurn;
use super::seat::{Seat, SeatWindow, may_be_stale};
use super::{ClockWatch, MintError};
use crate::admission::Serving;
use crate::places::Places;

/// Requests for many IDs of one layout that mint at the same time. While one waits for a tick, the
/// next ones are queued.
pub(super) const MANY_AT_ONCE: usize = 4;

/// The codes of errors that can occur at any time.
const REFUSALS: [ErrorCode; 7] = [
    ErrorCode::ClockBehind,
    ErrorCode::ClockSkewed,
    ErrorCode::Draining,
    ErrorCode::NoQuorum,
    ErrorCode::NoWorkerYet,
    ErrorCode::Overloaded,
    ErrorCode::WorkersExhausted,
];

/// IDs of one worker in order, one run per tick.
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

/// The IDs gathered for one request.
#[derive(Debug)]
struct Batch {
    got: Option<Minted>,
    count: u32,
    left: u32,
}

impl Batch {
    fn of(count: u32) -> Batch {
        Batch {
            got: None,
            count,
            left: count,
        }
    }

    /// Adds a run. IDs of different workers are not mixed: a run of another worker replaces the IDs
    /// gathered before, which remain a gap. A later lease of the same worker continues in later
    /// ticks.
    fn add(&mut self, run: IdRun) {
        match &mut self.got {
            Some(minted) if minted.first.worker == run.worker => {
                minted.more.push(run);
                self.left -= run.count;
            }
            _ => {
                self.got = Some(Minted {
                    first: run,
                    more: Vec::new(),
                });
                self.left = self.count - run.count;
            }
        }
    }

    fn take_if_complete(&mut self) -> Option<Minted> {
        self.got.take_if(|_| self.left == 0)
    }
}

/// Mints IDs in one layout.
#[derive(Debug)]
pub(crate) struct Minter {
    layout: Layout,
    /// The first seat keeps its lease, the others are leased on demand.
    seats: Box<[Arc<Seat>]>,
    demand: Demand,
    /// Places for requests for many IDs.
    places: Arc<Places>,
    minted: AtomicU64,
    refused: Lock<std::collections::BTreeMap<&'static str, u64>>,
}

impl Minter {
    /// Creates a minter with up to `workers` workers: at least one, and at most as many as the
    /// layout has.
    pub(super) fn new(layout: Layout, workers: u32) -> Minter {
        let seats = 0..workers.clamp(1, layout.workers());
        Minter {
            seats: seats.map(|_| Arc::new(Seat::new(layout.clone()))).collect(),
            layout,
            demand: Demand::default(),
            places: Places::new(MANY_AT_ONCE),
            minted: AtomicU64::new(0),
            // A counter that first appears with a refusal shows no increase.
            refused: Lock::new(REFUSALS.iter().map(|code| (code.as_str(), 0)).collect()),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The first seat, and the seats that are leased on demand.
    pub(super) fn seats(&self) -> (&Arc<Seat>, &[Arc<Seat>]) {
        (&self.seats[0], &self.seats[1..])
    }

    pub(super) fn all_seats(&self) -> &[Arc<Seat>] {
        &self.seats
    }

    /// Mints `count` IDs of one worker. Waits for its turn, the clock or the keeper until
    /// `deadline`.
    pub(crate) async fn mint(
        &self,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<Minted, MintError> {
        self.check_count(count, deadline)?;
        self.mint_checked(clock, count, deadline).await
    }

    /// Refuses a request whose own IDs take too long.
    fn check_count(&self, count: u32, deadline: Instant) -> Result<(), MintError> {
        let checked = self.seats[0].line.check(count, deadline);
        checked.inspect_err(|error| self.count_refusal(error))
    }

    async fn mint_checked(
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

    /// Mints like [`Minter::mint`], for requests for many IDs: few of them mint at the same time,
    /// and tenants take turns. Without turns, a tenant with hundreds of connections would occupy
    /// hundreds of places in the queue before another tenant.
    pub(crate) async fn mint_in_turn(
        &self,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<Minted, MintError> {
        // Before the wait for a place, so that only the request itself decides.
        self.check_count(count, deadline)?;
        let place = self.places.take(Serving::current_tenant(), 1);
        let Ok(_place) = timeout_at(deadline, place).await else {
            let crowded = self.least_waited_for().line.crowded();
            self.count_refusal(&crowded);
            return Err(crowded);
        };
        self.mint_checked(clock, count, deadline).await
    }

    async fn mint_by(
        &self,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<Minted, MintError> {
        let mut batch = Batch::of(count);
        let mut seat = match self.at_once(clock, &mut batch)? {
            Some(seat) => seat,
            None => self.least_waited_for(),
        };
        loop {
            if let Some(minted) = batch.take_if_complete() {
                return Ok(minted);
            }
            let waited = self.fill(seat, clock, &mut batch, deadline).await?;
            if waited == Filled::SeatEmptied {
                // The first seat returns the reason or has a worker.
                (seat, batch) = (&self.seats[0], Batch::of(count));
            }
        }
    }

    /// Takes IDs from the first worker that has some and has no queue, without waiting.
    fn at_once(&self, clock: &ClockWatch, batch: &mut Batch) -> Result<Option<&Seat>, MintError> {
        // A request for more IDs than a tick has must queue.
        if u64::from(batch.count) > u64::from(self.layout.sequences()) {
            return Ok(None);
        }
        let now = clock.wall();
        for seat in &self.seats {
            if seat.line.is_waited_in() {
                continue;
            }
            match seat.step(clock, now, batch.left) {
                Ok(Mint::Ready(run)) => {
                    batch.add(run);
                    return Ok(Some(seat));
                }
                // `fill` reads the clock again and decides.
                Ok(_) | Err(MintError::ClockBehind { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The first of the seats that have a worker and the fewest queued IDs. If no seat has a
    /// worker, the first seat.
    fn least_waited_for(&self) -> &Seat {
        let held = self.seats.iter().filter(|seat| seat.holder().is_some());
        held.min_by_key(|seat| seat.line.waited_for())
            .unwrap_or(&self.seats[0])
    }

    /// Takes the missing IDs of a batch from one seat. Waits for its turn, the clock or the keeper.
    async fn fill(
        &self,
        seat: &Seat,
        clock: &ClockWatch,
        batch: &mut Batch,
        deadline: Instant,
    ) -> Result<Filled, MintError> {
        let mut turn = None;
        // A request queues if others wait for a tick, or if it needs IDs of more than one tick.
        if seat.line.is_waited_in() || u64::from(batch.left) > seat.line.per_tick() {
            turn = Some(self.turn(seat, clock, batch.left, deadline).await?);
        }
        let mut looked_again = false;
        while batch.left > 0 {
            let successes = seat.successes();
            let now = clock.wall();
            let mint = seat.step(clock, now, batch.left);
            if !looked_again && may_be_stale(&mint) {
                looked_again = true;
                continue;
            }
            match mint? {
                Mint::Ready(run) => {
                    batch.add(run);
                    looked_again = false;
                }
                Mint::Wait { ms } => match (seat.reason_to_wait(clock, now, ms), &mut turn) {
                    (MintError::TickFull { .. }, None) => {
                        turn = Some(self.turn(seat, clock, batch.left, deadline).await?);
                    }
                    (reason @ MintError::TickFull { .. }, Some(turn)) => {
                        self.note_full(clock, now);
                        next_tick(turn, clock, now, ms, deadline)
                            .await
                            .ok_or(reason)?;
                    }
                    (reason, _) => seat.pause(ms, reason, deadline).await?,
                },
                Mint::Refused(_) if !std::ptr::eq(seat, &*self.seats[0]) => {
                    return Ok(Filled::SeatEmptied);
                }
                Mint::Refused(refusal) => seat.after(refusal, successes, deadline).await?,
            }
        }
        Ok(Filled::Whole)
    }

    /// Waits for a turn at a seat. A refused request also counts as demand for more workers.
    async fn turn<'a>(
        &self,
        seat: &'a Seat,
        clock: &ClockWatch,
        count: u32,
        deadline: Instant,
    ) -> Result<TickTurn<'a>, MintError> {
        let turn = seat.turn(count, deadline).await;
        if turn.is_err() && seat.holder().is_some() {
            self.note_full(clock, clock.wall());
        }
        turn
    }

    /// Records a full tick if it is full at all workers. If ticks remain full, wakes the keeper of
    /// an empty seat, which leases another worker.
    fn note_full(&self, clock: &ClockWatch, now: WallMs) {
        let (_, others) = self.seats();
        let Some(empty) = others.iter().find(|seat| seat.holder().is_none()) else {
            return;
        };
        let has_room = |seat: &Arc<Seat>| {
            !seat.line.is_waited_in() && matches!(seat.step(clock, now, 0), Ok(Mint::Ready(_)))
        };
        if self.seats.iter().any(has_room) {
            return;
        }
        let tick_ms = u64::from(self.layout.spec().tick_ms);
        if self.demand.note(now.0 / tick_ms, tick_ms) {
            empty.wanted.notify_waiters();
        }
    }

    #[cfg(test)]
    pub(super) fn holder(&self) -> Option<Arc<super::seat::LeasedGenerator>> {
        self.seats[0].holder()
    }

    /// The windows of the leased workers, that of the first seat first.
    pub(crate) fn windows(&self) -> Vec<SeatWindow> {
        self.seats.iter().filter_map(|seat| seat.window()).collect()
    }

    /// The window of the first leased worker.
    pub(crate) fn window(&self) -> Option<SeatWindow> {
        self.seats.iter().find_map(|seat| seat.window())
    }

    /// The start of the last tick that any generator in force has used.
    pub(crate) fn last_used(&self) -> Option<WallMs> {
        self.seats.iter().filter_map(|seat| seat.last_used()).max()
    }

    /// Checks without minting whether an ID could be issued at this moment. The error is that of
    /// the first seat.
    pub(crate) fn check(&self, clock: &ClockWatch) -> Result<SeatWindow, MintError> {
        let (first, others) = self.seats();
        first.check(clock).or_else(|error| {
            let mut held = others.iter().filter(|seat| seat.holder().is_some());
            held.find_map(|seat| seat.check(clock).ok()).ok_or(error)
        })
    }

    pub(crate) fn minted(&self) -> u64 {
        self.minted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let refused = self.refused.lock();
        let counts = refused.iter().map(|(code, count)| (*code, *count));
        counts.collect()
    }

    fn count_refusal(&self, error: &MintError) {
        let code = error.code().as_str();
        *self.refused.lock().entry(code).or_default() += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Whole,
    /// The seat has lost its worker, or its worker cannot mint. Never returned for the first seat.
    SeatEmptied,
}

/// Sleeps until the next tick begins, in `ms`. Returns `None` at once if the deadline is earlier.
async fn next_tick(
    turn: &mut TickTurn<'_>,
    clock: &ClockWatch,
    now: WallMs,
    ms: u64,
    deadline: Instant,
) -> Option<()> {
    let exactly = clock.until(WallMs(now.0.saturating_add(ms)));
    let duration = exactly.unwrap_or(Duration::from_millis(ms));
    if Instant::now() + duration > deadline {
        return None;
    }
    turn.timer.sleep(ms, exactly).await;
    Some(())
}
