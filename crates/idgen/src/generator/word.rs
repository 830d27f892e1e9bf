//! The few atomic operations of the generator as a trait, so that a test can use those of loom and
//! run every interleaving in a plain `cargo test`.

use std::sync::atomic::{AtomicU64, Ordering};

/// One shared 64-bit word.
pub(super) trait Word {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    /// Replaces `current` by `new`, or returns the actual value. May fail spuriously.
    fn replace(&self, current: u64, new: u64) -> Result<u64, u64>;
    /// Sets bits and returns the previous value.
    fn set_bits(&self, bits: u64) -> u64;
    /// Raises the value to at least `value`.
    fn raise(&self, value: u64);
}

/// Uniqueness and order depend only on the modification order of the word. Acquire and release make
/// everything that happened before a `close` or an `extend` visible to each thread that sees its
/// effect.
macro_rules! impl_word {
    ($atomic:ty) => {
        impl Word for $atomic {
            fn new(value: u64) -> Self {
                <$atomic>::new(value)
            }

            #[inline]
            fn load(&self) -> u64 {
                <$atomic>::load(self, Ordering::Acquire)
            }

            #[inline]
            fn replace(&self, current: u64, new: u64) -> Result<u64, u64> {
                self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
            }

            fn set_bits(&self, bits: u64) -> u64 {
                self.fetch_or(bits, Ordering::AcqRel)
            }

            fn raise(&self, value: u64) {
                self.fetch_max(value, Ordering::AcqRel);
            }
        }
    };
}

impl_word!(AtomicU64);
#[cfg(test)]
impl_word!(loom::sync::atomic::AtomicU64);
