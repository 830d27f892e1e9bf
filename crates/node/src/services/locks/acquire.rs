//! Acquires a lock: proposes a claim, waits for its turn, and answers the client.
//!
//! The wait is registered before the claim is proposed, so that the claim's turn is not missed.
//! When the turn comes, the claim is read again. If the wait ends first, this node stops, or it
//! cannot confirm a grant, the claim is withdrawn before the response states that the client does
//! not hold the lock. If the withdrawal fails, the response states that the outcome is unknown. If
//! the client disconnects, the claim is withdrawn as soon as this node detects that. A claim whose
//! owner may find it by a later request is kept instead ([`Unanswered`]).

use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock};
use seqd_guards::is_out;
use seqd_raft::{Part, ProposeError, Turn};
use seqd_state::{
    AcquireLock, Attempt, ClaimView, FencingToken, LockName, LockOutcome, LockRefusal, Nonce,
    Outcome, Tenant, Wait,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::claim::ClaimGuard;
use super::{LockService, SEAL, STOPPING, TTL_MS, full, held, lock_name, owner_of};
use crate::access::Right;
use crate::admission::Serving;
use crate::descriptors::CLIENTS;
use crate::replica::{ReadTime, STATE_WAIT, no_state, peek};
use crate::services::error::{LockError, RequestError, ServiceError, on_state, read, unexpected};
use crate::services::room::Resource;
use crate::services::seals::secret;

/// The most bytes of a client's nonce; a UUID has 36.
const MAX_NONCE_BYTES: usize = 64;

/// The treatment of a claim whose client does not get the answer that it holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It is withdrawn. Only the client of this request knows it.
    Withdrawn,
    /// It remains until it expires, because its owner may find it by a later request.
    Kept,
}

/// A claim in the applied state.
enum Seen {
    Held { token: FencingToken, left_ms: u64 },
    Waiting,
    Gone,
}

impl LockService {
    /// Acquires a lock for the caller, after a wait if the request has one. The deadline applies to
    /// the work; the wait is added to it.
    pub(crate) async fn acquire(
        &self,
        name: &str,
        request: AcquireRequest,
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        if let Some(lease) = request.lease {
            // The caller already holds the lock: the hold is extended.
            let ttl_ms = request.ttl_ms.unwrap_or(TTL_MS);
            let held = self.prolong(lock_name(name)?, &lease, ttl_ms, deadline);
            let lease = Some(lease.clone());
            return Ok(HeldLock {
                lease,
                ..held.await?
            });
        }
        let asked = (asked(name, request, tenant)?, None);
        self.claim(asked, Unanswered::Withdrawn, right, deadline)
            .await
    }

    /// Acquires a lock for an owner that may find the hold by a later request. If `replaced` is
    /// given, the hold with this token ends in the same entry.
    pub(crate) async fn acquire_for(
        &self,
        name: &str,
        (owner, ttl_ms): (&str, u64),
        replaced: Option<FencingToken>,
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        let request = AcquireRequest {
            owner: Some(owner.to_owned()),
            ttl_ms: Some(ttl_ms),
            ..AcquireRequest::default()
        };
        let asked = asked(name, request, tenant)?;
        self.claim((asked, replaced), Unanswered::Kept, right, deadline)
            .await
    }

