//! Maintains the lease of one seat: takes it, extends its fence, and takes another if it is lost.
//!
//! The keeper requests a new fence when a third of the window has passed, so that nodes continue to
//! mint through an election. It measures this third by monotonic time too, since a lease expires by
//! cluster time, regardless of the wall clock.

use std::sync::Arc;
use std::time::Duration;

use seqd_guards::is_out;
use seqd_idgen::{ClockPolicy, ClockVerdict, Generator, Tick};
use seqd_raft::ProposeError;
use seqd_state::{
    Command, LeaseGrant, Outcome, Refusal, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::fence::fence_from;
use super::seat::{FRESH, LeasedGenerator, Seat};
use super::{ClockWatch, MintError};
use crate::codes::{OTHER_OUTCOME, words};
use crate::replica::{self, Replica, propose_one};

/// The timeout of a request about a lease, after which the keeper tries again.
const ANSWER: Duration = Duration::from_secs(3);

/// The wait after a refusal or a timeout, unless the refusal specifies a longer one.
const RETRY: Duration = Duration::from_millis(200);

/// The longest wait after a refusal. A retry may succeed before the announced time, for example if
/// another node returns its worker.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The wait after a permanent refusal. No request shortens it.
const FOR_GOOD: Duration = Duration::from_secs(60);

/// Requests that find the window ended wake the keeper, but at most once in this time.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// A worker beyond the first that has minted no ID for this long is returned. The time is long
/// enough for a load that recurs every minute, such as scheduled jobs, to keep its leases. An
/// unused lease costs one log entry per third of a window.
const IDLE: Duration = Duration::from_secs(60);

/// The same for any worker of a node that is being drained: longer than the pause between the
/// requests of a client that still uses the node.
const IDLE_WHEN_DRAINED: Duration = Duration::from_secs(1);

/// The least time between the end or refusal of an additional lease and the next.
const BETWEEN_LEASES: Duration = Duration::from_secs(1);

/// The shared context of all keepers of a node.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) policy: ClockPolicy,
    /// The owner of the leases: this node's name.
    pub(crate) owner: String,
    /// This node's datacenter, for layouts that have one.
    pub(crate) datacenter: u32,
    /// The window in milliseconds until the replicated setting is known.
    pub(crate) window_ms: u64,
    /// The most workers of one layout that this node may lease.
    pub(crate) workers: u32,
    /// True if the node is drained, so that unused workers are returned.
    pub(crate) drained: Arc<watch::Sender<bool>>,
    /// Varies the first sequence of each tick, in layouts that draw it at random.
    pub(crate) seed: u64,
}

/// The times of the last extension and of the next permitted attempt.
#[derive(Debug)]
struct Attempts {
    extended: Instant,
    next: Instant,
    /// Set if a request without a usable window woke the keeper.
    woken: bool,
}

impl Attempts {
    fn begin() -> Attempts {
        let now = Instant::now();
        Attempts {
            extended: now,
            next: now,
            woken: false,
        }
    }
}

/// The last use of a seat.
struct Use {
    last_tick: Option<Tick>,
    at: Instant,
}

impl Use {
    fn begin() -> Use {
        Use {
            last_tick: None,
            at: Instant::now(),
        }
    }

    /// The time for which the worker of this seat has minted nothing.
    fn idle_for(&mut self, holder: &LeasedGenerator) -> Duration {
        let tick = holder.generator.last_tick();
        if tick != self.last_tick {
            (self.last_tick, self.at) = (tick, Instant::now());
        }
        self.at.elapsed()
    }
}

impl Keeper {
    /// Maintains the first seat of a layout. While the node is drained, an unused worker is
    /// returned, and the next request leases another.
    pub(super) async fn keep(self, seat: Arc<Seat>) {
        let (mut attempts, mut last_use) = (Attempts::begin(), Use::begin());
        while !seat.is_stopping() {
            if let Some(holder) = seat.holder()
                && last_use.idle_for(&holder) >= IDLE_WHEN_DRAINED
                && self.is_drained()
            {
                self.release_while_running(&seat).await;
                let mut drained = self.drained.subscribe();
                tokio::select! {
                    () = seat.wake.notified() => {}
                    _ = drained.wait_for(|is_drained| !is_drained) => {}
                }
                if seat.is_stopping() {
                    break;
                }
                (attempts, last_use) = (Attempts::begin(), Use::begin());
            }
            self.attend(&seat, &mut attempts).await;
        }
    }

    fn is_drained(&self) -> bool {
        *self.drained.borrow()
    }

