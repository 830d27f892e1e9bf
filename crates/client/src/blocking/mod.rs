//! Generators and locks for programs without an async runtime. Each runs on a thread of its own.

mod generator;
mod lock;
mod thread;

pub use generator::IdGenerator;
pub use lock::LockGuard;
