//! Power cuts of a whole data folder, simulated: the real log, log store, state machine,
//! checkpointer, snapshots and opening, on a disk in memory whose power fails under any operation.
//!
//! A history is one folder's life, drawn from a seed: a workload as a leader and openraft would
//! bring it, a cut, an opening that is compared with a model, a start as openraft's, and on. Equal
//! seeds give equal histories, byte for byte: nothing runs on a thread of its own.
//!
//! What is checked after each cut:
//! 1. The folder opens, with the identity and a boot number as last acknowledged, or newer.
//! 2. The log is that of the acknowledged operations, or of these and some of the later ones in
//!    their order: so nothing acknowledged is missing, and nothing truncated is back.
//! 3. The checkpoint is not older than the last one written nor newer than what was applied, and
//!    index, membership and digest are the model's at that index; so are the snapshots'.
//! 4. The log begins behind nothing but snapshots from which the state can be built again: on a
//!    copy of the disk without the checkpoint, and without the newest snapshot, it is.
//! 5. No leftovers of interrupted writes are there.
//! 6. What openraft does at a start brings the state to the model's, and the store goes on.
//!
//! The state store is `checkpoint::file_store`, for sled writes past any seam: sled's own cuts are
//! `checkpoint::tests::synced`'s.

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

/// A fault that is built in on purpose: the simulation must find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plant {
    /// None: nothing may be found.
    #[default]
    Nothing,
    /// The folder of the snapshots is never synced.
    SnapshotFolderUnsynced,
    /// The data folder is never synced, so neither is the renaming of `CURRENT` and `identity`.
    DataFolderUnsynced,
    /// The log is purged up to a snapshot before that is on the disk.
    PurgeBeforeSnapshot,
    /// Checkpoints do not wait for the log.
    CheckpointAheadOfLog,
}

/// What was found, and how to find it again.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) seed: u64,
    /// In which of its rounds, from 1.
    pub(crate) round: u64,
    pub(crate) what: String,
    /// What the workload did since the cut before the last one.
    pub(crate) steps: Vec<String>,
    /// What the disks were asked for since then.
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
