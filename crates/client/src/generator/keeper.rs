//! Maintains the lease of one generator: takes a lease, renews it, takes another one if it is lost,
//! and releases it at the end.
//!
//! The fence comes from the cluster's clocks and not from the clock of this process, so the lease
//! is renewed whatever this clock shows.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ErrorCode, Lease, LeaseRequest, Problem, ReleaseRequest, RenewRequest};
use seqd_idgen::{ClockPolicy, Tick};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::GeneratorOptions;
use super::error::{GenerateError, NotReleased};
use super::granted;
use super::leases::Leases;
use super::minter::{LeasedGenerator, Minter, not_released};
use crate::error::Error;
use crate::pace::Pace;

/// The longest pause between two readings of the clock. The guard needs regular readings to detect
/// jumps.
const LONGEST_READING: Duration = Duration::from_secs(1);

/// A call that finds the window ended triggers an early renewal, but not more often than this.
const BETWEEN_WOKEN: Duration = Duration::from_secs(1);

/// The shortest timeout of a renewal: a slow round of consensus.
const LEAST_LIMIT: Duration = Duration::from_secs(1);

/// The shortest time between two renewals. A third of the shortest window is longer.
const LEAST_RENEW_AFTER: Duration = Duration::from_millis(250);

/// The pause between two attempts to release a worker.
const AGAIN: Duration = Duration::from_millis(300);

pub(super) struct Keeper<L> {
    leases: L,
    minter: Arc<Minter>,
    request: LeaseRequest,
    layout: String,
    policy: ClockPolicy,
    pace: Pace,
    /// The time from a grant or renewal of the current lease to its next renewal.
    renew_after: Duration,
}

impl<L: Leases> Keeper<L> {
    pub(super) fn new(leases: L, minter: Arc<Minter>, options: &GeneratorOptions) -> Self {
        let request = LeaseRequest {
            layout: Some(options.layout.clone()),
            owner: Some(options.owner.clone()),
            datacenter: options.datacenter,
        };
        Self {
            leases,
            minter,
            request,
            layout: options.layout.clone(),
            policy: options.clock,
            pace: Pace::new(),
            renew_after: Duration::ZERO,
        }
    }

    pub(super) async fn keep(mut self) {
        while !self.minter.is_closing() {
            let result = self.attempt().await;
            if self.minter.is_closing() {
                break;
            }
            let failed = result.is_err();
            let wait = match &result {
                Ok(()) => self.pace.after_success(self.renew_after),
                Err(error) => {
                    let problem = error.problem().filter(|problem| !is_of_one_node(problem));
                    let asked = problem.and_then(|problem| problem.retry_after_ms);
                    let asked = asked.map(|ms| Duration::from_millis(ms.into()));
                    self.pace
                        .after(error.is_for_good(), asked.or_else(|| self.asked(error)))
                }
            };
            self.minter.report(result.err());
            self.rest(Instant::now() + wait, failed).await;
        }
        let until = self.minter.until_closing().await;
        let result = self.release(until).await;
        self.minter.report_closed(result);
    }

    /// Returns the time after which a worker may be free, if all are leased.
    fn asked(&self, error: &GenerateError) -> Option<Duration> {
        match error {
            GenerateError::WorkersExhausted { until, .. } => {
                let ms = until.0.saturating_sub(self.minter.clock.wall().0);
                Some(Duration::from_millis(ms))
            }
            _ => None,
        }
    }

    /// Waits until the next attempt is due, and reads the clock in the meantime. After a failure,
    /// calls cannot shorten the wait, which bounds the request rate of a generator.
    async fn rest(&self, mut until: Instant, failed: bool) {
        let began = Instant::now();
        loop {
            self.minter.clock.judge(self.minter.clock.wall());
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let reading = left.min(LONGEST_READING);
            tokio::select! {
                () = sleep(reading) => {}
                () = self.minter.wake.notified(), if !failed => {
                    // The call may have sent its notification before the attempt that just
                    // succeeded.
                    if self.is_over() {
                        until = until.min(began + BETWEEN_WOKEN);
                    }
                }
                _ = self.minter.until_closing() => return,
            }
        }
    }

    /// Returns whether there is no window, or it has ended by this clock.
    fn is_over(&self) -> bool {
        let holder = self.minter.holder();
        holder.is_none_or(|holder| holder.ends() <= self.minter.clock.wall())
    }