    /// Makes a claim, and waits for its turn if it has a wait. If `replaced` is given, the hold
    /// with this token ends in the same entry.
    pub(super) async fn claim(
        &self,
        (asked, replaced): (AcquireLock, Option<FencingToken>),
        unanswered: Unanswered,
        right: &Right,
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        if *self.stopping.borrow() {
            return Err(STOPPING);
        }
        self.check_room(&asked)?;
        let _place = self.place_of(asked.wait_ms, asked.tenant)?;
        // The secret is read before anything is granted: a hold without a lease could not be
        // released.
        let key = secret(&*self.replica, deadline).await?;
        let mine = asked.clone();
        let wait = || Wait::Lock {
            name: mine.name.clone(),
            nonce: mine.nonce,
        };
        let turn = self.register(wait, deadline).await?;
        let waits_until = Instant::now() + Duration::from_millis(asked.wait_ms);
        let is_kept = unanswered == Unanswered::Kept && !is_out!(UnansweredKept);
        let asked = (asked, replaced);
        let mut claim =
            ClaimGuard::propose(&self.replica, &self.withdrawals, asked, is_kept, deadline);
        let outcome = match claim.outcome().await {
            Ok(outcome) => outcome,
            Err(error) => {
                if !matches!(error, ProposeError::OutcomeUnknown { .. }) {
                    claim.keep();
                }
                return Err(ServiceError::Propose(error));
            }
        };
        let seen = match outcome {
            Outcome::Locks(LockOutcome::Held { .. }) => {
                self.confirmed(&turn, &mine, deadline).await
            }
            Outcome::Locks(LockOutcome::Waiting { .. }) => {
                let wait = (waits_until, deadline + (waits_until - Instant::now()));
                self.wait(&turn, &mine, wait).await
            }
            // The state made no claim.
            Outcome::Refused(refusal) => {
                claim.keep();
                return Err(ServiceError::Refused(refusal));
            }
            other => Err(unexpected(&other)),
        };
        let error = match seen {
            Ok(Seen::Held { token, left_ms }) => match right.check() {
                // This node has applied the grant, and every revocation that was acknowledged
                // before it.
                Err(why) if !is_out!(GrantNeedsAccess) => Some(LockError::AccessEnded(why).into()),
                _ => {
                    claim.keep();
                    let AcquireLock { name, owner, .. } = mine;
                    let lease = SEAL.close_text(&key, &[name.as_str().as_bytes()], token.0);
                    return Ok(HeldLock {
                        lease: Some(lease),
                        ..held(&name, owner, token, left_ms.min(mine.ttl_ms))
                    });
                }
            },
            Ok(Seen::Waiting | Seen::Gone) => None,
            Err(error) => Some(error),
        };
        if is_kept && let Some(ServiceError::Propose(error) | ServiceError::Unread(error)) = error {
            return Err(LockError::NotWithdrawn(error).into());
        }
        // After each of these answers the client assumes that it holds nothing, so the claim must
        // end first.
        let within = Instant::now() + WITHDRAW_WITHIN;
        let until = match error {
            Some(ServiceError::Propose(ProposeError::Stopping)) => within,
            _ => within.max(deadline),
        };
        let withdrawn = claim.withdraw(until).await;
        withdrawn.map_err(LockError::NotWithdrawn)?;
        Err(error.unwrap_or_else(|| self.held_by_others(mine.name)))
    }

    /// Takes a place for the wait, if the request may wait.
    pub(super) fn place_of(
        &self,
        wait_ms: u64,
        tenant: Tenant,
    ) -> Result<Option<Part>, ServiceError> {
        if wait_ms == 0 || is_out!(WaitsHaveShares) {
            return Ok(None);
        }
        let place = self.waits.take(tenant, 1);
        place.map(Some).ok_or_else(|| {
            let most = "too many requests of this client, or of all clients,";
            full(format!("{most} wait for locks at this node"))
        })
    }

    /// Registers a wait as soon as this node has a state.
    pub(super) async fn register(
        &self,
        wait: impl Fn() -> Wait,
        deadline: Instant,
    ) -> Result<Turn, ServiceError> {
        loop {
            if let Some(turn) = self.replica.wait_for_turn(wait()) {
                return Ok(turn);
            }
            if *self.stopping.borrow() {
                return Err(STOPPING);
            }
            let waited = timeout_at(deadline, sleep(STATE_WAIT)).await;
            if waited.is_err() {
                on_state(&*self.replica, |_| ())?;
                return Err(ServiceError::Unread(no_state()));
            }
        }
    }

