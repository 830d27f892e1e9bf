//! Worker leases of generators outside the cluster: take, renew and release over HTTP.
//!
//! The answering node computes the fence from its own clock, as for its own leases, and refuses
//! while that clock is wrong or not confirmed. A lease is named by its number and a code for the
//! layout, the worker and the owner, so a client cannot renew or release another client's lease.
//! Only the lease holder can release it below what was minted, and so cause a tick to be minted
//! twice.

use std::collections::BTreeMap;

use seqd_api::{Lease, LeaseRequest, ReleaseRequest, Released, RenewRequest};
use seqd_guards::is_out;
use seqd_idgen::{ClockVerdict, Layout, Tick, WallMs, WorkerId};
use seqd_net::Lock;
use seqd_state::{
    LeaseGrant, LeaseId, MAX_WORKERS_KNOWN, Outcome, Share, State, TakeLease, Tenant,
    WorkerCommand, WorkerOutcome,
};
use tokio::time::Instant;

use super::error::{LeaseError, RequestError, ServiceError, on_state, propose, read, unexpected};
use super::layouts;
use super::seals::{Seal, secret};
use super::workers::WorkerService;
use crate::minting::{MintError, fence_from};
use crate::replica::{self, peek};
use crate::times::rfc3339;

/// The lease that a request names.
struct Named {
    layout: Layout,
    worker: WorkerId,
    owner: String,
    lease: LeaseId,
}

/// A request for a lease that counts towards its tenant's share until it is dropped.
pub(super) struct LeaseRequested<'a> {
    all: &'a Lock<LeasesRequested>,
    key: (Tenant, String),
}

/// The number of requests for leases of each tenant and layout that this node is serving.
pub(super) type LeasesRequested = BTreeMap<(Tenant, String), u64>;

impl Drop for LeaseRequested<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(count) = all.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.key);
            }
        }
    }
}

