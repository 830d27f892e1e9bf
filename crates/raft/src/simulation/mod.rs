//! Simulated power cuts of a whole data folder: the real log, log store, state machine,
//! checkpointer, snapshots and opening, on a disk in memory whose power fails during any operation.
//!
//! A history is the life of one folder, drawn from a seed: a workload like that of a leader and
//! openraft, a cut, an opening that is compared with a model, a start like openraft's, and so on.
//! Equal seeds give equal histories, byte for byte, because nothing runs on a thread of its own.
//!
//! The checks after each cut:
//! 1. The folder opens, with the last acknowledged identity and boot number, or newer ones.
//! 2. The log contains the acknowledged operations, possibly followed by some of the later ones in
//!    order. Nothing acknowledged is missing, and nothing truncated is back.
//! 3. The checkpoint is neither older than the last one written nor newer than the applied state,
//!    and its index, membership and digest are the model's at that index. The same holds for the
//!    snapshots.
//! 4. The log begins no later than snapshots from which the state can be rebuilt. This is tested on
//!    a copy of the disk without the checkpoint, and without the newest snapshot.
//! 5. There are no leftovers of interrupted writes.
//! 6. A start like openraft's brings the state to the model's, and the store continues.
//!
//! The state store is `checkpoint::file_store`, because sled bypasses the disk seam.
//! `checkpoint::tests::synced` tests sled's own cuts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program: what the model itself cannot do must stop it"
)]

mod check;
mod cluster;
mod expected;
mod history;
mod life;
mod log_model;
mod node;
mod tests;
mod workload;

use std::fmt;

pub(crate) use history::{CUTS_PER_HISTORY, history};
pub(crate) use life::Figures;

/// A fault that is planted on purpose. The simulation must detect it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plant {
    /// No fault. The simulation must detect nothing.
    #[default]
    Nothing,
    /// The folder of the snapshots is never synced.
    SnapshotFolderUnsynced,
    /// The data folder is never synced, so neither are the renames of `CURRENT` and `identity`.
    DataFolderUnsynced,
    /// The log is purged up to a snapshot before the snapshot is on the disk.
    PurgeBeforeSnapshot,
    /// Checkpoints do not wait for the log.
    CheckpointAheadOfLog,
}

/// A violation, and how to reproduce it.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) seed: u64,
    /// The round in which the violation was found, from 1.
    pub(crate) round: u64,
    pub(crate) what: String,
    /// The steps of the workload since the cut before the last one.
    pub(crate) steps: Vec<String>,
    /// The operations of the disks since then.
    pub(crate) operations: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed, round, what, ..
        } = self;
        writeln!(out, "{what}")?;
        writeln!(
            out,
            "seed {seed}, round {round}; again with: SEQD_FOLDER_SEED={seed} cargo test -p seqd-raft \
             --lib power_cuts_of_a_whole"
        )?;
        writeln!(out, "the last steps of the workload:")?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(out, "  {step}"))?;
        writeln!(out, "the last operations of the disk:")?;
        self.operations
            .iter()
            .try_for_each(|operation| writeln!(out, "  {operation}"))
    }
}
