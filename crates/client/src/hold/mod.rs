//! A lock that this process holds: acquired, renewed by a task, and released.
//!
//! The process knows until when a hold lasts *at least*. This time is counted from before the
//! answered request was sent, by a clock that includes suspended time. From then on the guard
//! reports the lock as lost, whether or not the cluster can be reached. The cluster may report an
//! earlier loss. The guard never reports the lock as held merely because no loss has been reported.
//!
//! The protected resource should check the token nevertheless: a process can be suspended between
//! the check and the action.
//!
//! From the bottom up: `asks` has the three requests, `acquire` acquires the lock, `keeper` is the
//! task that renews and releases it, and this file has the guard.

mod acquire;
mod asks;
mod error;
mod keeper;
mod options;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod vectors;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub use self::error::{LockError, LockLost};
pub use self::options::LockOptions;

use self::asks::Asks;
use self::keeper::{Hold, Keeper};
use crate::boot_clock::BootTime;
use crate::client::Client;
use crate::error::Error;

/// A lock that is held until it is released, dropped or lost.
///
/// A task of the runtime renews it when two thirds of its `ttl` remain. If the guard is dropped
/// without [`LockGuard::release`], the task releases the lock without waiting for the response. In
/// a forked child the guard does nothing: the lock belongs to the parent.
#[derive(Debug)]
pub struct LockGuard {
    name: String,
    token: u64,
    process: u32,
    hold: watch::Receiver<Hold>,
    /// Makes the keeper release the lock when it is dropped.
    ends: Option<oneshot::Sender<()>>,
    /// `None` only during the drop and after the release.
    keeper: Option<JoinHandle<Result<(), Error>>>,
    clock: fn() -> BootTime,
}

impl LockGuard {
    /// Acquires the lock, and waits for it as set in the options. Must be called within a tokio
    /// runtime. If the future is dropped, the wait ends, and a task of the runtime releases a hold
    /// that was granted in the meantime. A grant whose response had not arrived expires after its
    /// `ttl`.
    ///
    /// # Errors
    /// [`LockError::Held`] if another caller holds it for longer than the wait,
    /// [`LockError::Options`] for options that no cluster accepts, and [`LockError::Request`] if
    /// the cluster refuses permanently, or if the wait is limited and the cluster cannot be reached
    /// before it ends.
    pub async fn acquire(
        client: &Client,
        name: &str,
        options: LockOptions,
    ) -> Result<Self, LockError> {
        Self::with(client.clone(), name, options, BootTime::now).await
    }

    async fn with<A: Asks>(
        asks: A,
        name: &str,
        options: LockOptions,
        clock: fn() -> BootTime,
    ) -> Result<Self, LockError> {
        options.check()?;
        let asks = Arc::new(asks);
        let taken = acquire::acquire(&asks, name, &options, clock).await?;
        let (known, hold) = watch::channel(Hold::Until(taken.until));
        let (ends, ended) = oneshot::channel();
        let keeper = Keeper {
            asks,
            name: name.to_owned(),
            lease: taken.lease,
            ttl: options.ttl,
            known,
            clock,
        };
        Ok(Self {
            name: name.to_owned(),
            token: taken.token,
            process: std::process::id(),
            hold,
            ends: Some(ends),
            keeper: Some(tokio::spawn(keeper.keep(ended))),
            clock,
        })
    }

    /// Returns the name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fencing token, which is greater than that of every earlier grant of any lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the time until which the lock is held at least.
    ///
    /// # Errors
    /// The reason why it is no longer held. In a forked child, [`LockLost::Forked`].
    pub fn check(&self) -> Result<BootTime, LockLost> {
        if self.is_forked() {
            return Err(LockLost::Forked);
        }
        match &*self.hold.borrow() {
            Hold::Until(until) if *until > (self.clock)() => Ok(*until),
            // The task that would report the loss may have been suspended with the process.
            Hold::Until(_) => Err(LockLost::RanOut { why: None }),
            Hold::Lost(lost) => Err(lost.as_ref().clone()),
        }
    }

    /// Returns whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Waits until the lock is lost. Work that depends on the lock must then stop.
    pub async fn lost(&self) -> LockLost {
        let mut hold = self.hold.clone();
        loop {
            match self.check() {
                Err(lost) => return lost,
                // The keeper sends changes. The timeout also detects the end of the hold after a
                // suspension.
                Ok(_) => {
                    let _ = tokio::time::timeout(Duration::from_millis(100), hold.changed()).await;
                }
            }
        }
    }

    /// Waits until a renewal moves the end of the hold beyond `known`, or until the lock is lost.
    ///
    /// # Errors
    /// The reason why it is no longer held.
    pub async fn renewed(&self, known: BootTime) -> Result<BootTime, LockLost> {
        let mut hold = self.hold.clone();
        loop {
            match self.check()? {
                until if until > known => return Ok(until),
                _ => {
                    let _ = tokio::time::timeout(Duration::from_millis(100), hold.changed()).await;
                }
            }
        }
    }

    /// Runs work that depends on the lock, and drops it as soon as the lock is lost.
    ///
    /// # Errors
    /// The reason why the lock was lost before the work completed.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Releases the lock and waits for the response. In a forked child it does nothing: the lock
    /// belongs to the parent.
    ///
    /// # Errors
    /// The error of the release request. A lock that was already lost is not an error.
    pub async fn release(mut self) -> Result<(), Error> {
        if self.is_forked() {
            return Ok(());
        }
        drop(self.ends.take());
        match self.keeper.take() {
            Some(keeper) => keeper.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }

    /// Returns whether this is the copy of a forked process, which does not have the threads of the
    /// runtime.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.is_forked() {
            // A thread that does not exist in the forked process may hold a lock of the runtime.
            std::mem::forget((self.ends.take(), self.keeper.take()));
        }
    }
}
