//! An in-memory cluster that leases workers by the rules of the real one, and a manually adjustable
//! clock, on paused time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_api::{ErrorCode, Lease, LeaseRequest, Problem, ReleaseRequest, RenewRequest};
use seqd_idgen::{WallClock, WallMs};
use tokio::time::Instant;

use super::leases::Leases;
use crate::definition::layout_of;
use crate::error::{Attempt, Error};

/// The cluster's time at the start of the tests: 2026-11-23T19:00:00Z.
pub(super) const BEGINS: u64 = 1_795_460_400_000;

/// A wall clock that follows paused time and can also be stepped.
#[derive(Clone)]
pub(super) struct Clock {
    since: Instant,
    shift: Arc<AtomicI64>,
    /// The next reading alone is behind by this many milliseconds.
    stale: Arc<AtomicI64>,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            shift: Arc::default(),
            stale: Arc::default(),
        }
    }

    /// Lets the next reading appear as that of a thread that was stopped after it.
    pub(super) fn reading_once_behind_ms(&self, by: i64) {
        self.stale.store(by, Ordering::Relaxed);
    }

    /// Steps the clock relative to the elapsed time.
    pub(super) fn step_ms(&self, by: i64) {
        self.shift.fetch_add(by, Ordering::Relaxed);
    }
}

impl WallClock for Clock {
    fn wall(&self) -> WallMs {
        let passed = self.since.elapsed().as_millis() as i64;
        let stale = self.stale.swap(0, Ordering::Relaxed);
        let now = BEGINS as i64 + passed + self.shift.load(Ordering::Relaxed) - stale;
        WallMs(u64::try_from(now).unwrap())
    }
}

#[derive(Debug, Clone)]
struct Record {
    owner: String,
    lease: u128,
    from: u64,
    fence: u64,
    is_live: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Lease,
    Renew(u32),
    Release(u32, Option<u64>),
}

struct State {
    workers: Vec<Option<Record>>,
    leases: u128,
    asked: Vec<(Duration, Asked)>,
    is_down: bool,
    /// The number of responses to POST that will be lost.
    lost: u32,
    /// The problem that every request receives.
    refuses: Option<Problem>,
    layout: seqd_api::Layout,
}

/// Leases of one layout. Its clock is correct, whatever the clock of a generator shows.
#[derive(Clone)]
pub(super) struct Cluster {
    clock: Clock,
    began: Instant,
    window_ms: u64,
    state: Arc<Mutex<State>>,
}

