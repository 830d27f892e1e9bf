//! The allocator of sequence values for programs without an async runtime.

use std::num::NonZeroU32;
use std::ops::Deref;

use seqd_api::Range;
use tokio::runtime::Handle;

use super::thread::{Ends, start};
use crate::allocator::{AllocateError, AllocatorOptions, AllocatorStatus, Closed};
use crate::client::Client;

/// Like [`crate::SequenceAllocator`], for threads. The thread `seqd-allocator` fetches segments and
/// ends when the allocator is dropped, after unused values were returned.
///
/// The client must not be used in another runtime, because its open connections belong to one. Any
/// number of threads may share the allocator by reference. A value in memory is drawn on the
/// calling thread. A waiting call blocks its thread, so it must not be made from a task of a tokio
/// runtime.
#[derive(Debug)]
pub struct SequenceAllocator {
    /// `None` only during the drop.
    inner: Option<crate::SequenceAllocator>,
    handle: Option<Handle>,
    /// Ends the thread when it is dropped.
    ends: Option<Ends>,
}

impl SequenceAllocator {
    /// Begins to fetch the first segment of this sequence, and returns immediately.
    ///
    /// # Errors
    /// [`AllocateError::Options`], also if the thread cannot be created.
    pub fn start(
        client: Client,
        sequence: impl Into<String>,
        options: AllocatorOptions,
    ) -> Result<Self, AllocateError> {
        let no_thread =
            |error: std::io::Error| AllocateError::Options(format!("no thread: {error}"));
        let (handle, ends) = start("seqd-allocator").map_err(no_thread)?;
        let inner = {
            let _inside = handle.enter();
            crate::SequenceAllocator::start(client, sequence, options)?
        };
        Ok(Self {
            inner: Some(inner),
            handle: Some(handle),
            ends: Some(ends),
        })
    }

    /// Returns the next value if one is in memory. It never waits.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::try_next`].
    #[inline]
    pub fn try_next(&self) -> Result<Option<i64>, AllocateError> {
        match &self.inner {
            Some(inner) => inner.try_next(),
            None => Err(AllocateError::Closed),
        }
    }

    /// Returns the next value.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::next`].
    #[inline]
    pub fn next(&self) -> Result<i64, AllocateError> {
        if let Some(value) = self.try_next()? {
            return Ok(value);
        }
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.next())
    }

    /// Returns the next `count` values, 1 to [`MAX_TAKE`](crate::MAX_TAKE), as ranges in order.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::take`].
    pub fn take(&self, count: u32) -> Result<Vec<Range>, AllocateError> {
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.take(count))
    }

    /// Waits until a value is in memory.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::ready`].
    pub fn ready(&self) -> Result<(), AllocateError> {
        let (inner, handle) = self.parts()?;
        handle.block_on(inner.ready())
    }

    /// Returns the current state, or `None` in a forked process.
    #[must_use]
    pub fn status(&self) -> Option<AllocatorStatus> {
        self.parts().ok().map(|(inner, _)| inner.status())
    }

    /// Permanently stops draws, and returns unused values. In a forked process it does nothing: the
    /// values belong to the parent.
    pub fn close(&self) -> Closed {
        match self.parts() {
            Ok((inner, handle)) => handle.block_on(inner.close()),
            Err(_) => Closed::default(),
        }
    }

    /// Returns the allocator and its runtime. Fails in a forked process, which does not have the
    /// thread of the runtime.
    fn parts(&self) -> Result<(&crate::SequenceAllocator, &Handle), AllocateError> {
        match (&self.inner, &self.handle) {
            (Some(inner), Some(handle)) => {
                inner.refuse_fork()?;
                Ok((inner, handle))
            }
            _ => Err(AllocateError::Closed),
        }
    }
}

impl Drop for SequenceAllocator {
    fn drop(&mut self) {
        let mut parts = (self.inner.take(), self.handle.take(), self.ends.take());
        let (Some(inner), Some(handle), ends) = (&mut parts.0, &parts.1, &mut parts.2) else {
            return;
        };
        if inner.is_forked() {
            // A thread that does not exist in the forked process may hold a lock of the runtime.
            std::mem::forget(parts);
            return;
        }
        // The thread continues until unused values are returned, for at most the patience.
        if let Some(keeper) = inner.end() {
            let ends = ends.take();
            handle.spawn(async move {
                let _ = keeper.await;
                drop(ends);
            });
        }
    }
}

/// Like [`crate::Chunk`], for threads.
#[derive(Debug)]
pub struct Chunk<A> {
    allocator: A,
    inner: crate::allocator::Part,
}

impl<A: Deref<Target = SequenceAllocator>> Chunk<A> {
    /// Takes chunks of up to `size` values. Nothing is taken before the first call.
    pub fn new(allocator: A, size: NonZeroU32) -> Self {
        Self {
            allocator,
            inner: crate::allocator::Part::new(size),
        }
    }

    /// Returns the next value.
    ///
    /// # Errors
    /// As for [`SequenceAllocator::next`].
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator ends, and its values would be in an Option that is never None"
    )]
    pub fn next(&mut self) -> Result<i64, AllocateError> {
        let Some(inner) = &self.allocator.inner else {
            return Err(AllocateError::Closed);
        };
        if let Some(value) = self.inner.try_next(inner)? {
            return Ok(value);
        }
        let (inner, handle) = self.allocator.parts()?;
        handle.block_on(self.inner.next(inner))
    }
}
