//! Draws the values of a segment sequence in this process, from segments that the cluster has
//! granted to it.
//!
//! A granted segment belongs to its allocator forever: no other caller receives its values,
//! whatever becomes of this process, its clock or its connection. A task fetches the next segment
//! when a tenth of the current one is used, so a draw waits for no request unless the cluster is
//! unreachable for longer than the values last. Unused values are a gap, unless they can be
//! returned at the end.
//!
//! From the bottom up: `lane` has the current segment, from which threads draw; `stock` adds the
//! next segment and the callers that wait; `segments` has the two requests; `keeper` is the task
//! that sends them; `chunk` serves one thread; and this file combines them.

mod chunk;
mod error;
mod keeper;
mod lane;
mod options;
mod segments;
mod stock;
#[cfg(test)]
mod tests;
mod word;

use std::sync::Arc;
use std::time::Duration;

use seqd_api::Range;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

pub use chunk::Chunk;
pub(crate) use chunk::Part;
pub use error::AllocateError;
use keeper::Keeper;
use lane::Values;
pub use options::AllocatorOptions;
use segments::{OfSequence, Segments};
use stock::Stock;

use crate::client::Client;

/// The largest number of values per call. Four thousand threads that find a segment used up at the
/// same time stay within the 32 bits of an offset.
pub const MAX_TAKE: u32 = 1_000_000;

/// The current state of an allocator.
#[derive(Debug, Clone)]
pub struct AllocatorStatus {
    /// The values in memory.
    pub available: u64,
    /// Values of segments that may have been granted and are never used, because the outcome of
    /// their request is unknown or their values are out of order.
    pub abandoned: u64,
    /// The reason why the last request for a segment failed. `None` if it succeeded.
    pub error: Option<AllocateError>,
}

/// The result of closing an allocator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// Unused values that were returned to the sequence.
    pub returned: u64,
    /// Unused values that are lost, and so become a gap: another caller was granted a segment in
    /// the meantime, or no node confirmed the return in time.
    pub lost: u64,
    /// The reason why nothing was returned, or why it is unknown whether something was.
    pub why: Option<String>,
}

/// Draws the values of one segment sequence in this process.
///
/// A task of the runtime fetches segments. Any number of tasks and threads may share the value by
/// reference (`Arc`). A value costs one atomic addition, and less from a [`Chunk`].
///
/// - **Unique**: no value is returned twice, by any allocator, node or process.
/// - **Order**: the values that one caller draws increase, or decrease if the increment is
///   negative. So do the values of different callers, in the order of their draws.
/// - **A failed request** for a segment is repeated while values last. Afterwards a call waits for
///   its patience. If the outcome of a request is unknown, its segment is abandoned and becomes a
///   gap.
/// - **A fork**: the allocator of the child refuses ([`AllocateError::Forked`]), and does not
///   affect the parent's. This holds for forks through the C library.
/// - **The end**: [`SequenceAllocator::close`] returns unused values. A value that is dropped
///   returns them in the background and never blocks; they are lost if the runtime ends before.
///   Values of a killed process are lost: at most two segments.
#[derive(Debug)]
pub struct SequenceAllocator {
    stock: Arc<Stock>,
    keeper: Option<JoinHandle<()>>,
    runtime: Handle,
    patience: Duration,
}

impl SequenceAllocator {
    /// Begins to fetch the first segment of this sequence, and returns immediately. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// [`AllocateError::Options`].
    pub fn start(
        client: Client,
        sequence: impl Into<String>,
        options: AllocatorOptions,
    ) -> Result<Self, AllocateError> {
        let name = sequence.into();
        Self::with(OfSequence { client, name }, options)
    }

    fn with<S: Segments>(segments: S, options: AllocatorOptions) -> Result<Self, AllocateError> {
        options.check()?;
        let patience = options.patience;
        let stock = Arc::new(Stock::new(options));
        let keeper = Keeper::new(segments, Arc::clone(&stock));
        let runtime = Handle::current();
        Ok(Self {
            keeper: Some(runtime.spawn(keeper.keep())),
            stock,
            runtime,
            patience,
        })
    }