    /// Refuses a claim that would exceed this node's limits. Concurrent requests may exceed them a
    /// little; the replicated state has limits of its own.
    fn check_room(&self, asked: &AcquireLock) -> Result<(), ServiceError> {
        let (locks, waiters) = (self.limits.locks, self.limits.lock_waiters);
        let why = peek(&*self.replica, |state| {
            match state.lock(asked.name.as_str()) {
                None => (state.lock_counts().locks >= u64::from(locks)).then(|| {
                    format!("{locks} locks are in use, which is the maximum (limits.locks)")
                }),
                Some(lock) => {
                    let is_new = lock.claim(&asked.owner, asked.nonce).is_none();
                    let is_full =
                        is_new && asked.wait_ms > 0 && lock.waiters().count() >= waiters as usize;
                    is_full.then(|| {
                        let name = &asked.name;
                        format!(
                            "{waiters} requests wait for {name}, which is the maximum \
                             (limits.lock_waiters)"
                        )
                    })
                }
            }
        });
        match why.flatten() {
            Some(why) => Err(full(why)),
            None => self.check_share(asked),
        }
    }

    /// Refuses a new claim that would exceed its tenant's share. Holds and waits count as parts of
    /// `limits.locks`. Above that limit, tenants that hold little still have room.
    fn check_share(&self, asked: &AcquireLock) -> Result<(), ServiceError> {
        let limit = u64::from(self.limits.locks);
        let held = peek(&*self.replica, |state| {
            let lock = state.lock(asked.name.as_str());
            let is_there = lock.is_some_and(|lock| lock.claim(&asked.owner, asked.nonce).is_some());
            let held = state.locks_held();
            let used = held.all().count;
            let undrained = state.undrained(asked.tenant);
            (!is_there).then(|| (held.of(asked.tenant).count, used, undrained))
        });
        let Some((held, used, undrained)) = held.flatten() else {
            return Ok(());
        };
        let claims = Resource::new("holds and waits of locks", "locks", limit).behind(undrained);
        let counted = (held, used.min(limit - 1), 1);
        let checked = claims.check(self.limits.tenant_share, asked.tenant, counted);
        Ok(checked.map_err(|refused| refused.with_used(used))?)
    }

    /// Returns a granted claim as it is in this node's state, once this node has applied its
    /// request.
    async fn confirmed(
        &self,
        turn: &Turn,
        mine: &AcquireLock,
        deadline: Instant,
    ) -> Result<Seen, ServiceError> {
        let entry_until = deadline.min(Instant::now() + ENTRY_FOLLOWS);
        loop {
            let (seen, is_applied) = self.look(mine, None);
            if is_applied && matches!(seen, Seen::Held { .. }) {
                return Ok(seen);
            }
            // The leader's response arrives just before the message with which this node applies
            // the entry.
            if timeout_at(entry_until, turn.came()).await.is_err() {
                break;
            }
        }
        // This node is behind, or the hold has already ended.
        let time = read(&*self.replica, deadline).await?;
        Ok(self.look(mine, Some(time)).0)
    }

    /// Waits for the turn of a claim until the first of the two times. The second is the deadline
    /// of the reads. The result comes from a linearizable read: the remaining time of a hold counts
    /// from the response, and the time that this node has applied may lag.
    async fn wait(
        &self,
        turn: &Turn,
        mine: &AcquireLock,
        (until, deadline): (Instant, Instant),
    ) -> Result<Seen, ServiceError> {
        let _pause = Serving::wait_as_wished();
        let mut stopping = self.stopping.subscribe();
        let has_turn = async {
            while timeout_at(until, turn.came()).await.is_ok() {
                let time = read(&*self.replica, deadline).await?;
                match self.look(mine, Some(time)).0 {
                    Seen::Waiting => {}
                    seen => return Ok(seen),
                }
            }
            match self.look(mine, None) {
                (Seen::Held { .. }, true) => {
                    let time = read(&*self.replica, deadline).await?;
                    Ok(self.look(mine, Some(time)).0)
                }
                _ => Ok(Seen::Waiting),
            }
        };
        tokio::select! {
            seen = has_turn => seen,
            _ = stopping.wait_for(|stopping| *stopping) => Err(STOPPING),
        }
    }

