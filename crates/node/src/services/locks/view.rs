//! Locks as they are read: one, and the list.

use seqd_api::{Lock, LocksQuery, Page};
use seqd_state::{LockName, LockView};
use tokio::time::Instant;

use super::{LockError, LockService, lock_name};
use crate::replica::peek;
use crate::services::page::{self, PageRequest};

/// Waiters that an answer names.
const SHOWN_WAITERS: usize = 100;

impl LockService {
    /// One lock after all that was acknowledged before; with `stale`, as this node has it.
    pub(crate) async fn get(
        &self,
        name: &str,
        stale: bool,
        deadline: Instant,
    ) -> Result<Lock, LockError> {
        let name = lock_name(name)?;
        if !stale {
            self.read(deadline).await?;
        }
        let lock = peek(&*self.replica, |state| {
            let lock = state.lock(name.as_str())?;
            let waiters = lock.waiters().take(SHOWN_WAITERS);
            let waiters = waiters.map(|waiter| seqd_api::LockWaiter {
                owner: waiter.owner.clone(),
                waits_ms: lock.ms_until(waiter.until),
                shared: waiter.shared,
            });
            Some(Lock {
                holders: lock
                    .holders()
                    .map(|holder| holder_of(lock, holder))
                    .collect(),
                waiters: waiters.collect(),
                ..counted(lock)
            })
        });
        Ok(lock.flatten().unwrap_or_else(|| unused(&name)))
    }

    /// The locks that are in use, by name.
    pub(crate) async fn list(
        &self,
        query: &LocksQuery,
        permitted: &[String],
        deadline: Instant,
    ) -> Result<Page<Lock>, LockError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let after = wanted.after.as_deref().map(lock_name).transpose()?;
        let asked = query.prefix.as_deref().unwrap_or_default();
        if !query.stale.unwrap_or(false) {
            self.read(deadline).await?;
        }
        let page = peek(&*self.replica, |state| {
            let mut found = Vec::new();
            for prefix in permitted
                .iter()
                .filter_map(|own| page::narrower(own, asked))
            {
                let more = wanted.limit + 1 - found.len();
                found.extend(state.locks(prefix, after.as_ref()).take(more));
            }
            let more = found.len() > wanted.limit;
            found.truncate(wanted.limit);
            let last = found.last().filter(|_| more);
            let next_cursor = last.map(|lock| page::behind(lock.name.as_str()));
            let items = found.into_iter().map(listed).collect();
            Page { items, next_cursor }
        });
        Ok(page.unwrap_or_else(|| wanted.cut(std::iter::empty())))
    }
}

/// As a list has it.
fn listed(lock: LockView<'_>) -> Lock {
    let first = lock.holders().min_by_key(|holder| holder.until);
    Lock {
        holders: first
            .map(|holder| holder_of(lock, holder))
            .into_iter()
            .collect(),
        ..counted(lock)
    }
}

fn counted(lock: LockView<'_>) -> Lock {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Lock {
        name: lock.name.to_string(),
        permits: Some(lock.record.permits),
        holders: Vec::new(),
        waiters: Vec::new(),
        held: count(lock.holders().count()),
        waiting: count(lock.waiters().count()),
        delayed_ms: lock.delayed_until().map_or(0, |until| lock.ms_until(until)),
    }
}

fn unused(name: &LockName) -> Lock {
    Lock {
        name: name.to_string(),
        permits: None,
        holders: Vec::new(),
        waiters: Vec::new(),
        held: 0,
        waiting: 0,
        delayed_ms: 0,
    }
}

fn holder_of(lock: LockView<'_>, holder: &seqd_state::LockHolder) -> seqd_api::LockHolder {
    seqd_api::LockHolder {
        owner: holder.owner.clone(),
        token: holder.token.0,
        expires_in_ms: lock.ms_until(holder.until),
        shared: holder.shared,
    }
}
