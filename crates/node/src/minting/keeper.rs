//! Keeps the window of one seat ahead: takes the lease, extends its fence, takes another when lost.
//!
//! The fence is asked for at a third of the window, so that nodes go on minting through an
//! election. It is asked for by monotonic time too: a lease lives by cluster time, whatever the
//! wall clock does.

use std::sync::Arc;
use std::time::Duration;

use seqd_guards::is_out;
use seqd_idgen::{ClockPolicy, ClockVerdict, Generator};
use seqd_raft::ProposeError;
use seqd_state::{
    Command, LeaseGrant, Outcome, Refusal, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::fence::fence_from;
use super::seat::{FRESH, Holder, Seat};
use super::{ClockWatch, MintError};
use crate::codes::{OTHER_OUTCOME, words};
use crate::replica::{self, Replica, propose_one};

/// How long the cluster may take to answer about a lease before it is asked again.
const ANSWER: Duration = Duration::from_secs(3);

/// The wait after a refusal or a missing answer, unless the refusal carries a longer one.
const RETRY: Duration = Duration::from_millis(200);

/// The longest wait after a refusal: what it waits for may come before its time, as a worker that
/// is given back before its lease ends.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The wait after a refusal that stays one. No request shortens it.
const FOR_GOOD: Duration = Duration::from_secs(60);

/// Requests that find the window ended wake the keeper, but not more often than this.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// A worker beyond the first that has made no ID for so long is given back. Leases of a load that
/// comes and goes within a minute, as that of programs that run by the clock, stay; one that is kept
/// costs an entry of the log each third of a window.
const IDLE: Duration = Duration::from_secs(60);

/// Between the end of a lease at need, or its refusal, and the next.
const BETWEEN_LEASES: Duration = Duration::from_secs(1);

/// What a keeper works with; all keepers of a node share it.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) policy: ClockPolicy,
    /// The owner of the leases: this node's name.
    pub(crate) owner: String,
    /// This node's datacenter, for layouts that have one.
    pub(crate) datacenter: u32,
    /// The window until the replicated setting is known, in milliseconds.
    pub(crate) window_ms: u64,
    /// How many workers of a layout this node may lease.
    pub(crate) workers: u32,
    /// Varies the first sequence of each tick where a layout draws it.
    pub(crate) seed: u64,
}

/// When a keeper last extended its lease and may ask for it again.
#[derive(Debug)]
struct Attempts {
    extended: Instant,
    next: Instant,
    /// By a request that found something missing.
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

impl Keeper {
    /// Keeps the first seat of a layout.
    pub(super) async fn keep(self, seat: Arc<Seat>) {
        let mut attempts = Attempts::begin();
        while !seat.is_stopping() {
            self.attend(&seat, &mut attempts).await;
        }
    }

    /// Keeps a seat that is leased while the load needs it.
    pub(super) async fn keep_at_need(self, seat: Arc<Seat>) {
        while !seat.is_stopping() {
            seat.wanted.notified().await;
            let mut attempts = Attempts::begin();
            let (mut last_tick, mut used) = (None, Instant::now());
            self.attend(&seat, &mut attempts).await;
            while let Some(holder) = seat.holder()
                && !seat.is_stopping()
            {
                let tick = holder.generator.last_tick();
                if tick != last_tick {
                    (last_tick, used) = (tick, Instant::now());
                } else if used.elapsed() >= IDLE {
                    self.release(&seat, Instant::now() + ANSWER).await;
                    break;
                }
                self.attend(&seat, &mut attempts).await;
            }
            // After a refusal no load shortens the wait: the other workers serve it.
            sleep_until(attempts.next.max(Instant::now() + BETWEEN_LEASES)).await;
        }
    }

    /// Extends the lease, or takes one, if that is due; else waits until it may be.
    async fn attend(&self, seat: &Seat, attempts: &mut Attempts) {
        let window = Duration::from_millis(self.window_ms(seat));
        let third = window / 3;
        // The guard learns from regular readings what a jump is.
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
            // No request wakes the keeper while its error is fresh: this bounds the proposals.
            sleep(wait.min(FRESH)).await;
            attempts.woken = false;
        } else {
            // A tenth of a third: a stepped clock is noticed well before the window ends.
            let reading = third / 10;
            let wait = if is_due { reading.min(left) } else { reading };
            attempts.woken = timeout(wait, seat.wake.notified()).await.is_ok();
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
                        "the lease is lost; taking another"
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
            return Err(MintError::NoLeaseYet { detail });
        };
        if !self.clock.is_known() && !is_out!(LeaseWhenKnown) {
            return Err(MintError::clock_unknown());
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
        seat.install(Holder { generator, lease });
        Ok(())
    }

    async fn extend(&self, seat: &Seat, holder: &Holder) -> Result<(), MintError> {
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

    /// Gives the lease back: closes the generator first, then proposes its last tick.
    pub(super) async fn release(&self, seat: &Seat, deadline: Instant) {
        let Some((holder, last)) = seat.close() else {
            return;
        };
        if let Some(last) = last {
            self.clock.used(seat.layout.wall_at(last));
        }
        // Nothing minted means that the window may begin again where it began.
        let first = holder.generator.first_tick();
        let last_tick = last.or_else(|| first.0.checked_sub(1).map(seqd_idgen::Tick));
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
            "the worker was not given back and stays taken for a window"
        );
    }

    fn fence(&self, seat: &Seat) -> Result<seqd_idgen::Tick, MintError> {
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
        // Full by the leader's clock, which may have been wrong.
        MintError::Refused(Refusal::Workers(WorkerRefusal::LayoutExhausted { .. })) => {
            LONGEST_RETRY
        }
        error if error.is_for_good() => FOR_GOOD,
        // Nobody was asked: the node is not a running member yet, which ends without notice.
        MintError::NoLeaseYet { .. } => BETWEEN_ATTEMPTS,
        _ => RETRY,
    }
}
