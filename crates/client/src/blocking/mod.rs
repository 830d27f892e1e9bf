//! Allocators, generators and locks for programs without an async runtime. Each runs on a thread of
//! its own.

mod allocator;
mod generator;
mod lock;
mod thread;

pub use allocator::{Chunk, SequenceAllocator};
pub use generator::IdGenerator;
pub use lock::LockGuard;
