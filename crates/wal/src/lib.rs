//! The durable log: entries, the vote, and related marks, in append-only segments.
//!
//! It does not depend on Raft or on sequences: an entry is an index and bytes, and a vote is bytes.
//! A callback receives `Ok` only after `fdatasync`, in the order of the calls. The next open finds
//! everything that was acknowledged, or it fails. A failed sync is never retried.
//!
//! - [`Wal`] is the handle: append, vote, truncate, purge, read.
//! - [`Wal::open`] reads the log of an earlier process and distinguishes a torn tail from
//!   corruption.
//! - Files are accessed only through [`seqd_disk::Disk`].
//!
//! The owner of the data folder locks it; the log does not.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `clock`, `error`, `format`, `stats`: bytes, errors and counters
//! - `bytes`, `segment`: segment files
//! - `index`, `preparer`: the positions of entries, and segments that are created in advance
//! - `queue`, `scan`: queued calls, and reading an existing log
//! - `read`, `writer`: reading entries, and the single writer
//! - `inspect`, `pump`, `recovery`: inspecting and opening a log, and writing without a thread
//! - `wal`: the handle

mod bytes;
mod clock;
mod error;
mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod index;
mod inspect;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
mod preparer;
mod pump;
mod queue;
mod read;
mod recovery;
mod scan;
mod segment;
mod stats;
mod wal;
mod writer;

pub use clock::Clock;
pub use error::{FailedStep, WalError, WalFailure};
pub use inspect::{Inspection, SegmentReport, inspect};
pub use pump::Pump;
pub use queue::{Done, Record};
pub use recovery::Recovered;
pub use scan::TornTail;
pub use stats::{SYNC_BUCKETS_US, WalStats};
pub use wal::{Wal, WalOptions};
