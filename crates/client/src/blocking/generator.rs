//! The generator for programs without a runtime.

use std::time::Duration;

use seqd_idgen::SnowflakeId;
use tokio::runtime::Handle;

use super::thread::{Ends, start};
use crate::client::Client;
use crate::error::Error;
use crate::generator::{GenerateError, GeneratorOptions, NotReleased, Status};

/// As [`crate::IdGenerator`], for threads. Its lease is kept by the thread `seqd-generator`, which
/// ends when it is dropped.
///
/// It may be shared by reference between any number of threads. An ID that is there at once costs
/// no change of thread; a call that waits stops its thread, so it must not be made by a task of a
/// tokio runtime.
#[derive(Debug)]
pub struct IdGenerator {
    /// Before the runtime that it runs on. There until it is dropped.
    inner: Option<crate::IdGenerator>,
    handle: Option<Handle>,
    /// Dropped, it ends the thread.
    ends: Option<Ends>,
}

impl IdGenerator {
    /// Begins to take a worker and returns at once; the first call that asks for IDs waits for it.
    ///
    /// # Errors
    /// [`GenerateError::Owner`]; [`GenerateError::Refused`] if the thread cannot be made.
    pub fn start(client: Client, options: GeneratorOptions) -> Result<Self, GenerateError> {
        let no_thread = |error: std::io::Error| {
            GenerateError::Refused(Box::new(Error::Setup(format!("no thread: {error}"))))
        };
        let (handle, ends) = start("seqd-generator").map_err(no_thread)?;
        let inner = {
            let _inside = handle.enter();
            crate::IdGenerator::start(client, options)?
        };
        Ok(Self {
            inner: Some(inner),
            handle: Some(handle),
            ends: Some(ends),
        })
    }

    /// One ID.
    ///
    /// # Errors
    /// As from [`crate::IdGenerator::ids`].
    pub fn id(&self) -> Result<SnowflakeId, GenerateError> {
        let (inner, handle) = self.parts()?;
        match inner.try_id() {
            Ok(Some(id)) => Ok(id),
            _ => handle.block_on(inner.id()),
        }
    }

    /// `count` IDs, 1 to [`MAX_COUNT`](crate::MAX_COUNT), strictly increasing, all of one worker.
    ///
    /// # Errors
    /// As from [`crate::IdGenerator::ids`].
    pub fn ids(&self, count: u32) -> Result<Vec<SnowflakeId>, GenerateError> {
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.ids(count))
    }

    /// As [`IdGenerator::ids`], waiting for `patience` at most; zero refuses at once.
    ///
    /// # Errors
    /// As from [`crate::IdGenerator::ids`].
    pub fn ids_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<Vec<SnowflakeId>, GenerateError> {
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.ids_within(count, patience))
    }

    /// Waits until an ID can be made.
    ///
    /// # Errors
    /// As from [`crate::IdGenerator::ready`].
    pub fn ready(&self) -> Result<(), GenerateError> {
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.ready())
    }

    /// What it has at this moment; `None` in a fork.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.parts().ok().map(|(inner, _)| inner.status())
    }

    /// Ends the minting for good and gives the worker back.
    ///
    /// # Errors
    /// As from [`crate::IdGenerator::close`]. In a fork it does nothing: the lease is the parent's.
    pub fn close(&self) -> Result<(), NotReleased> {
        match self.parts() {
            Ok((inner, handle)) => handle.block_on(inner.close()),
            Err(_) => Ok(()),
        }
    }

    /// The generator and its runtime, whose thread a fork does not have.
    fn parts(&self) -> Result<(&crate::IdGenerator, &Handle), GenerateError> {
        match (&self.inner, &self.handle) {
            (Some(inner), Some(handle)) => {
                inner.refuse_fork()?;
                Ok((inner, handle))
            }
            _ => Err(GenerateError::Closed),
        }
    }
}

impl Drop for IdGenerator {
    fn drop(&mut self) {
        let is_forked = self.inner.as_ref().is_some_and(|inner| inner.is_forked());
        if is_forked {
            // A lock of the runtime may be held by a thread that the fork does not have.
            std::mem::forget((self.inner.take(), self.handle.take(), self.ends.take()));
        }
    }
}
