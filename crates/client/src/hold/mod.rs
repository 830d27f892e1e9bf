//! A lock that this process holds: taken, renewed by a task, given back.
//!
//! What is known of a hold is until when it lasts *at least*: counted from before the request that was
//! answered was sent, by a clock that goes on while the machine is suspended. From that moment on the
//! guard says that the lock is lost, whether or not the cluster can be asked. It may be lost sooner,
//! when the cluster says so. It is never said to be held because nobody has said otherwise.
//!
//! What is protected should check the token all the same: a process can be stopped between looking
//! and acting.
//!
//! From below: `asks`, the three requests; `acquire`, how the lock is taken; `keeper`, the task that
//! renews and releases; this file, what the holder has.

mod acquire;
mod asks;
mod error;
mod keeper;
mod options;
#[cfg(test)]
mod tests;

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
/// A task of the runtime renews it at a third of its `ttl`. Dropped without
/// [`LockGuard::release`] it is given back by that task, without an answer to wait for.
#[derive(Debug)]
pub struct LockGuard {
    name: String,
    token: u64,
    process: u32,
    hold: watch::Receiver<Hold>,
    /// Dropped, it has the keeper release the lock.
    ends: Option<oneshot::Sender<()>>,
    keeper: JoinHandle<Result<(), Error>>,
    clock: fn() -> BootTime,
}

impl LockGuard {
    /// Takes the lock, waiting for it as the options have it. To be called within a tokio runtime.
    /// Dropped before it returns, the wait ends, and what was granted meanwhile is given back by a
    /// task of the runtime; a grant whose answer was on its way ends after its `ttl`.
    ///
    /// # Errors
    /// [`LockError::Held`] if another holds it for longer than the wait; [`LockError::Options`] for
    /// options that no cluster takes; [`LockError::Request`] if the cluster refuses for good, or where
    /// the wait has an end and it cannot be asked until then.
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
            keeper: tokio::spawn(keeper.keep(ended)),
            clock,
        })
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token: larger than that of every grant before it, of any lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Until when the lock is held at least, as far as is known.
    ///
    /// # Errors
    /// Why it is not held any more; in a forked child [`LockLost::Forked`].
    pub fn check(&self) -> Result<BootTime, LockLost> {
        if std::process::id() != self.process {
            return Err(LockLost::Forked);
        }
        match &*self.hold.borrow() {
            Hold::Until(until) if *until > (self.clock)() => Ok(*until),
            // The task that would say so may have been stopped with the process.
            Hold::Until(_) => Err(LockLost::RanOut { why: None }),
            Hold::Lost(lost) => Err(lost.as_ref().clone()),
        }
    }

    /// Whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Waits until the lock is lost: the signal to end what rests on it.
    pub async fn lost(&self) -> LockLost {
        let mut hold = self.hold.clone();
        loop {
            match self.check() {
                Err(lost) => return lost,
                // The keeper sends what changes; a clock that was suspended is looked at besides.
                Ok(_) => {
                    let _ = tokio::time::timeout(Duration::from_millis(100), hold.changed()).await;
                }
            }
        }
    }

    /// Waits for the later end of a hold that is renewed, or its loss.
    ///
    /// # Errors
    /// Why it is not held any more.
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

    /// Runs what rests on the lock, and drops it as soon as the lock is lost.
    ///
    /// # Errors
    /// Why the lock was lost before the work was done.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Gives the lock back and waits for the answer.
    ///
    /// # Errors
    /// What the cluster answered; a lock that was lost already is not an error of its release.
    pub async fn release(mut self) -> Result<(), Error> {
        drop(self.ends.take());
        match (&mut self.keeper).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }
}
