//! What a node keeps on its disk, and openraft's two storage traits over it.
//!
//! The log and the snapshots are the truth; the checkpoint spares a start their replay.
//!
//! - the folder as a whole: [`folder`], [`opening`]
//! - the log: [`log_store`]
//! - the state: [`machine`] in memory, [`checkpointer`] and [`checkpoint`] beneath it, [`staging`]
//!   while a snapshot is read
//! - snapshots: [`snapshot_file`], and [`export`] for somebody outside of the cluster
//! - a disk that fails or hangs: [`faults`], [`first_error`], [`disk_watch`]

pub(crate) mod checkpoint;
pub(crate) mod checkpointer;
pub(crate) mod disk_watch;
pub(crate) mod export;
pub(crate) mod faults;
pub(crate) mod first_error;
pub(crate) mod folder;
pub(crate) mod log_store;
pub(crate) mod machine;
pub(crate) mod opening;
pub(crate) mod snapshot_file;
pub(crate) mod staging;
