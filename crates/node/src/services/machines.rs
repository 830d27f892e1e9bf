//! Machine numbers of namespaces, as CosId distributes them to the instances of an application.
//!
//! A machine number is a lock, and its owner is the instance that holds it. Therefore no number has
//! two holders at a time, a hold lasts for the time that the instance chose, and a namespace needs
//! no definition. An instance that restarts within its hold gets the same number.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use seqd_state::{FencingToken, LockHolder, LockName, LockRefusal, Refusal, State, Tenant};
use tokio::time::Instant;

use super::error::{RequestError, ServiceError};
use super::locks::{HoldChange, LockService};
use crate::access::Right;
use crate::replica::peek;

/// The most bits of a machine number. More numbers than this could not be held at the same time.
const MAX_BITS: u32 = 20;

/// The number of attempts to take a number while other instances take the same numbers. Each
/// attempt chooses among twice as many free numbers as the previous one.
const ATTEMPTS: u32 = 16;

/// The numbers of a namespace.
pub(crate) struct MachinePool {
    /// The common prefix of the names of the locks.
    prefix: String,
}

/// A number that an instance holds.
struct Machine {
    number: u32,
    token: FencingToken,
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
        Ok(MachinePool { prefix })
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

    /// The free number with this place among the first `among` free ones.
    fn free(&self, state: &State, bits: u32, (place, among): (u64, u64)) -> Option<u32> {
        let mut held = self
            .held(state)
            .map(|(machine, _)| machine.number)
            .peekable();
        let mut free = Vec::new();
        for number in 0..1_u32 << bits {
            if held.next_if(|first| *first == number).is_none() {
                free.push(number);
            }
            if free.len() as u64 == among {
                break;
            }
        }
        let place = place.checked_rem(free.len() as u64)?;
        free.get(usize::try_from(place).ok()?).copied()
    }
}

impl LockService {
    /// Assigns a machine number to an instance for `ttl_ms`: the number that the instance holds, or
    /// one of the lowest free numbers, chosen by a hash so that instances that start together
    /// choose different ones. Returns `None` if no number is free.
    pub(crate) async fn take_machine(
        &self,
        pool: &MachinePool,
        (instance, bits, ttl_ms): (&str, u32, u64),
        by: (&Right, Tenant),
        deadline: Instant,
    ) -> Result<Option<u32>, ServiceError> {
        if !(1..=MAX_BITS).contains(&bits) {
            let detail = format!("machineBit is 1 to {MAX_BITS}, not {bits}");
            return Err(RequestError::Invalid(detail).into());
        }
        let mut hasher = DefaultHasher::new();
        instance.hash(&mut hasher);
        for attempt in 0..ATTEMPTS {
            self.read_machines(pool, deadline).await?;
            let seen = peek(&*self.replica, |state| {
                let own = pool.of_instance(state, (instance, by.1));
                // The instance may have requested more bits before.
                let own = own.filter(|own| own.number < 1 << bits);
                let choice = (hasher.finish(), 1_u64 << attempt);
                let free = own.is_none().then(|| pool.free(state, bits, choice));
                (own, free.flatten())
            });
            let (own, free) = seen.unwrap_or_default();
            if let Some(own) = own {
                if self.extend_machine(pool, &own, ttl_ms, deadline).await? {
                    return Ok(Some(own.number));
                }
                continue;
            }
            let Some(number) = free else {
                return Ok(None);
            };
            let lock = pool.lock(number);
            let taken = self.acquire_for(&lock, (instance, ttl_ms), by, deadline);
            match taken.await {
                Ok(_) => return Ok(Some(number)),
                Err(ServiceError::Refused(Refusal::Locks(LockRefusal::Held { .. }))) => {}
                Err(error) => return Err(error),
            }
        }
        let detail = "other instances took the same machine numbers at the same time";
        Err(ServiceError::overloaded(detail, 100))
    }

    /// Extends the hold of an instance to at least `ttl_ms` from now. Returns `None` if the
    /// instance holds no number, and `false` if the hold has just ended.
    pub(crate) async fn guard_machine(
        &self,
        pool: &MachinePool,
        (instance, ttl_ms): (&str, u64),
        (caller, deadline): (Tenant, Instant),
    ) -> Result<Option<bool>, ServiceError> {
        self.read_machines(pool, deadline).await?;
        let own = peek(&*self.replica, |state| {
            pool.of_instance(state, (instance, caller))
        });
        match own.flatten() {
            Some(own) => self
                .extend_machine(pool, &own, ttl_ms, deadline)
                .await
                .map(Some),
            None => Ok(None),
        }
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
        let first_end = |state: &State| pool.held(state).map(|(_, holder)| holder.until).min();
        self.read_lasting(first_end, deadline).await.map(drop)
    }

    async fn extend_machine(
        &self,
        pool: &MachinePool,
        own: &Machine,
        ttl_ms: u64,
        deadline: Instant,
    ) -> Result<bool, ServiceError> {
        let change = HoldChange::Extend { ttl_ms };
        self.change_hold(&pool.lock(own.number), own.token, change, deadline)
            .await
    }
}
