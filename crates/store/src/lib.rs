//! The content of a node's data folder, without consensus: the small files with its identity,
//! checkpoints of the state in sled, snapshot files, the records of the log, and the reasons why a
//! node stops.
//!
//! The log and the snapshots are authoritative; a checkpoint saves a start their replay. This crate
//! does not depend on openraft, peers or requests.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `disk_errors`, `first_error`: errors of the disk
//! - `checkpoint`, `records`, `stop`: the state in sled, the records of consensus, and why a node
//!   stops
//! - `cluster_id`, `folder`, `snapshot_file`: the data folder and its files

pub mod checkpoint;
pub mod cluster_id;
pub mod disk_errors;
pub mod first_error;
pub mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
pub mod records;
pub mod snapshot_file;
pub mod stop;
pub mod testing;
