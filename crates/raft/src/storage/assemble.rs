//! Assembles the state machine over an opened storage, for a replica and for the simulation.

use std::io;
use std::sync::Arc;

use crate::storage::applied::Applied;
use crate::storage::checkpointer::{CheckpointWorker, Checkpointer, Pace};
use crate::storage::drain::Drain;
use crate::storage::log_store::LogStore;
use crate::storage::machine::Machine;
use crate::storage::opening::{LoadedState, Storage};
use crate::transfers::Transfers;
use seqd_store::first_error::FirstError;

impl Storage {
    /// Starts the checkpointer with `start`. `on_failure` is called once, if a checkpoint could not
    /// be written.
    pub(crate) fn assemble(
        self,
        pace: impl FnOnce(&Arc<Applied>) -> Pace,
        on_failure: Box<dyn Fn(io::Error) + Send>,
        start: impl FnOnce(CheckpointWorker) -> io::Result<Checkpointer>,
    ) -> io::Result<(LogStore, Machine)> {
        let LoadedState {
            state,
            position,
            membership,
            store,
            ..
        } = self.loaded;
        let applied = Arc::new(Applied::new(state, position, membership));
        let checkpointer = start(CheckpointWorker {
            drain: Drain::inline(&applied),
            store,
            log: Box::new(self.wal),
            place: self.place,
            mark: self.mark,
            pace: pace(&applied),
            snapshots: self.snapshots,
            written: position,
            lost: FirstError::default(),
            on_failure,
        })?;
        let machine = Machine {
            applied,
            checkpointer,
            purge_floor: self.purge_floor,
            failure: self.log.failure(),
            transfers: Transfers::default(),
        };
        Ok((self.log, machine))
    }
}
