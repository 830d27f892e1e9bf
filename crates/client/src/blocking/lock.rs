//! The guard of a lock for programs without a runtime.

use tokio::runtime::Handle;

use super::thread::{Ends, start};
use crate::boot_clock::BootTime;
use crate::client::Client;
use crate::error::Error;
use crate::hold::{LockError, LockLost, LockOptions};

/// As [`crate::LockGuard`], for threads. It is renewed by the thread `seqd-lock`, which ends when it is
/// released or dropped.
///
/// Dropped without [`LockGuard::release`] it is renewed no more and runs out by itself: nobody is left
/// to give it back. Not to be used by a task of a tokio runtime.
#[derive(Debug)]
pub struct LockGuard {
    inner: crate::LockGuard,
    handle: Handle,
    _ends: Ends,
}

impl LockGuard {
    /// Takes the lock, waiting for it as the options have it.
    ///
    /// # Errors
    /// As from [`crate::LockGuard::acquire`]; [`LockError::Request`] if the thread cannot be made.
    pub fn acquire(client: &Client, name: &str, options: LockOptions) -> Result<Self, LockError> {
        let no_thread = |error| LockError::Request(Error::Setup(format!("no thread: {error}")));
        let (handle, ends) = start("seqd-lock").map_err(no_thread)?;
        let inner = handle.block_on(crate::LockGuard::acquire(client, name, options))?;
        Ok(Self {
            inner,
            handle,
            _ends: ends,
        })
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The fencing token: larger than that of every grant before it, of any lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.token()
    }

    /// Until when the lock is held at least, as far as is known: to be asked before each step that
    /// rests on it.
    ///
    /// # Errors
    /// As from [`crate::LockGuard::check`].
    pub fn check(&self) -> Result<BootTime, LockLost> {
        self.inner.check()
    }

    /// Whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Waits until the lock is lost, for a thread that ends what rests on it.
    #[must_use]
    pub fn wait_until_lost(&self) -> LockLost {
        self.handle.block_on(self.inner.lost())
    }

    /// Gives the lock back and waits for the answer.
    ///
    /// # Errors
    /// As from [`crate::LockGuard::release`].
    pub fn release(self) -> Result<(), Error> {
        self.handle.block_on(self.inner.release())
    }
}
