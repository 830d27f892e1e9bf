//! What a node keeps in its data folder, without consensus: checkpoints of the state in sled,
//! snapshot files, and what a disk that fails means.
//!
//! The log and the snapshots are the truth; a checkpoint spares a start their replay. Nothing here
//! knows openraft, a peer or a request.

pub mod checkpoint;
pub mod faults;
pub mod first_error;
pub mod snapshot_file;
#[cfg(any(test, feature = "simulation"))]
pub mod testing;