    /// Maintains a seat that is leased only while the load needs it.
    pub(super) async fn keep_at_need(self, seat: Arc<Seat>) {
        while !seat.is_stopping() {
            seat.wanted.notified().await;
            let (mut attempts, mut last_use) = (Attempts::begin(), Use::begin());
            self.attend(&seat, &mut attempts).await;
            while let Some(holder) = seat.holder()
                && !seat.is_stopping()
            {
                let limit = if self.is_drained() {
                    IDLE_WHEN_DRAINED
                } else {
                    IDLE
                };
                if last_use.idle_for(&holder) >= limit {
                    self.release_while_running(&seat).await;
                    break;
                }
                self.attend(&seat, &mut attempts).await;
            }
            // No load shortens the wait after a refusal, since the other workers serve the load.
            sleep_until(attempts.next.max(Instant::now() + BETWEEN_LEASES)).await;
        }
    }

    /// Takes or extends the lease if that is due; otherwise waits until it may be due.
    async fn attend(&self, seat: &Seat, attempts: &mut Attempts) {
        let window = Duration::from_millis(self.window_ms(seat));
        let third = window / 3;
        // The clock guard detects a jump by regular readings.
        self.clock.judge(self.clock.wall());
        let is_due = self.is_due(seat, attempts.extended, third);
        let left = attempts.next.saturating_duration_since(Instant::now());
        let is_refused = seat.error().is_some_and(|error| error.is_for_good());
        if is_due && (left.is_zero() || (attempts.woken && !is_refused)) {
            let result = self.attempt(seat).await;
            let wait = result.as_ref().err().map_or(BETWEEN_ATTEMPTS, retry_after);
            attempts.next = Instant::now() + wait;
            if result.is_ok() {
                attempts.extended = Instant::now();
            }
            seat.report(result.err());
            // No request wakes the keeper while its error is fresh, which limits the number of
            // proposals.
            sleep(wait.min(FRESH)).await;
            attempts.woken = false;
        } else {
            // A tenth of a third: a clock step is detected well before the window ends.
            let reading = third / 10;
            let mut wait = if is_due { reading.min(left) } else { reading };
            let mut drained = self.drained.subscribe();
            if *drained.borrow_and_update() {
                wait = wait.min(IDLE_WHEN_DRAINED);
            }
            attempts.woken = tokio::select! {
                () = seat.wake.notified() => true,
                _ = drained.changed() => false,
                () = sleep(wait) => false,
            };
        }
    }

    fn is_due(&self, seat: &Seat, extended: Instant, third: Duration) -> bool {
        let Some(window) = seat.window() else {
            return true;
        };
        let left = window.ends.0.saturating_sub(self.clock.wall().0);
        let is_short = left < 2 * third.as_millis() as u64;
        is_short || extended.elapsed() >= third || seat.error().is_some()
    }

