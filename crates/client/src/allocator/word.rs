//! The few atomic operations of an allocator as a trait, so that a test can use those of loom and
//! try every interleaving.

use std::sync::atomic::Ordering;

/// A 64-bit atomic word.
pub(super) trait Word: Send + Sync {
    fn new(value: u64) -> Self;
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    fn swap(&self, value: u64, order: Ordering) -> u64;
}

macro_rules! impl_word {
    ($word:ty) => {
        impl Word for $word {
            #[inline]
            fn new(value: u64) -> Self {
                Self::new(value)
            }

            #[inline]
            fn load(&self, order: Ordering) -> u64 {
                self.load(order)
            }

            #[inline]
            fn store(&self, value: u64, order: Ordering) {
                self.store(value, order);
            }

            #[inline]
            fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
                self.fetch_add(value, order)
            }

            #[inline]
            fn swap(&self, value: u64, order: Ordering) -> u64 {
                self.swap(value, order)
            }
        }
    };
}

impl_word!(std::sync::atomic::AtomicU64);
#[cfg(test)]
impl_word!(loom::sync::atomic::AtomicU64);