impl WorkerService {
    /// Leases a free worker for one window.
    pub(crate) async fn take(
        &self,
        request: LeaseRequest,
        tenant: Tenant,
        deadline: Instant,
    ) -> Result<Lease, ServiceError> {
        let name = request.layout.as_deref().unwrap_or("default");
        let layout = layouts::find_anywhere(&*self.replica, name, deadline).await?;
        let owner = owner_of(request.owner)?;
        // The secret is read before anything is granted: a lease that cannot be named would be
        // lost.
        secret(&*self.replica, deadline).await?;
        let _requested = self.request_lease(&layout, request.datacenter, &owner, tenant)?;
        let command = WorkerCommand::TakeLease(TakeLease {
            layout: layout.name().to_owned(),
            tenant,
            owner: owner.clone(),
            node: None,
            boot: 0,
            fence: self.fence(&layout)?,
            datacenter: request.datacenter,
        });
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => {
                self.view(&layout, owner, grant, deadline).await
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Counts a request for a lease towards its tenant's share until the result is dropped, because
    /// requests that are made at once are all checked before the first of them is granted.
    pub(super) fn request_lease(
        &self,
        layout: &Layout,
        datacenter: Option<u32>,
        owner: &str,
        tenant: Tenant,
    ) -> Result<LeaseRequested<'_>, ServiceError> {
        let key = (tenant, layout.name().to_owned());
        let others = {
            let mut all = self.requested.lock();
            let count = all.entry(key.clone()).or_default();
            *count += 1;
            if is_out!(ShareOfWorkers) {
                0
            } else {
                *count - 1
            }
        };
        let all = &self.requested;
        let requested = LeaseRequested { all, key };
        self.check_share(layout, datacenter, owner, (tenant, others))?;
        Ok(requested)
    }

    /// Refuses a lease that would exceed the tenant's share of the workers of a layout, or of the
    /// requested datacenter, together with `requested` other leases. Of a larger layout, only
    /// 16,384 workers are ever leased. A worker counts until it can be granted again, which after a
    /// release may be as late as its fence. Scans every worker of the layout that was ever leased,
    /// as the lease itself does.
    fn check_share(
        &self,
        layout: &Layout,
        datacenter: Option<u32>,
        owner: &str,
        (tenant, requested): (Tenant, u64),
    ) -> Result<(), ServiceError> {
        if tenant == Tenant::OPERATOR || is_out!(ShareOfTenant) {
            return Ok(());
        }
        let window_ms = self.window_ms(layout);
        let all = (WorkerId(0), WorkerId(layout.workers() - 1));
        let own = datacenter.and_then(|datacenter| layout.workers_of_datacenter(datacenter));
        for (first, last) in [Some(all), own].into_iter().flatten() {
            let workers = u64::from(last.0 - first.0 + 1).min(MAX_WORKERS_KNOWN as u64);
            let seen = peek(&*self.replica, |state| {
                let of_layout = state.leases_of(layout.name());
                let asked = of_layout.filter(|lease| (first..=last).contains(&lease.worker));
                let (mut held, mut used, mut wait_ms) = (requested, requested, window_ms);
                for lease in asked {
                    let own_wait_ms = state.ms_until_free(&lease);
                    used += u64::from(own_wait_ms > 0);
                    if lease.record.tenant == tenant && own_wait_ms > 0 {
                        held += 1;
                        wait_ms = wait_ms.min(own_wait_ms);
                    }
                }
                (held, used, wait_ms)
            });
            let Some((held, used, wait_ms)) = seen else {
                return Ok(());
            };
            let share = self.share_of(workers);
            let used = used.min(workers - 1);
            if !share.permits(held, used, workers) {
                let error = LeaseError::Share {
                    layout: layout.name().to_owned(),
                    owner: owner.to_owned(),
                    held,
                    most: share.most(used, workers),
                    workers,
                    share,
                    retry_after_ms: wait_ms,
                };
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The share of `workers` that one tenant may hold. In a small layout, which is meant for few
    /// clients, one tenant may hold at least three quarters of the workers, or all of them if there
    /// are at most 3.
    fn share_of(&self, workers: u64) -> Share {
        let least = match workers {
            0..4 => 100,
            4..64 => 75,
            _ => 0,
        };
        let percent = self.share.percent().max(least);
        Share::of_percent(percent).unwrap_or(self.share)
    }

    /// Raises the fence of a lease to a window from now.
    pub(crate) async fn renew(
        &self,
        layout: &str,
        worker: &str,
        request: RenewRequest,
        deadline: Instant,
    ) -> Result<Lease, ServiceError> {
        let named = self
            .named(layout, worker, request.owner, request.lease, deadline)
            .await?;
        let command = WorkerCommand::ExtendLease {
            layout: named.layout.name().to_owned(),
            worker: named.worker,
            lease: named.lease,
            fence: self.fence(&named.layout)?,
        };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence }) => {
                let grant = LeaseGrant {
                    layout: named.layout.name().to_owned(),
                    worker: named.worker,
                    lease: named.lease,
                    from_tick: self.first_tick(&named, deadline).await?,
                    fence,
                };
                self.view(&named.layout, named.owner, grant, deadline).await
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a lease.
    pub(crate) async fn release(
        &self,
        layout: &str,
        worker: &str,
        request: ReleaseRequest,
        deadline: Instant,
    ) -> Result<Released, ServiceError> {
        let named = self
            .named(layout, worker, request.owner, request.lease, deadline)
            .await?;
        let command = WorkerCommand::ReleaseLease {
            layout: named.layout.name().to_owned(),
            worker: named.worker,
            lease: named.lease,
            last_tick: request.last_tick.map(Tick),
        };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Workers(WorkerOutcome::LeaseReleased { fence }) => Ok(Released {
                layout: named.layout.name().to_owned(),
                id: named.worker.0,
                fence_tick: fence.0,
                fence_time: rfc3339(named.layout.wall_at(fence)),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// The lease of a request, if the cluster made its code for this worker and owner.
    async fn named(
        &self,
        layout: &str,
        worker: &str,
        owner: Option<String>,
        lease: Option<u128>,
        deadline: Instant,
    ) -> Result<Named, ServiceError> {
        let layout = layouts::find_anywhere(&*self.replica, layout, deadline).await?;
        let owner = owner_of(owner)?;
        let missing = || {
            RequestError::invalid("lease is missing: it is in the response that granted the worker")
        };
        let lease = lease.ok_or_else(missing)?;
        let workers = layout.workers();
        let number = worker.parse().ok().filter(|worker| *worker < workers);
        let worker = number.map(WorkerId).ok_or_else(|| {
            let last = workers - 1;
            RequestError::invalid(format!(
                "the path has a worker, 0 to {last}, not {worker:?}"
            ))
        })?;
        let key = secret(&*self.replica, deadline).await?;
        let (name, id) = (key_of_layout(&layout), worker.0.to_be_bytes());
        let opened = SEAL.open(&key, &[&name, &id, owner.as_bytes()], lease);
        let lease = opened.map(LeaseId).ok_or_else(|| LeaseError::NotGranted {
            layout: layout.name().to_owned(),
            worker: worker.0,
            lease,
            owner: owner.clone(),
        })?;
        Ok(Named {
            layout,
            worker,
            owner,
            lease,
        })
    }

    /// The fence of a window that begins now.
    fn fence(&self, layout: &Layout) -> Result<Tick, ServiceError> {
        let now = self.judged_time()?;
        Ok(fence_from(layout, now, self.window_ms(layout))?)
    }

    /// A time that no right clock has reached yet: each differs from this node's by at most the
    /// permitted skew.
    pub(crate) fn latest_time(&self) -> Result<WallMs, ServiceError> {
        let now = self.judged_time()?;
        let skew_ms = on_state(&*self.replica, |state| {
            let settings = state.settings();
            settings.map_or(0, |settings| settings.max_peer_skew_ms)
        })?;
        Ok(WallMs(now.0.saturating_add(skew_ms)))
    }

    /// The reading of this node's clock, if the clock is known to be right.
    fn judged_time(&self) -> Result<WallMs, ServiceError> {
        let now = self.clock.wall();
        if !self.clock.is_known() {
            return Err(MintError::clock_unknown().into());
        }
        match self.clock.judge(now) {
            ClockVerdict::Good | ClockVerdict::Wait { .. } => {}
            verdict => return Err(MintError::of_clock(verdict).into()),
        }
        Ok(now)
    }

    fn window_ms(&self, layout: &Layout) -> u64 {
        replica::window_ms(&*self.replica, layout, self.window_ms)
    }

    /// The first tick of a lease that was just extended, perhaps through another node.
    async fn first_tick(&self, named: &Named, deadline: Instant) -> Result<Tick, ServiceError> {
        let first = |state: &State| {
            let record = state.worker(named.layout.name(), named.worker)?;
            (record.lease == named.lease).then_some(record.from_tick)
        };
        if let Some(first) = peek(&*self.replica, first).flatten() {
            return Ok(first);
        }
        read(&*self.replica, deadline).await?;
        // The lease was extended, and lost since.
        let first = peek(&*self.replica, first).flatten();
        let over = || LeaseError::Over {
            layout: named.layout.name().to_owned(),
            worker: named.worker.0,
        };
        Ok(first.ok_or_else(over)?)
    }

    async fn view(
        &self,
        layout: &Layout,
        owner: String,
        grant: LeaseGrant,
        deadline: Instant,
    ) -> Result<Lease, ServiceError> {
        let key = secret(&*self.replica, deadline).await?;
        let (name, id) = (key_of_layout(layout), grant.worker.0.to_be_bytes());
        let lease = SEAL.close(&key, &[&name, &id, owner.as_bytes()], grant.lease.0);
        Ok(Lease {
            worker: layout.worker_in_datacenter(grant.worker),
            datacenter: layout.datacenter_of(grant.worker),
            id: grant.worker.0,
            owner,
            lease,
            from_tick: grant.from_tick.0,
            fence_tick: grant.fence.0,
            fence_time: rfc3339(layout.wall_at(grant.fence)),
            renew_after_ms: self.window_ms(layout) / 3,
            layout: layouts::to_api(layout),
        })
    }
}

/// The owner is the last part, since its length is variable.
const SEAL: Seal = Seal(b"seqd worker lease\0");

/// The name and a zero byte, which no name contains.
fn key_of_layout(layout: &Layout) -> Vec<u8> {
    let mut bytes = layout.name().as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn owner_of(owner: Option<String>) -> Result<String, RequestError> {
    owner.ok_or_else(|| {
        RequestError::invalid("owner is missing: a host, pod or service name of 1 to 255 bytes")
    })
}
