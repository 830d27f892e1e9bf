//! Chunks: let one thread draw single values without an atomic operation for each.

use std::num::NonZeroU32;
use std::ops::Deref;

use super::lane::Values;
use super::{AllocateError, SequenceAllocator};

/// The largest chunk.
const MOST: NonZeroU32 = NonZeroU32::new(super::MAX_TAKE).unwrap();

/// Draws the values of an allocator one by one from its own chunk. Create one per thread or task,
/// with a reference of any kind to the shared allocator: `&SequenceAllocator` or
/// `Arc<SequenceAllocator>`.
///
/// The values of one chunk increase (or decrease, if the increment is negative). Those of several
/// chunks are unique, without an order between them. The values of a chunk count as drawn when it
/// is taken: the rest of a dropped chunk is lost, and the rest may still be returned after the
/// allocator is closed.
#[derive(Debug)]
pub struct Chunk<A> {
    allocator: A,
    part: Part,
}

impl<A: Deref<Target = SequenceAllocator>> Chunk<A> {
    /// Takes chunks of up to `size` values, at most [`MAX_TAKE`](super::MAX_TAKE). Nothing is taken
    /// before the first call.
    pub fn new(allocator: A, size: NonZeroU32) -> Self {
        let part = Part::new(size);
        Self { allocator, part }
    }

    /// Like [`SequenceAllocator::try_next`].
    ///
    /// # Errors
    /// As for [`SequenceAllocator::try_next`].
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<i64>, AllocateError> {
        self.part.try_next(&self.allocator)
    }

    /// Like [`SequenceAllocator::next`].
    ///
    /// # Errors
    /// As for [`SequenceAllocator::next`].
    pub async fn next(&mut self) -> Result<i64, AllocateError> {
        self.part.next(&self.allocator).await
    }
}

/// The values of a chunk.
#[derive(Debug)]
pub(crate) struct Part {
    size: NonZeroU32,
    values: Values,
    drawn: u64,
}

impl Part {
    pub(crate) fn new(size: NonZeroU32) -> Self {
        Self {
            size: size.min(MOST),
            values: Values::NONE,
            drawn: 0,
        }
    }

    #[inline]
    pub(crate) fn try_next(
        &mut self,
        allocator: &SequenceAllocator,
    ) -> Result<Option<i64>, AllocateError> {
        if let Some(value) = self.draw(allocator)? {
            return Ok(Some(value));
        }
        let drawn = allocator.stock.draw(self.size.get())?;
        Ok(drawn.map(|values| self.begin(values)))
    }

    pub(crate) async fn next(
        &mut self,
        allocator: &SequenceAllocator,
    ) -> Result<i64, AllocateError> {
        if let Some(value) = self.draw(allocator)? {
            return Ok(value);
        }
        let deadline = allocator.deadline();
        let values = allocator.stock.draw_by(self.size.get(), deadline).await?;
        Ok(self.begin(values))
    }

    /// Draws a value of the current chunk.
    #[inline]
    fn draw(&mut self, allocator: &SequenceAllocator) -> Result<Option<i64>, AllocateError> {
        if self.drawn >= self.values.count {
            return Ok(None);
        }
        allocator.refuse_fork()?;
        let value = self.values.at(self.drawn);
        self.drawn += 1;
        Ok(Some(value))
    }

    /// Begins a chunk with its first value.
    fn begin(&mut self, values: Values) -> i64 {
        self.values = values;
        self.drawn = 1;
        values.first
    }
}
