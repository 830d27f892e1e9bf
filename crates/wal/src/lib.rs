//! The durable log: entries, the vote, and the marks that go with them, in append-only segments.
//!
//! It knows neither Raft nor sequences: an entry is an index and bytes, a vote is bytes. What it
//! promises is small and absolute: a callback that is told `Ok` is told so after `fdatasync`, in
//! the order of the calls, and what was so acknowledged is found again at the next open, or the
//! open refuses. It never guesses, and it never retries a sync that failed.
//!
//! - [`Wal`] is the handle: append, vote, truncate, purge, read.
//! - [`Wal::open`] finds what an earlier process left and tells a torn tail from corruption.
//! - Files are touched through [`seqd_disk::Disk`] alone; a test may stand in for it.
//!
//! It does not lock its folder: whoever owns the data folder does.

mod bytes;
mod error;
mod format;
mod index;
mod inspect;
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

pub use error::{FailedStep, WalError, WalFailure};
pub use inspect::{Inspection, SegmentReport, inspect};
pub use pump::Pump;
pub use queue::{Done, Record};
pub use recovery::Recovered;
pub use scan::TornTail;
pub use stats::{SYNC_BUCKETS_US, WalStats};
pub use wal::{Wal, WalOptions};
