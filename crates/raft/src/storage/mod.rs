//! What a node keeps on its disk, and openraft's two storage traits over it.
//!
//! The log and the snapshots are the truth; the checkpoint spares a start their replay.
//!
//! - the folder as a whole: [`opening`]
//! - the log: [`log_store`], the last of it in memory, [`entry_cache`], and how much of it is on the
//!   disk, [`synced`]
//! - the state: [`applied`] in memory, openraft's [`machine`] over it, [`checkpointer`] beneath it,
//!   [`staging`] while a snapshot is read; put together by [`assemble`]
//! - what has arrived of a snapshot from another node: [`unfinished`]
//! - the cause of a failure, of which openraft hands on the text alone: [`failure`]

pub(crate) mod applied;
mod assemble;
pub(crate) mod checkpointer;
pub(crate) mod drain;
pub(crate) mod driver;
mod entry_cache;
pub(crate) mod failure;
pub(crate) mod log_store;
pub(crate) mod machine;
pub(crate) mod opening;
pub(crate) mod staging;
pub(crate) mod synced;
pub(crate) mod unfinished;
