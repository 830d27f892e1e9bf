//! A node's storage, and openraft's two storage traits over it.
//!
//! The log and the snapshots are the source of truth. The checkpoint saves a start their replay.
//!
//! - the folder as a whole: [`opening`]
//! - the log: [`log_store`], its last entries in memory, [`entry_cache`], and its synced position,
//!   [`synced`]
//! - the state: [`applied`] in memory, openraft's [`machine`] over it, [`checkpointer`] below it,
//!   [`staging`] while a snapshot is read; put together by [`assemble`]
//! - the received part of a snapshot from another node: [`unfinished`]
//! - the cause of a failure, of which openraft passes on only the text: [`failure`]

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
pub(crate) mod promised;
pub(crate) mod staging;
pub(crate) mod synced;
pub(crate) mod unfinished;
