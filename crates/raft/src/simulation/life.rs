//! The state of one history across its rounds: its disk, the model, and its figures.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use seqd_disk::simulated::{Call, Dice, SimulatedDisk};

use super::Plant;
use super::cluster::Cluster;
use super::expected::Expected;
use super::log_model::LogModel;

const CUT: &str = "-- the disk after a cut or a restart --";

/// The events of a history, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) cuts: u64,
    /// Cuts during an opening or a start.
    pub(crate) cuts_while_opening: u64,
    /// Processes that were killed or stopped cleanly, without a cut.
    pub(crate) restarts: u64,
    pub(crate) operations: u64,
    /// Snapshots that were taken.
    pub(crate) snapshots: u64,
    /// Snapshots that were installed.
    pub(crate) installs: u64,
    /// Purges of the log.
    pub(crate) purges: u64,
    /// Truncations of the log.
    pub(crate) truncations: u64,
    /// A hash of all operations and their bytes. It is equal for equal histories.
    pub(crate) fingerprint: u64,
}

/// The reason why a step did not complete.
pub(super) enum Halt {
    Cut,
    /// A violation.
    Wrong(String),
}

pub(super) type Step = Result<(), Halt>;

pub(super) struct Life {
    pub(super) plant: Plant,
    pub(super) dice: Dice,
    pub(super) disk: SimulatedDisk,
    pub(super) seeds: Arc<AtomicU32>,
    pub(super) cluster: Cluster,
    pub(super) log: LogModel,
    pub(super) expected: Expected,
    pub(super) figures: Figures,
    pub(super) round: u64,
    /// The steps since the opening before the last one.
    pub(super) steps: Vec<String>,
    /// The disk before the current one.
    pub(super) before: Option<SimulatedDisk>,
}

impl Life {
    pub(super) fn new(seed: u64, plant: Plant) -> Self {
        let disk = SimulatedDisk::holding("/");
        match plant {
            Plant::SnapshotFolderUnsynced => disk.set_lie(|operation| {
                operation.call == Call::SyncDir && operation.path.ends_with("snap")
            }),
            Plant::DataFolderUnsynced => disk.set_lie(|operation| {
                operation.call == Call::SyncDir && operation.path.ends_with("data")
            }),
            _ => {}
        }
        Self {
            plant,
            dice: Dice::new(seed),
            disk,
            seeds: Arc::new(AtomicU32::new(1)),
            cluster: Cluster::new(),
            log: LogModel::default(),
            expected: Expected::default(),
            figures: Figures::default(),
            round: 0,
            steps: Vec::new(),
            before: None,
        }
    }

    pub(super) fn note(&mut self, step: impl FnOnce() -> String) {
        self.steps.push(step());
    }

    /// Cuts the power, unless it has failed already.
    pub(super) fn cut(&mut self) {
        self.disk.switch_off();
        self.figures.cuts += 1;
        self.replace_disk(|disk, dice| disk.cut(dice));
    }

    pub(super) fn replace_disk(
        &mut self,
        left: impl FnOnce(&SimulatedDisk, &mut Dice) -> SimulatedDisk,
    ) {
        let next = left(&self.disk, &mut self.dice);
        self.figures.operations += self.disk.operation_count();
        let print = self.disk.fingerprint();
        self.figures.fingerprint = self.figures.fingerprint.rotate_left(7) ^ print;
        let older = self.steps.iter().rposition(|step| step == CUT).unwrap_or(0);
        self.steps.drain(..older);
        self.steps.push(CUT.to_owned());
        self.before = Some(std::mem::replace(&mut self.disk, next));
    }

    /// Distinguishes a cut from an unexplained failure.
    pub(super) fn done<T>(&self, result: io::Result<T>) -> Result<T, Halt> {
        result.map_err(|error| {
            if self.disk.is_off() {
                Halt::Cut
            } else {
                Halt::Wrong(format!("an operation failed on a good disk: {error}"))
            }
        })
    }
}
