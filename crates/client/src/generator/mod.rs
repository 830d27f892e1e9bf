//! Mints IDs in this process with a worker that the cluster has leased to it.
//!
//! Uniqueness depends only on the fence: a lease is a window of ticks that belongs to no other
//! holder, so a generator that is paused, disconnected or has a wrong clock mints nothing that
//! another generator mints. A task renews the lease at a third of its window. While it cannot,
//! minting continues up to the fence and then fails with the reason.
//!
//! From the bottom up: `minter` mints from memory, `waits` adds the waits around it, `leases` has
//! the three requests, `keeper` is the task that takes, renews and releases a lease, and this file
//! combines them.

mod clock;
mod error;
mod granted;
mod keeper;
mod leases;
mod minter;
mod options;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod vectors;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use seqd_idgen::{SnowflakeId, WallMs};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use error::{GenerateError, NotReleased};
use keeper::Keeper;
use leases::Leases;
use minter::Minter;
pub use options::GeneratorOptions;

use crate::client::Client;

/// The largest number of IDs per call: 800 KB, or 25 ms of the layout `default`.
pub const MAX_COUNT: u32 = 100_000;

/// The current state of a generator.
#[derive(Debug, Clone)]
pub struct Status {
    /// The whole worker field of the current lease, including the datacenter bits. `None` without a
    /// lease.
    pub worker: Option<u32>,
    /// The end of its window by the wall clock. Nothing is minted after it unless the lease is
    /// renewed.
    pub window_ends: Option<WallMs>,
    /// The number of leases taken since the start. It is above one if a lease was lost.
    pub leases: u64,
    /// The reason why the last attempt to take or renew a lease failed. `None` if it succeeded.
    pub error: Option<GenerateError>,
}

/// Mints IDs of one layout in this process, under a worker lease of the cluster.
///
/// A task of the runtime takes the lease, renews it at a third of its window, and takes another one
/// if it is lost. Each lease has one generator, which is closed before the next lease is requested.
/// Any number of tasks may share the value by reference (`Arc`). Each call takes its IDs with one
/// compare-and-swap and waits for no request.
///
/// A generator that is dropped without [`IdGenerator::close`] stops renewing, and its worker is
/// free after the end of the window. Create one generator per process: after a fork, the generator
/// of the child is refused ([`GenerateError::Forked`]) and does not affect the parent's lease.
#[derive(Debug)]
pub struct IdGenerator {
    minter: Arc<Minter>,
    keeper: Option<JoinHandle<()>>,
    patience: Duration,
}

impl IdGenerator {
    /// Begins to lease a worker and returns immediately. [`IdGenerator::ready`] and the first call
    /// that requests IDs wait for the lease. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`GenerateError::Owner`] for an owner that no cluster accepts.
    pub fn start(client: Client, options: GeneratorOptions) -> Result<Self, GenerateError> {
        Self::with(client, options, std::process::id())
    }

    fn with<L: Leases>(
        leases: L,
        options: GeneratorOptions,
        process: u32,
    ) -> Result<Self, GenerateError> {
        options.check()?;
        let patience = options.patience;
        let minter = Arc::new(Minter::new(&options, process));
        let keeper = Keeper::new(leases, Arc::clone(&minter), &options);
        Ok(Self {
            minter,
            keeper: Some(tokio::spawn(keeper.keep())),
            patience,
        })
    }

    /// Waits until an ID can be minted, for at most the patience set in the options.
    ///
    /// # Errors
    /// As for [`IdGenerator::ids`].
    pub async fn ready(&self) -> Result<(), GenerateError> {
        self.minter.ready(self.deadline()).await
    }

    /// Returns one ID.
    ///
    /// # Errors
    /// As for [`IdGenerator::ids`].
    pub async fn id(&self) -> Result<SnowflakeId, GenerateError> {
        match self.try_id() {
            Ok(Some(id)) => Ok(id),
            // After an immediate refusal, an ID may become available within the patience.
            _ => self.minter.one(self.deadline()).await,
        }
    }

    /// Returns one ID if one is available, or `None` if waiting would help: for the next tick, or
    /// for a lease that is being taken. It never waits and needs no runtime.
    ///
    /// # Errors
    /// As for [`IdGenerator::ids`].
    pub fn try_id(&self) -> Result<Option<SnowflakeId>, GenerateError> {
        self.minter.try_id()
    }

    /// Returns `count` IDs, 1 to [`MAX_COUNT`], strictly increasing and from a single worker. Waits
    /// for ticks, for a lease that is being taken, and for a worker to become free, for at most the
    /// patience set in the options.
    ///
    /// # Errors
    /// Any variant of [`GenerateError`]. No ID is returned then, and some numbers may be skipped.
    pub async fn ids(&self, count: u32) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.minter.mint(count, self.deadline()).await
    }

    /// Like [`IdGenerator::ids`], but waits for at most `patience`. With zero, it never waits.
    ///
    /// # Errors
    /// As for [`IdGenerator::ids`].
    pub async fn ids_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.minter.mint(count, Instant::now() + patience).await
    }

    /// Returns the current state, for a health check or a log line.
    #[must_use]
    pub fn status(&self) -> Status {
        self.minter.status()
    }

    /// Permanently stops minting, then releases the worker with the last used tick, so that the
    /// same owner receives the same worker again. A second call waits for the same result.
    ///
    /// # Errors
    /// [`NotReleased`] if the release was not confirmed within the patience set in the options. The
    /// worker then stays leased until its window ends. Nothing is minted in either case.
    pub async fn close(&self) -> Result<(), NotReleased> {
        self.minter.close(self.deadline()).await
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    pub(crate) fn refuse_fork(&self) -> Result<(), GenerateError> {
        self.minter.refuse_fork()
    }

    /// Returns whether this is the copy of a forked process, which does not have the threads of the
    /// runtime.
    pub(crate) fn is_forked(&self) -> bool {
        self.minter.forked().is_some()
    }
}

impl Drop for IdGenerator {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.take() else {
            return;
        };
        if self.is_forked() {
            // The runtime belongs to the parent. A thread that does not exist here may hold one of
            // its locks.
            std::mem::forget(keeper);
        } else if !self.minter.is_closing() {
            keeper.abort();
        }
    }
}