impl Cluster {
    pub(super) fn new(workers: usize, window_ms: u64) -> Self {
        let layout = seqd_api::Layout {
            name: "default".to_owned(),
            epoch: "2026-01-01T00:00:00Z".to_owned(),
            epoch_ms: 1_767_225_600_000,
            tick_ms: 1,
            time_bits: 41,
            datacenter_bits: 0,
            worker_bits: 10,
            sequence_bits: 12,
            order: "tick-worker-sequence".to_owned(),
            exhausted_at: String::new(),
            workers: 1024,
            ids_per_second: 4_096_000,
            ids_per_second_of_all: 0,
            first_sequence: "spread".to_owned(),
            bits: 63,
            largest: 0,
            fits_53_bits: false,
            overlaps: Vec::new(),
            warnings: Vec::new(),
            leases_known_from_ms: None,
            now_ms: None,
            spread: None,
        };
        Self {
            clock: Clock::new(),
            began: Instant::now(),
            window_ms,
            state: Arc::new(Mutex::new(State {
                workers: vec![None; workers],
                leases: 0,
                asked: Vec::new(),
                is_down: false,
                lost: 0,
                refuses: None,
                layout,
            })),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.with(|state| state.is_down = is_down);
    }

    pub(super) fn lose_answers(&self, count: u32) {
        self.with(|state| state.lost = count);
    }

    pub(super) fn refuse(&self, problem: Option<Problem>) {
        self.with(|state| state.refuses = problem);
    }

    pub(super) fn change_layout(&self, change: impl FnOnce(&mut seqd_api::Layout)) {
        self.with(|state| change(&mut state.layout));
    }

    /// Ends all leases, as the cluster does after a window without a renewal.
    pub(super) fn end_leases(&self) {
        self.with(|state| {
            for record in state.workers.iter_mut().flatten() {
                record.is_live = false;
                record.lease = 0;
            }
        });
    }

    pub(super) fn asked(&self) -> Vec<(Duration, Asked)> {
        self.with(|state| state.asked.clone())
    }

    pub(super) fn count(&self, asked: impl Fn(&Asked) -> bool) -> usize {
        self.asked().iter().filter(|(_, one)| asked(one)).count()
    }

    /// Returns the window of a worker: its first tick and its fence.
    pub(super) fn window(&self, worker: u32) -> (u64, u64) {
        self.with(|state| {
            let record = state.workers[worker as usize].as_ref().unwrap();
            (record.from, record.fence)
        })
    }

    /// Returns the tick and the worker of an ID.
    pub(super) fn parts(&self, id: seqd_idgen::SnowflakeId) -> (u64, u32) {
        let layout = self.with(|state| layout_of(&state.layout).unwrap());
        let parts = layout.unpack(id).unwrap();
        (parts.tick.0, parts.worker.0)
    }

    fn tick(&self, state: &State) -> u64 {
        self.clock.wall().0 - state.layout.epoch_ms
    }

    fn answer<T>(
        &self,
        asked: Asked,
        act: impl FnOnce(&mut State, u64) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let passed = self.began.elapsed();
        self.with(|state| {
            state.asked.push((passed, asked));
            if state.is_down {
                let attempt = Attempt::new("n1:7400", "connection refused");
                return Err(Error::Unreachable(vec![attempt]));
            }
            if let Some(problem) = &state.refuses {
                return Err(Error::Problem(Box::new(problem.clone())));
            }
            let now = self.tick(state);
            act(state, now).map_err(|problem| Error::Problem(Box::new(problem)))
        })
    }

    fn view(&self, state: &State, worker: usize) -> Lease {
        let record = state.workers[worker].clone().unwrap();
        Lease {
            worker: worker as u32,
            datacenter: None,
            id: worker as u32,
            owner: record.owner,
            lease: record.lease,
            from_tick: record.from,
            fence_tick: record.fence,
            fence_time: String::new(),
            renew_after_ms: self.window_ms / 3,
            layout: state.layout.clone(),
        }
    }

    fn take(&self, state: &mut State, owner: &str, now: u64) -> Result<Lease, Problem> {
        let free: BTreeMap<bool, usize> = (0..state.workers.len())
            .rev()
            .filter_map(|at| match &state.workers[at] {
                Some(record) if record.fence > now => None,
                Some(record) => Some((record.owner != owner, at)),
                None => Some((true, at)),
            })
            .collect();
        let Some(at) = free.into_values().next() else {
            let next = state.workers.iter().flatten().map(|record| record.fence);
            let ms = next.min().unwrap_or_default() - now;
            let problem = Problem::new(ErrorCode::WorkersExhausted, "no worker is free");
            return Err(problem.with_retry_after_ms(ms as u32));
        };
        state.leases += 1;
        state.workers[at] = Some(Record {
            owner: owner.to_owned(),
            lease: state.leases,
            from: now,
            fence: now + self.window_ms + 1,
            is_live: true,
        });
        Ok(self.view(state, at))
    }
}

impl Leases for Cluster {
    async fn lease(&self, request: &LeaseRequest) -> Result<Lease, Error> {
        let owner = request.owner.clone().unwrap();
        let lease = self.answer(Asked::Lease, |state, now| self.take(state, &owner, now))?;
        let is_lost = self.with(|state| {
            let is_lost = state.lost > 0;
            state.lost = state.lost.saturating_sub(1);
            is_lost
        });
        if is_lost {
            return Err(Error::OutcomeUnknown(Attempt::new("n1:7400", "timed out")));
        }
        Ok(lease)
    }

    async fn renew(
        &self,
        _: &str,
        worker: u32,
        request: &RenewRequest,
        _: Duration,
    ) -> Result<Lease, Error> {
        self.answer(Asked::Renew(worker), |state, now| {
            let at = worker as usize;
            match &mut state.workers[at] {
                Some(record) if Some(record.lease) == request.lease && record.is_live => {
                    record.fence = record.fence.max(now + self.window_ms + 1);
                    Ok(self.view(state, at))
                }
                _ => Err(Problem::new(ErrorCode::LeaseLost, "another holds it")),
            }
        })
    }

    async fn release(&self, _: &str, worker: u32, request: &ReleaseRequest) -> Result<(), Error> {
        let asked = Asked::Release(worker, request.last_tick);
        self.answer(asked, |state, _| {
            match &mut state.workers[worker as usize] {
                Some(record) if Some(record.lease) == request.lease => {
                    let fence = request.last_tick.map_or(record.fence, |last| last + 1);
                    assert!((record.from..=record.fence).contains(&fence));
                    (record.fence, record.is_live) = (fence, false);
                    Ok(())
                }
                _ => Err(Problem::new(ErrorCode::LeaseLost, "another holds it")),
            }
        })
    }
}