    /// Returns a claim as this node has applied it, and whether the request of `mine` is one of the
    /// claim's requests. Without the time of a read, the remaining time of a hold counts from when
    /// the request was sent, since this node has applied its entry.
    fn look(&self, mine: &AcquireLock, time: Option<ReadTime>) -> (Seen, bool) {
        let seen = peek(&*self.replica, |state| {
            let lock = state.lock(mine.name.as_str())?;
            let claim = lock.claim(&mine.owner, mine.nonce)?;
            let is_applied = claim.has_request(mine.attempt);
            let seen = match claim {
                ClaimView::Held(holder) => Seen::Held {
                    token: holder.token,
                    left_ms: match time {
                        Some(time) => time.left(holder.until),
                        None => holder.until.left_at(lock.now()),
                    },
                },
                ClaimView::Waiting(_) => Seen::Waiting,
            };
            Some((seen, is_applied))
        });
        seen.flatten().unwrap_or((Seen::Gone, false))
    }

    /// The refusal after a wait that ended without a grant.
    fn held_by_others(&self, name: LockName) -> ServiceError {
        let seen = peek(&*self.replica, |state| {
            let lock = state.lock(name.as_str())?;
            let holder = lock.holders().min_by_key(|holder| holder.until).cloned();
            let until = holder.as_ref().map(|holder| holder.until);
            let until = until.max(lock.delayed_until());
            Some((
                holder,
                until.map_or(0, |until| until.0.saturating_sub(lock.now().0)),
            ))
        });
        let (holder, left_ms) = seen.flatten().unwrap_or((None, 0));
        let refusal = LockRefusal::Held {
            name,
            holder: holder.map(Box::new),
            retry_after_ms: left_ms.max(1),
        };
        ServiceError::Refused(refusal.into())
    }
}

/// The time for which a node waits for the entry of a grant after its outcome. After that, the node
/// reads the required index from the leader.
const ENTRY_FOLLOWS: Duration = Duration::from_millis(20);

/// The most requests of all tenants that wait for locks at the same time: as many as a node has
/// connections. A tenant's share is smaller, since each request costs the cluster a claim, and a
/// withdrawal if its client disconnects.
pub(super) const MOST_WAITS: u64 = CLIENTS as u64;

/// The time limit for withdrawing a claim whose client receives an error, or the request's deadline
/// if that is later. At a stopping node, only this limit applies: it is shorter than the grace
/// period of requests. A node that stops because of a failure has a shorter grace period; the
/// connection then ends without a response.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(3);

fn asked(name: &str, request: AcquireRequest, tenant: Tenant) -> Result<AcquireLock, ServiceError> {
    let AcquireRequest {
        owner,
        ttl_ms,
        wait_ms,
        lease: _,
        nonce,
        permits,
        shared,
        lock_delay_ms,
    } = request;
    let owner = owner_of(owner)?;
    let nonce = match nonce {
        Some(request) => named(&owner, &request)?,
        None => Nonce::of_bits(u128::from(draw()?) << 64 | u128::from(draw()?)),
    };
    Ok(AcquireLock {
        name: lock_name(name)?,
        tenant,
        owner,
        nonce,
        attempt: Attempt(draw()?.max(1)),
        ttl_ms: ttl_ms.unwrap_or(TTL_MS),
        wait_ms: wait_ms.unwrap_or(0),
        permits: permits.unwrap_or(1),
        shared: shared.unwrap_or(false),
        lock_delay_ms: lock_delay_ms.unwrap_or(0),
    })
}

fn named(owner: &str, request: &str) -> Result<Nonce, RequestError> {
    let is_printable = request.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_printable || !(1..=MAX_NONCE_BYTES).contains(&request.len()) {
        let detail = format!("nonce has 1 to {MAX_NONCE_BYTES} printable ASCII characters");
        return Err(RequestError::invalid(detail));
    }
    Ok(Nonce::of(owner, request))
}

pub(super) fn draw() -> Result<u64, ServiceError> {
    getrandom::u64().map_err(ServiceError::no_random)
}