    async fn attempt(&mut self) -> Result<(), GenerateError> {
        let Some(holder) = self.minter.holder() else {
            return self.take().await;
        };
        let renewed = tokio::select! {
            renewed = self.renew(&holder) => renewed,
            // The lease is released instead.
            _ = self.minter.until_closing() => return Ok(()),
        };
        match renewed {
            Ok(lease) => self.extend(&holder, &lease),
            Err(error) if error.is(ErrorCode::LeaseLost) => {
                self.minter.drop_holder();
                self.take().await
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn take(&mut self) -> Result<(), GenerateError> {
        let lease = self.leases.lease(&self.request).await;
        let lease = lease.map_err(|error| self.failed(error))?;
        let generator = match granted::generator(&lease, self.policy) {
            Ok(generator) => generator,
            Err(error) => {
                // This lease was not used and will not be, so the next holder may use the whole
                // window.
                let request = self.give_back(lease.lease, lease.from_tick.checked_sub(1));
                let _ = self.leases.release(&self.layout, lease.id, &request).await;
                return Err(error);
            }
        };
        self.renew_after = renew_after(&lease);
        let lease = lease.lease;
        self.minter.install(LeasedGenerator { generator, lease });
        Ok(())
    }

    async fn renew(&self, holder: &LeasedGenerator) -> Result<Lease, Error> {
        let request = RenewRequest {
            owner: self.request.owner.clone(),
            lease: Some(holder.lease),
        };
        let worker = holder.generator.worker().0;
        let limit = self.renew_after.max(LEAST_LIMIT);
        self.leases
            .renew(&self.layout, worker, &request, limit)
            .await
    }

    /// Applies the committed fence of the response if it belongs to this lease.
    fn extend(&mut self, holder: &LeasedGenerator, lease: &Lease) -> Result<(), GenerateError> {
        if lease.lease != holder.lease || lease.id != holder.generator.worker().0 {
            return Err(GenerateError::BadLease {
                detail: format!("the renewal is for worker {} and another lease", lease.id),
            });
        }
        holder.generator.extend(Tick(lease.fence_tick));
        self.renew_after = renew_after(lease);
        Ok(())
    }

    /// Closes the current generator, then releases its worker. The release is retried until
    /// `deadline` unless it is confirmed, since a second release of the same lease changes nothing.
    async fn release(&self, deadline: Instant) -> Result<(), NotReleased> {
        let Some(holder) = self.minter.seal() else {
            return Ok(());
        };
        let generator = &holder.generator;
        let last = generator.close().map(|tick| tick.0);
        // If nothing was minted, the next window may begin where this one began.
        let last = last.or_else(|| generator.first_tick().0.checked_sub(1));
        let request = self.give_back(holder.lease, last);
        let mut why = "no time was left".to_owned();
        while Instant::now() < deadline {
            let release = self
                .leases
                .release(&self.layout, generator.worker().0, &request);
            match timeout_at(deadline, release).await {
                Ok(Ok(())) => return Ok(()),
                // The lease has already ended: an earlier release succeeded and its response was
                // lost, or another holder has the worker.
                Ok(Err(error)) if error.is(ErrorCode::LeaseLost) => return Ok(()),
                Ok(Err(error)) => {
                    why = error.to_string();
                    if self.failed(error).is_for_good() {
                        break;
                    }
                }
                Err(_) => break,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let _ = timeout(left, sleep(AGAIN)).await;
        }
        Err(not_released(&holder, why))
    }

    fn give_back(&self, lease: u128, last_tick: Option<u64>) -> ReleaseRequest {
        ReleaseRequest {
            owner: self.request.owner.clone(),
            lease: Some(lease),
            last_tick,
        }
    }

    fn failed(&self, error: Error) -> GenerateError {
        GenerateError::of_request(error, &self.layout, self.minter.clock.wall())
    }
}

/// Returns whether the problem is a wrong clock of the answering node. Another node may have a
/// correct clock, so waiting does not help.
fn is_of_one_node(problem: &Problem) -> bool {
    let code = problem.error_code();
    matches!(code, Some(ErrorCode::ClockBehind | ErrorCode::ClockSkewed))
}

fn renew_after(lease: &Lease) -> Duration {
    Duration::from_millis(lease.renew_after_ms).max(LEAST_RENEW_AFTER)
}
