//! Reads of one lock and of the list of locks.

use std::time::Duration;

use seqd_api::{Lock, LockQuery, LocksQuery, Page};
use seqd_state::{LockName, LockView};
use tokio::time::{Instant, timeout_at};

use super::{LockService, STOPPING, lock_name};
use crate::admission::Serving;
use crate::replica::ReadTime;
use crate::services::error::{RequestError, ServiceError, on_state, read};
use crate::services::page::PageRequest;

/// The longest wait of a reader; proxies end connections that are silent for a minute.
const MOST_WATCH_MS: u64 = 60_000;

/// The most waiters that a response lists.
const SHOWN_WAITERS: usize = 100;

impl LockService {
    /// Returns a lock, by a linearizable read or, with `stale`, as this node has applied it. With a
    /// wait, returns once its first holder has changed.
    pub(crate) async fn get(
        &self,
        name: &str,
        query: &LockQuery,
        deadline: Instant,
    ) -> Result<Lock, ServiceError> {
        let name = lock_name(name)?;
        let wait = wait_of(query)?;
        let time = match query.stale.unwrap_or(false) {
            true => None,
            false => Some(read(&*self.replica, deadline).await?),
        };
        if let Some((token, wait)) = wait {
            let until = Instant::now() + wait;
            self.wait_for_other(&name, token, (until, deadline)).await?;
        }
        self.seen(&name, time)
    }

    /// Waits until the first holder has another token than this one, or until `until`.
    async fn wait_for_other(
        &self,
        name: &LockName,
        token: u64,
        (until, deadline): (Instant, Instant),
    ) -> Result<(), ServiceError> {
        let tenant = Serving::current_tenant();
        let watch = self.watch_holder(name.clone(), tenant, deadline).await?;
        let _pause = Serving::wait_as_wished();
        let mut stopping = self.stopping.subscribe();
        let is_other = async {
            while watch.first()?.map_or(0, |first| first.0) == token {
                if timeout_at(until, watch.changed()).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        tokio::select! {
            other = is_other => other,
            _ = stopping.wait_for(|stops| *stops) => Err(STOPPING),
        }
    }

    fn seen(&self, name: &LockName, time: Option<ReadTime>) -> Result<Lock, ServiceError> {
        let lock = on_state(&*self.replica, |state| {
            let time = time.unwrap_or_else(|| ReadTime::of_applied(state));
            let lock = state.lock(name.as_str())?;
            let waiters = lock.waiters().take(SHOWN_WAITERS);
            let waiters = waiters.map(|waiter| seqd_api::LockWaiter {
                owner: waiter.shown_owner(),
                waits_ms: time.left(waiter.until),
                shared: waiter.shared,
            });
            Some(Lock {
                holders: lock
                    .holders()
                    .map(|holder| holder_of(time, holder))
                    .collect(),
                waiters: waiters.collect(),
                ..counted(lock, time)
            })
        })?;
        Ok(lock.unwrap_or_else(|| unused(name)))
    }

    /// The locks in use, ordered by name.
    pub(crate) async fn list(
        &self,
        query: &LocksQuery,
        permitted: &[String],
        deadline: Instant,
    ) -> Result<Page<Lock>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let after = wanted.after.as_deref().map(lock_name).transpose()?;
        let asked = query.prefix.as_deref().unwrap_or_default();
        let time = match query.stale.unwrap_or(false) {
            true => None,
            false => Some(read(&*self.replica, deadline).await?),
        };
        on_state(&*self.replica, |state| {
            let time = time.unwrap_or_else(|| ReadTime::of_applied(state));
            let (items, next_cursor) = wanted.permitted(
                (permitted, asked),
                |prefix| {
                    let found = state.locks(prefix, after.as_ref());
                    found.map(|lock| (lock.name.as_str(), lock))
                },
                |lock| lock.is_in_use().then(|| listed(lock, time)),
            );
            Page { items, next_cursor }
        })
    }
}

/// The token of the holder whose replacement a reader waits for, and the length of the wait.
fn wait_of(query: &LockQuery) -> Result<Option<(u64, Duration)>, RequestError> {
    let Some(wait_ms) = query.wait_ms else {
        return match query.other_than {
            Some(_) => Err(RequestError::invalid(
                "other_than requires wait_ms: the time to wait",
            )),
            None => Ok(None),
        };
    };
    let token = query.other_than.ok_or_else(|| {
        RequestError::invalid("wait_ms requires other_than: the token of the holder, or 0 for none")
    })?;
    if wait_ms > MOST_WATCH_MS {
        let detail = format!("wait_ms is 0 to {MOST_WATCH_MS}, not {wait_ms}");
        return Err(RequestError::invalid(detail));
    }
    Ok(Some((token, Duration::from_millis(wait_ms))))
}

/// A lock in the form of a list.
fn listed(lock: LockView<'_>, time: ReadTime) -> Lock {
    let first = lock.holders().min_by_key(|holder| holder.until);
    Lock {
        holders: first
            .map(|holder| holder_of(time, holder))
            .into_iter()
            .collect(),
        ..counted(lock, time)
    }
}

fn counted(lock: LockView<'_>, time: ReadTime) -> Lock {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Lock {
        name: lock.name.to_string(),
        permits: Some(lock.record.permits),
        holders: Vec::new(),
        waiters: Vec::new(),
        held: count(lock.holders().count()),
        waiting: count(lock.waiters().count()),
        delayed_ms: lock.delayed_until().map_or(0, |until| time.left(until)),
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

fn holder_of(time: ReadTime, holder: &seqd_state::LockHolder) -> seqd_api::LockHolder {
    seqd_api::LockHolder {
        owner: holder.shown_owner(),
        token: holder.token.0,
        expires_in_ms: time.left(holder.until),
        shared: holder.shared,
    }
}
