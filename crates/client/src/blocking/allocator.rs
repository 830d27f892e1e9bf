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
    /// Declared before the end of its runtime, so that it is dropped first.
    inner: crate::SequenceAllocator,
    handle: Handle,
    /// `None` after the drop, in which the task that returns unused values takes it.
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
            inner,
            handle,
            ends: Some(ends),
        })
    }

    /// Returns the next value if one is in memory. It never waits.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::try_next`].
    #[inline]
    pub fn try_next(&self) -> Result<Option<i64>, AllocateError> {
        self.inner.try_next()
    }

    /// Returns the next value.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::next`].
    #[inline]
    pub fn next(&self) -> Result<i64, AllocateError> {
        match self.try_next()? {
            Some(value) => Ok(value),
            None => self.handle.block_on(self.inner.next()),
        }
    }

    /// Returns the next `count` values, 1 to [`MAX_TAKE`](crate::MAX_TAKE), as ranges in order.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::take`].
    pub fn take(&self, count: u32) -> Result<Vec<Range>, AllocateError> {
        self.inner.refuse_fork()?;
        self.handle.block_on(self.inner.take(count))
    }

    /// Waits until a value is in memory.
    ///
    /// # Errors
    /// As for [`crate::SequenceAllocator::ready`].
    pub fn ready(&self) -> Result<(), AllocateError> {
        self.inner.refuse_fork()?;
        self.handle.block_on(self.inner.ready())
    }

    /// Returns the current state, or `None` in a forked process.
    #[must_use]
    pub fn status(&self) -> Option<AllocatorStatus> {
        (!self.inner.is_forked()).then(|| self.inner.status())
    }

    /// Permanently stops draws, and returns unused values. In a forked process it does nothing: the
    /// values belong to the parent.
    pub fn close(&self) -> Closed {
        if self.inner.is_forked() {
            return Closed::default();
        }
        self.handle.block_on(self.inner.close())
    }
}

impl Drop for SequenceAllocator {
    fn drop(&mut self) {
        // The thread continues until unused values are returned, for at most the patience.
        if let Some(keeper) = self.inner.end() {
            let ends = self.ends.take();
            self.handle.spawn(async move {
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
        let SequenceAllocator { inner, handle, .. } = &*self.allocator;
        match self.inner.try_next(inner)? {
            Some(value) => Ok(value),
            None => handle.block_on(self.inner.next(inner)),
        }
    }
}
