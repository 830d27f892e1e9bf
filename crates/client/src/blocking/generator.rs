//! The ID generator for programs without an async runtime.

use std::time::Duration;

use seqd_idgen::SnowflakeId;
use tokio::runtime::Handle;

use super::thread::{Ends, start};
use crate::client::Client;
use crate::error::Error;
use crate::generator::{GenerateError, GeneratorOptions, NotReleased, Status};

/// Like [`crate::IdGenerator`], for threads. The thread `seqd-generator` keeps its lease and ends
/// when the generator is dropped.
///
/// Any number of threads may share it by reference. An ID that is available immediately is minted
/// on the calling thread. A waiting call blocks its thread, so it must not be made from a task of a
/// tokio runtime.
#[derive(Debug)]
pub struct IdGenerator {
    /// Declared before the end of its runtime, so that it is dropped first.
    inner: crate::IdGenerator,
    handle: Handle,
    _ends: Ends,
}

impl IdGenerator {
    /// Begins to lease a worker and returns immediately. The first call that requests IDs waits for
    /// the lease.
    ///
    /// # Errors
    /// [`GenerateError::Owner`] for an invalid owner, [`GenerateError::Refused`] if the thread
    /// cannot be created.
    pub fn start(client: Client, options: GeneratorOptions) -> Result<Self, GenerateError> {
        let no_thread = |error: std::io::Error| {
            GenerateError::Refused(Box::new(Error::Setup(format!(
                "cannot start a thread: \
                {error}"
            ))))
        };
        let (handle, ends) = start("seqd-generator").map_err(no_thread)?;
        let inner = {
            let _inside = handle.enter();
            crate::IdGenerator::start(client, options)?
        };
        Ok(Self {
            inner,
            handle,
            _ends: ends,
        })
    }

    /// Returns one ID.
    ///
    /// # Errors
    /// As for [`crate::IdGenerator::ids`].
    pub fn id(&self) -> Result<SnowflakeId, GenerateError> {
        self.inner.refuse_fork()?;
        match self.inner.try_id() {
            Ok(Some(id)) => Ok(id),
            _ => self.handle.block_on(self.inner.id()),
        }
    }

    /// Returns `count` IDs, 1 to [`MAX_COUNT`](crate::MAX_COUNT), strictly increasing and from a
    /// single worker.
    ///
    /// # Errors
    /// As for [`crate::IdGenerator::ids`].
    pub fn ids(&self, count: u32) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.inner.refuse_fork()?;
        self.handle.block_on(self.inner.ids(count))
    }

    /// Like [`IdGenerator::ids`], but waits for at most `patience`. With zero, it never waits.
    ///
    /// # Errors
    /// As for [`crate::IdGenerator::ids`].
    pub fn ids_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<Vec<SnowflakeId>, GenerateError> {
        self.inner.refuse_fork()?;
        self.handle.block_on(self.inner.ids_within(count, patience))
    }

    /// Waits until an ID can be minted.
    ///
    /// # Errors
    /// As for [`crate::IdGenerator::ready`].
    pub fn ready(&self) -> Result<(), GenerateError> {
        self.inner.refuse_fork()?;
        self.handle.block_on(self.inner.ready())
    }

    /// Returns the current state, or `None` in a forked process.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        (!self.inner.is_forked()).then(|| self.inner.status())
    }

    /// Permanently stops minting and releases the worker.
    ///
    /// # Errors
    /// As for [`crate::IdGenerator::close`]. In a forked process it does nothing: the lease belongs
    /// to the parent.
    pub fn close(&self) -> Result<(), NotReleased> {
        if self.inner.is_forked() {
            return Ok(());
        }
        self.handle.block_on(self.inner.close())
    }
}
