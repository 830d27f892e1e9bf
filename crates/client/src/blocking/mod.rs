//! For programs without a runtime: what is held is kept by a thread of its own.

mod generator;
mod lock;
mod thread;

pub use generator::IdGenerator;
pub use lock::LockGuard;
