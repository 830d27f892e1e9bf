//! IDs minted in this process, with a worker that the cluster has leased to it.
//!
//! What is minted rests on the fence alone: a lease is a window of ticks that is nobody else's, so
//! a generator that is paused, cut off or has a wrong clock mints nothing that another mints. A
//! task renews the lease at a third of its window; while it cannot, minting goes on up to the fence
//! and is refused from there on, with the reason.
//!
//! From below: `minter`, what is minted from memory; `waits`, the waits around it; `leases`, the
//! three requests; `keeper`, the task that takes, renews and releases; this file, both together.

mod clock;
mod error;
mod granted;
mod keeper;
mod leases;
mod minter;
mod options;
mod pace;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
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

/// The most IDs of one call: 800 KB, and 25 ms of the layout `default`.
pub const MAX_COUNT: u32 = 100_000;

/// What a generator has at this moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// The whole worker field of the lease in force, datacenter bits included; `None` without one.
    pub worker: Option<u32>,
    /// The end of its window by the wall clock: nothing is minted from here on unless it is
    /// renewed.
    pub window_ends: Option<WallMs>,
    /// Leases taken since the start; more than one if a lease was lost.
    pub leases: u64,
    /// Why the last attempt to take or renew a lease failed; `None` if it succeeded.
    pub error: Option<GenerateError>,
}

/// Makes IDs of one layout in this process, under a worker lease of the cluster.
///
/// A task of the runtime takes the lease, renews it at a third of its window and takes another when
/// it is lost; there is one generator per lease, closed before the next lease is asked for. Shared
/// by reference (`Arc`) between any number of tasks; each call takes its IDs with one
/// compare-and-swap and waits for no request.
///
/// Dropped without [`IdGenerator::close`] it stops renewing, and its worker is free once the window
/// has ended. Make one per process: after a fork the child's is refused
/// ([`GenerateError::Forked`]) and leaves the parent's lease alone.
#[derive(Debug)]
pub struct IdGenerator {
    minter: Arc<Minter>,
    keeper: Option<JoinHandle<()>>,
    patience: Duration,
}

impl IdGenerator {
    /// Begins to take a worker and returns at once; [`IdGenerator::ready`] waits for it, and so
    /// does the first call that asks for IDs. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`GenerateError::Owner`] for an owner that no cluster takes.
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

    /// Waits until an ID can be made, for the patience of the options at most.
    ///
    /// # Errors
    /// Why none can be, as from [`IdGenerator::ids`].
    pub async fn ready(&self) -> Result<(), GenerateError> {
        self.minter.ready(self.deadline()).await
    }

    /// One ID.
    ///
    /// # Errors
    /// As from [`IdGenerator::ids`].
    pub async fn id(&self) -> Result<SnowflakeId, GenerateError> {
        match self.try_id() {
            Ok(Some(id)) => Ok(id),
            // What is refused at once may be there within the patience.
            _ => self.minter.one(self.deadline()).await,
        }
    }

    /// One ID if there is one at this moment; `None` where a wait would help: for the next tick, or
    /// for a lease that is being taken. It never waits, and needs no runtime.
    ///
    /// # Errors
    /// As from [`IdGenerator::ids`].
    pub fn try_id(&self) -> Result<Option<SnowflakeId>, GenerateError> {
        self.minter.try_id()
    }

    /// `count` IDs, 1 to [`MAX_COUNT`], strictly increasing, all of one worker. Waits for ticks,
    /// for a lease that is being taken and for a worker that becomes free, for the patience of the
    /// options at most.
    ///
    /// # Errors
    /// Each variant of [`GenerateError`]; none of the IDs is used then, and some may be a gap.
    pub async fn ids(&self, count: u32) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.minter.mint(count, self.deadline()).await
    }

    /// As [`IdGenerator::ids`], waiting for `patience` at most; zero refuses at once.
    ///
    /// # Errors
    /// As from [`IdGenerator::ids`].
    pub async fn ids_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.minter.mint(count, Instant::now() + patience).await
    }

    /// What it has at this moment, for a health check or a log line.
    #[must_use]
    pub fn status(&self) -> Status {
        self.minter.status()
    }

    /// Ends the minting for good, then gives the worker back with the last tick that was used, so
    /// that the same owner gets the same worker again. Another call of it waits for the same
    /// result.
    ///
    /// # Errors
    /// [`NotReleased`] if that was not confirmed within the patience of the options: the worker stays
    /// taken until its window ends. Nothing is minted in either case.
    pub async fn close(&self) -> Result<(), NotReleased> {
        self.minter.close(self.deadline()).await
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    pub(crate) fn refuse_fork(&self) -> Result<(), GenerateError> {
        self.minter.forked().map_or(Ok(()), Err)
    }

    /// Whether this is a copy that a fork has made: its runtime has no threads here.
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
            // Its runtime is the parent's; a lock of it may be held by a thread that is not here.
            std::mem::forget(keeper);
        } else if !self.minter.is_closing() {
            keeper.abort();
        }
    }
}