    async fn attempt(&self, seat: &Seat) -> Result<(), MintError> {
        let now = self.clock.wall();
        let verdict = self.clock.judge(now);
        if matches!(
            verdict,
            ClockVerdict::ForwardJump { .. } | ClockVerdict::Skewed { .. } | ClockVerdict::Split
        ) {
            return Err(MintError::of_clock(verdict));
        }
        match seat.holder() {
            Some(holder) => match self.extend(seat, &holder).await {
                Err(MintError::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. }))) => {
                    tracing::warn!(
                        layout = seat.layout.name(),
                        "the lease is lost; leasing another worker"
                    );
                    if let Some((_, Some(last))) = seat.close() {
                        self.clock.used(seat.layout.wall_at(last));
                    }
                    self.take(seat).await
                }
                other => other,
            },
            None => self.take(seat).await,
        }
    }

    async fn take(&self, seat: &Seat) -> Result<(), MintError> {
        let Some((node, boot)) = self.replica.started() else {
            let detail = "this node is not a running member of its cluster yet".to_owned();
            return Err(self.not_leased(MintError::NoLeaseYet { detail }));
        };
        if !self.clock.is_known() && !is_out!(LeaseWhenKnown) {
            return Err(self.not_leased(MintError::clock_unknown()));
        }
        let has_datacenters = seat.layout.spec().datacenter_bits > 0;
        let command = Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: seat.layout.name().to_owned(),
            owner: self.owner.clone(),
            node: Some(node),
            boot,
            fence: self.fence(seat)?,
            datacenter: has_datacenters.then_some(self.datacenter),
        }));
        match self.propose(command).await? {
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => self.install(seat, grant),
            other => Err(unexpected(other)),
        }
    }

    /// The reason why no lease was proposed. A missing leader explains every other one.
    fn not_leased(&self, reason: MintError) -> MintError {
        let error = self.replica.without_leader();
        error.map_or(reason, |error| MintError::NoLeaseYet {
            detail: format!("this node cannot lease a worker: {error}"),
        })
    }

    fn install(&self, seat: &Seat, grant: LeaseGrant) -> Result<(), MintError> {
        let LeaseGrant {
            worker,
            lease,
            from_tick,
            fence,
            ..
        } = grant;
        let seed = self.seed ^ lease.0.rotate_left(32);
        let generator = Generator::new(seat.layout.clone(), worker, from_tick, fence, seed)
            .map_err(|error| MintError::NoLeaseYet {
                detail: error.to_string(),
            })?
            .with_policy(self.policy);
        tracing::info!(
            layout = seat.layout.name(),
            worker = worker.0,
            lease = lease.0,
            "worker leased"
        );
        seat.install(LeasedGenerator { generator, lease });
        Ok(())
    }

    async fn extend(&self, seat: &Seat, holder: &LeasedGenerator) -> Result<(), MintError> {
        let fence = self.fence(seat)?;
        if is_out!(FenceCommitted) {
            holder.generator.extend(fence);
        }
        let command = Command::Workers(WorkerCommand::ExtendLease {
            layout: seat.layout.name().to_owned(),
            worker: holder.generator.worker(),
            lease: holder.lease,
            fence,
        });
        match self.propose(command).await? {
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence }) => {
                holder.generator.extend(fence);
                Ok(())
            }
            other => Err(unexpected(other)),
        }
    }

    /// Returns the lease in a task of its own, which continues if a stop cancels the keeper after
    /// the generator was closed.
    async fn release_while_running(&self, seat: &Arc<Seat>) {
        let (keeper, seat) = (self.clone(), Arc::clone(seat));
        let deadline = Instant::now() + ANSWER;
        let released = tokio::spawn(async move { keeper.release(&seat, deadline).await });
        let _ = released.await;
    }

    /// Returns the lease: closes the generator first, then proposes its last tick.
    pub(super) async fn release(&self, seat: &Seat, deadline: Instant) {
        let Some((holder, last)) = seat.close() else {
            return;
        };
        if let Some(last) = last {
            self.clock.used(seat.layout.wall_at(last));
        }
        // If nothing was minted, the next window may begin at the same tick.
        let first = holder.generator.first_tick();
        let last_tick = last.or_else(|| first.0.checked_sub(1).map(Tick));
        let command = Command::Workers(WorkerCommand::ReleaseLease {
            layout: seat.layout.name().to_owned(),
            worker: holder.generator.worker(),
            lease: holder.lease,
            last_tick,
        });
        let why = match propose_one(self.replica.as_ref(), command, deadline).await {
            Ok(Outcome::Workers(WorkerOutcome::LeaseReleased { .. })) => return,
            Ok(Outcome::Refused(refusal)) => words(&refusal),
            Ok(_) => OTHER_OUTCOME.to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            layout = seat.layout.name(),
            why,
            "the worker was not released and stays reserved for a window"
        );
    }

    fn fence(&self, seat: &Seat) -> Result<Tick, MintError> {
        fence_from(&seat.layout, self.clock.wall(), self.window_ms(seat))
    }

    fn window_ms(&self, seat: &Seat) -> u64 {
        replica::window_ms(self.replica.as_ref(), &seat.layout, self.window_ms)
    }

    async fn propose(&self, command: Command) -> Result<Outcome, MintError> {
        let deadline = Instant::now() + ANSWER;
        propose_one(self.replica.as_ref(), command, deadline)
            .await
            .map_err(MintError::Propose)
    }
}

fn unexpected(outcome: Outcome) -> MintError {
    match outcome {
        Outcome::Refused(Refusal::Workers(WorkerRefusal::FenceTooFar { asked, limit })) => {
            MintError::ClockSkewed {
                detail: format!(
                    "the leader refuses a window up to tick {asked} (limit {limit}): this node's clock \
                 runs ahead of the leader's"
                ),
            }
        }
        Outcome::Refused(refusal) => MintError::Refused(refusal),
        other => MintError::Propose(ProposeError::OutcomeUnknown {
            detail: format!("an outcome of another command: {other:?}"),
        }),
    }
}

fn retry_after(error: &MintError) -> Duration {
    match error {
        MintError::Refused(Refusal::Workers(
            WorkerRefusal::WorkersExhausted { retry_after_ms, .. }
            | WorkerRefusal::WindowsBeginLater { retry_after_ms, .. },
        )) => Duration::from_millis(*retry_after_ms).clamp(RETRY, LONGEST_RETRY),
        // The layout is full by the leader's clock, which may have been wrong.
        MintError::Refused(Refusal::Workers(WorkerRefusal::LayoutExhausted { .. })) => {
            LONGEST_RETRY
        }
        error if error.is_for_good() => FOR_GOOD,
        // No proposal was made: the node is not a running member yet, and no event reports when it
        // is.
        MintError::NoLeaseYet { .. } => BETWEEN_ATTEMPTS,
        _ => RETRY,
    }
}
