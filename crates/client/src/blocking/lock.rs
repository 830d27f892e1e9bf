//! The lock guard for programs without an async runtime.

use tokio::runtime::Handle;

use super::thread::{Ends, start};
use crate::boot_clock::BootTime;
use crate::client::Client;
use crate::error::Error;
use crate::hold::{LockError, LockLost, LockOptions};

/// Like [`crate::LockGuard`], for threads. The thread `seqd-lock` renews the hold and ends when the
/// guard is released or dropped.
///
/// A guard that is dropped without [`LockGuard::release`] does not release the lock: the hold is no
/// longer renewed and expires. It must not be used by a task of a tokio runtime. In a forked child
/// it does nothing: the lock belongs to the parent.
#[derive(Debug)]
pub struct LockGuard {
    inner: crate::LockGuard,
    handle: Handle,
    _ends: Ends,
}

impl LockGuard {
    /// Acquires the lock, and waits for it as set in the options.
    ///
    /// # Errors
    /// As for [`crate::LockGuard::acquire`], and [`LockError::Request`] if the thread cannot be
    /// created.
    pub fn acquire(client: &Client, name: &str, options: LockOptions) -> Result<Self, LockError> {
        let no_thread = |error| {
            LockError::Request(Error::Setup(format!(
                "cannot start a thread: \
            {error}"
            )))
        };
        let (handle, ends) = start("seqd-lock").map_err(no_thread)?;
        let inner = handle.block_on(crate::LockGuard::acquire(client, name, options))?;
        Ok(Self {
            inner,
            handle,
            _ends: ends,
        })
    }

    /// Returns the name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Returns the fencing token, which is greater than that of every earlier grant of any lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.token()
    }

    /// Returns the time until which the lock is held at least. Call it before each step that
    /// depends on the lock.
    ///
    /// # Errors
    /// As for [`crate::LockGuard::check`].
    pub fn check(&self) -> Result<BootTime, LockLost> {
        self.inner.check()
    }

    /// Returns whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Blocks until the lock is lost. It is for a thread that then stops the work that depends on
    /// the lock.
    #[must_use]
    pub fn wait_until_lost(&self) -> LockLost {
        self.handle.block_on(self.inner.lost())
    }

    /// Releases the lock and waits for the response.
    ///
    /// # Errors
    /// As for [`crate::LockGuard::release`].
    pub fn release(self) -> Result<(), Error> {
        if self.inner.is_forked() {
            return Ok(());
        }
        self.handle.block_on(self.inner.release())
    }
}
