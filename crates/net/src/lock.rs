//! A mutex that stays usable after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A mutex without poisoning: if a thread panics while it holds the lock, others use the data as
/// that thread left them.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub const fn new(data: T) -> Self {
        Self(Mutex::new(data))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` while the lock is held.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
