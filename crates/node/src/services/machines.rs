//! Machine numbers of namespaces, as CosId distributes them to the instances of an application.
//!
//! A machine number is a lock, and its owner is the instance that holds it. Therefore no number has
//! two holders at a time, and a namespace needs no definition. An instance that restarts within its
//! hold gets the same number.
//!
//! An instance uses its number without a guard for as long as it has no contact: CosId only logs a
//! failed guard. Therefore each guard extends the hold for the longest time of a lock, and a number
//! is taken from an instance without a recent guard only if no number is free.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use seqd_guards::is_out;
use seqd_state::{
    FencingToken, LockHolder, LockName, LockRefusal, MAX_LOCK_TTL_MS, Refusal, State, Tenant,
};
use tokio::time::Instant;

use super::error::{RequestError, ServiceError};
use super::locks::{HoldChange, LockService};
use crate::access::Right;
use crate::replica::peek;

/// The most bits of a machine number. More numbers than this could not be held at the same time.
const MAX_BITS: u32 = 20;

/// The most locks of a namespace. Each request reads all of them, so that one client could occupy a
/// node with a large namespace.
const MOST: usize = 10_000;

/// The time for which an instance holds its number after its last guard. The end of a hold
/// therefore shows the time of this guard.
pub(crate) const HOLD_MS: u64 = MAX_LOCK_TTL_MS;

/// The number of attempts to take a number while other instances take the same numbers. Each
/// attempt chooses among twice as many free numbers as the previous one.
const ATTEMPTS: u32 = 16;

/// The numbers of a namespace.
pub(crate) struct MachinePool {
    /// The common prefix of the names of the locks.
    prefix: String,
    /// [`MOST`], or fewer in a test.
    pub(super) most: usize,
}

/// A number that an instance holds.
struct Machine {
    number: u32,
    token: FencingToken,
}

/// A number for an instance.
enum Choice {
    /// The number that it holds.
    Own(Machine),
    Free(u32),
    /// The number of another instance, which has not guarded it for long.
    Stale(Machine),
}

impl MachinePool {
    pub(crate) fn new(namespace: &str) -> Result<MachinePool, ServiceError> {
        let prefix = Self::prefix(namespace);
        if namespace.is_empty() || namespace.contains('/') {
            let detail = format!(
                "{namespace:?} is not a namespace: it must not be empty, and must contain no /"
            );
            return Err(RequestError::Invalid(detail).into());
        }
        LockName::new(format!("{prefix}00000000")).map_err(RequestError::invalid)?;
        Ok(MachinePool { prefix, most: MOST })
    }

    /// The beginning of the names of a namespace's locks.
    pub(crate) fn prefix(namespace: &str) -> String {
        format!("cosid/{namespace}/")
    }

    fn lock(&self, number: u32) -> String {
        format!("{}{number:08}", self.prefix)
    }