    /// Returns the next value if one is in memory, or `None` while a segment is being fetched. It
    /// never waits and needs no runtime.
    ///
    /// # Errors
    /// [`AllocateError::Forked`] and [`AllocateError::Closed`].
    #[inline]
    pub fn try_next(&self) -> Result<Option<i64>, AllocateError> {
        self.stock.draw_one()
    }

    /// Returns the next value. Waits for a segment for at most the patience set in the options.
    ///
    /// # Errors
    /// Any variant of [`AllocateError`].
    pub async fn next(&self) -> Result<i64, AllocateError> {
        match self.try_next()? {
            Some(value) => Ok(value),
            None => Ok(self.stock.draw_by(1, self.deadline()).await?.first),
        }
    }

    /// Returns the next `count` values, 1 to [`MAX_TAKE`], as ranges in order. Waits for segments
    /// for at most the patience set in the options.
    ///
    /// # Errors
    /// Any variant of [`AllocateError`]. No value is returned then, and some may be lost.
    pub async fn take(&self, count: u32) -> Result<Vec<Range>, AllocateError> {
        if count == 0 || count > MAX_TAKE {
            return Err(AllocateError::Count { count });
        }
        let deadline = self.deadline();
        let (mut ranges, mut left) = (Vec::new(), count);
        while left > 0 {
            let values = self.stock.draw_by(left, deadline).await?;
            // A draw has at most the requested number of values.
            left -= u32::try_from(values.count).unwrap_or(left).min(left);
            ranges.push(range(values));
        }
        Ok(ranges)
    }

    /// Waits until a value is in memory, without drawing it.
    ///
    /// # Errors
    /// Any variant of [`AllocateError`].
    pub async fn ready(&self) -> Result<(), AllocateError> {
        self.stock.draw_by(0, self.deadline()).await.map(drop)
    }

    /// Returns the current state, for a health check or a log line.
    #[must_use]
    pub fn status(&self) -> AllocatorStatus {
        self.stock.status()
    }

    /// Permanently stops draws, and returns unused values to the sequence, so that they are granted
    /// again. A second call waits for the same result.
    pub async fn close(&self) -> Closed {
        if self.is_forked() {
            // The values belong to the parent.
            return Closed::default();
        }
        let deadline = self.deadline();
        self.stock.begin_to_close(deadline);
        let mut closed = self.stock.closed.subscribe();
        let ended = timeout_at(deadline, closed.wait_for(Option::is_some)).await;
        let result = ended
            .ok()
            .and_then(Result::ok)
            .and_then(|closed| closed.clone());
        result.unwrap_or_else(|| {
            let tail = self.stock.seal();
            Closed {
                returned: 0,
                lost: tail.unused + tail.lost,
                why: Some("no response within the patience".to_owned()),
            }
        })
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    pub(crate) fn refuse_fork(&self) -> Result<(), AllocateError> {
        if self.is_forked() {
            return Err(AllocateError::Forked);
        }
        Ok(())
    }

    /// Returns whether this is the copy of a forked process, which does not have the threads of the
    /// runtime.
    pub(crate) fn is_forked(&self) -> bool {
        self.stock.is_forked()
    }

    /// Begins to return unused values in the background. The task of the result ends with that.
    pub(crate) fn end(&mut self) -> Option<JoinHandle<()>> {
        let keeper = self.keeper.take()?;
        if self.is_forked() {
            // The runtime belongs to the parent. A thread that does not exist here may hold one of
            // its locks.
            std::mem::forget((keeper, self.runtime.clone()));
            return None;
        }
        self.stock.begin_to_close(self.deadline());
        Some(keeper)
    }
}

impl Drop for SequenceAllocator {
    fn drop(&mut self) {
        // The task is detached: it ends after the return, or with the runtime.
        drop(self.end());
    }
}

fn range(values: Values) -> Range {
    Range {
        first: values.first,
        last: values.last(),
        count: values.count,
    }
}