    /// The held numbers in ascending order, with their holders.
    fn held<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (Machine, &'a LockHolder)> + 'a {
        state.locks(&self.prefix, None).filter_map(move |lock| {
            let number = lock.name.as_str().strip_prefix(&self.prefix)?;
            let number = number.parse().ok()?;
            let holder = lock.holders().next()?;
            let token = holder.token;
            Some((Machine { number, token }, holder))
        })
    }

    /// The number of an instance, if it was taken without an access token or with the caller's.
    fn of_instance(&self, state: &State, (instance, caller): (&str, Tenant)) -> Option<Machine> {
        let mut held = self.held(state);
        let own = held.find(|(_, holder)| {
            holder.shown_owner() == instance && holder.tenant.is_one_client_with(caller)
        });
        own.map(|(machine, _)| machine)
    }

    /// The free number with this place among the first `among` free ones. They are counted from the
    /// number after that of the latest grant, so that a released number is not taken again at once.
    fn free(&self, state: &State, bits: u32, (place, among): (u64, u64)) -> Option<u32> {
        let count = 1_u32 << bits;
        let held = self.held(state);
        let held: BTreeMap<_, _> = held
            .map(|(machine, _)| (machine.number, machine.token))
            .collect();
        let latest = held.range(..count).max_by_key(|(_, token)| **token);
        let first = latest.map_or(0, |(number, _)| number + 1);
        let free = (first..count)
            .chain(0..first)
            .filter(|number| !held.contains_key(number));
        let free: Vec<u32> = free
            .take(usize::try_from(among).unwrap_or(usize::MAX))
            .collect();
        let place = place.checked_rem(free.len() as u64)?;
        free.get(usize::try_from(place).ok()?).copied()
    }

    /// The number whose last guard is the oldest, if this guard was at least `stale_ms` ago. The
    /// applied time may lag, so that a guard appears to be more recent than it is. A hold with
    /// another lifetime was not made here, and its end shows no guard.
    fn stalest(&self, state: &State, bits: u32, stale_ms: u64) -> Option<Machine> {
        let now = state.cluster_ms();
        let held = self.held(state).filter(|(machine, holder)| {
            let since_guard_ms = HOLD_MS.saturating_sub(holder.until.left_at(now));
            let is_stale = since_guard_ms >= stale_ms || is_out!(RecentNumberKept);
            machine.number < 1 << bits && holder.ttl_ms == HOLD_MS && is_stale
        });
        let stalest = held.min_by_key(|(_, holder)| holder.until);
        stalest.map(|(machine, _)| machine)
    }

    fn choose(
        &self,
        state: &State,
        (instance, bits, stale_ms): (&str, u32, u64),
        (caller, place): (Tenant, (u64, u64)),
    ) -> Option<Choice> {
        let own = self.of_instance(state, (instance, caller));
        // The instance may have requested more bits before.
        if let Some(own) = own.filter(|own| own.number < 1 << bits) {
            return Some(Choice::Own(own));
        }
        let free = self.free(state, bits, place).map(Choice::Free);
        free.or_else(|| self.stalest(state, bits, stale_ms).map(Choice::Stale))
    }
}

impl LockService {
    /// Assigns a machine number to an instance: the number that it holds, or a free one, chosen by
    /// a hash so that instances that start together choose different ones. If no number is free,
    /// takes the one with the oldest guard, at least `stale_ms` ago. Returns `None` if there is
    /// none.
    pub(crate) async fn take_machine(
        &self,
        pool: &MachinePool,
        asked: (&str, u32, u64),
        by: (&Right, Tenant),
        deadline: Instant,
    ) -> Result<Option<u32>, ServiceError> {
        let (instance, bits, _) = asked;
        if !(1..=MAX_BITS).contains(&bits) {
            let detail = format!("machineBit is 1 to {MAX_BITS}, not {bits}");
            return Err(RequestError::Invalid(detail).into());
        }
        let mut hasher = DefaultHasher::new();
        instance.hash(&mut hasher);
        for attempt in 0..ATTEMPTS {
            self.read_machines(pool, deadline).await?;
            let place = (hasher.finish(), 1_u64 << attempt);
            let choice = peek(&*self.replica, |state| {
                pool.choose(state, asked, (by.1, place))
            });
            let (number, replaced) = match choice.flatten() {
                None => return Ok(None),
                Some(Choice::Own(own)) => {
                    if self.extend_machine(pool, &own, deadline).await? {
                        return Ok(Some(own.number));
                    }
                    continue;
                }
                Some(Choice::Free(number)) => (number, None),
                Some(Choice::Stale(of_other)) => (of_other.number, Some(of_other.token)),
            };
            let lock = pool.lock(number);
            let taken = self.acquire_for(&lock, (instance, HOLD_MS), replaced, by, deadline);
            match taken.await {
                Ok(_) => return Ok(Some(number)),
                Err(ServiceError::Refused(Refusal::Locks(LockRefusal::Held { .. }))) => {}
                Err(error) => return Err(error),
            }
        }
        let detail = "other instances took the same machine numbers at the same time";
        Err(ServiceError::overloaded(detail, 100))
    }

    /// Extends the hold of an instance. Returns `None` if the instance holds no number, and `false`
    /// if the hold has just ended. Both are logged, at most a few times per second.
    pub(crate) async fn guard_machine(
        &self,
        pool: &MachinePool,
        instance: &str,
        (caller, deadline): (Tenant, Instant),
    ) -> Result<Option<bool>, ServiceError> {
        self.read_machines(pool, deadline).await?;
        let own = peek(&*self.replica, |state| {
            pool.of_instance(state, (instance, caller))
        });
        let is_extended = match own.flatten() {
            Some(own) => Some(self.extend_machine(pool, &own, deadline).await?),
            None => None,
        };
        if is_extended != Some(true)
            && let Some(omitted) = self.warnings.take(Instant::now())
        {
            tracing::warn!(
                locks = pool.prefix,
                instance,
                omitted = (omitted > 0).then_some(omitted),
                "compat.cosid: an instance guards a machine number that it does not hold, and \
                 another instance may have the same number: delete the state folder of the \
                 instance and restart it"
            );
        }
        Ok(is_extended)
    }

    /// Ends the hold of an instance. Returns `false` if it holds no number.
    pub(crate) async fn revert_machine(
        &self,
        pool: &MachinePool,
        instance: &str,
        (caller, deadline): (Tenant, Instant),
    ) -> Result<bool, ServiceError> {
        self.read_machines(pool, deadline).await?;
        let own = peek(&*self.replica, |state| {
            pool.of_instance(state, (instance, caller))
        });
        let Some(Machine { number, token }) = own.flatten() else {
            return Ok(false);
        };
        self.change_hold(&pool.lock(number), token, HoldChange::Release, deadline)
            .await
    }

    async fn read_machines(
        &self,
        pool: &MachinePool,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let (prefix, most) = (&pool.prefix, pool.most);
        let is_too_large = |state: &State| state.locks(prefix, None).nth(most).is_some();
        if peek(&*self.replica, is_too_large) == Some(true) {
            let detail = format!(
                "more than {most} locks begin with {prefix}, the most of a namespace of machine \
                 numbers: release some, or use another namespace"
            );
            return Err(ServiceError::overloaded(detail, 1_000));
        }
        let first_end = |state: &State| pool.held(state).map(|(_, holder)| holder.until).min();
        self.read_lasting(first_end, deadline).await.map(drop)
    }

    async fn extend_machine(
        &self,
        pool: &MachinePool,
        own: &Machine,
        deadline: Instant,
    ) -> Result<bool, ServiceError> {
        let change = HoldChange::Extend { ttl_ms: HOLD_MS };
        self.change_hold(&pool.lock(own.number), own.token, change, deadline)
            .await
    }
}
