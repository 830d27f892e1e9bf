//! One folder's life: a workload, cuts, openings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use seqd_disk::simulated::{Call, Dice, SimulatedDisk};

use super::check::{self, Expected};
use super::cluster::Cluster;
use super::log_model::{LogChange, LogModel};
use super::node::Node;
use super::{Plant, Violation};

/// Rounds of a history: enough that a folder has a past, few enough that a violation is near its
/// cause.
pub const CUTS_PER_HISTORY: u64 = 25;

/// Steps after which a round's power fails, if no operation was reached before.
const MAX_STEPS: usize = 120;

const CUT: &str = "-- the disk after a cut or a restart --";

/// What a history had in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Power cuts.
    pub cuts: u64,
    /// Cuts during an opening or a start.
    pub cuts_while_opening: u64,
    /// Processes killed, and clean stops, without a cut.
    pub restarts: u64,
    /// Operations of the disks.
    pub operations: u64,
    /// Snapshots taken and installed.
    pub snapshots: u64,
    /// See `snapshots`.
    pub installs: u64,
    /// Purges and truncations.
    pub purges: u64,
    /// See `purges`.
    pub truncations: u64,
    /// A hash of all operations and their bytes: equal for equal histories.
    pub fingerprint: u64,
}

/// Lives one history of up to `cuts` cuts.
///
/// # Errors
/// The first violation.
pub fn history(seed: u64, cuts: u64, plant: Plant) -> Result<Figures, Box<Violation>> {
    let mut life = Life::new(seed, plant);
    while life.figures.cuts < cuts {
        life.round += 1;
        if let Err(what) = life.round() {
            let before = life.before.map(|disk| disk.operations());
            let mut operations = before.unwrap_or_default();
            operations.extend(life.disk.operations());
            return Err(Box::new(Violation {
                seed,
                round: life.round,
                what,
                operations: operations.iter().map(ToString::to_string).collect(),
                steps: life.steps,
            }));
        }
    }
    Ok(life.figures)
}

/// Why a step did not go on.
pub(super) enum Halt {
    /// The power failed.
    Cut,
    /// It must not have happened.
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
    round: u64,
    /// Since the opening before the last one.
    steps: Vec<String>,
    /// The disk before the present one.
    before: Option<SimulatedDisk>,
}

impl Life {
    fn new(seed: u64, plant: Plant) -> Self {
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

    /// From one cut to the next.
    fn round(&mut self) -> Result<(), String> {
        let opened = self.open_through_cuts()?;
        let mut node = opened;
        let at = self.disk.operation_count() + 1 + self.dice.below(90);
        self.disk.cut_at(at);
        for _ in 0..MAX_STEPS {
            match self.step(&mut node) {
                Ok(()) => {}
                Err(Halt::Cut) => break,
                Err(Halt::Wrong(what)) => return Err(what),
            }
        }
        self.cut();
        drop(node);
        Ok(())
    }

    /// The power fails, if it has not.
    fn cut(&mut self) {
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

    /// Opens, checks and starts; now and then the power fails meanwhile.
    fn open_through_cuts(&mut self) -> Result<Node, String> {
        loop {
            if self.dice.chance(4) {
                let at = self.disk.operation_count() + 1 + self.dice.below(25);
                self.disk.cut_at(at);
            }
            match self.open_and_start() {
                Ok(node) => return Ok(node),
                Err(Halt::Wrong(what)) => return Err(what),
                Err(Halt::Cut) => {
                    self.note(|| "the power failed while it was opened".to_owned());
                    self.figures.cuts_while_opening += 1;
                    self.cut();
                }
            }
        }
    }

    pub(super) fn open_and_start(&mut self) -> Result<Node, Halt> {
        let (mut node, opened) = match Node::open(&self.disk, &self.seeds, self.plant) {
            Ok(opened) => opened,
            Err(_) if self.disk.is_off() => return Err(Halt::Cut),
            Err(stop) => {
                return Err(Halt::Wrong(format!(
                    "the folder was refused: {}: {}",
                    stop.code(),
                    stop.message
                )));
            }
        };
        check::check(self, &mut node, &opened).map_err(Halt::Wrong)?;
        if opened.identity.is_none() {
            self.write_identity(&mut node)?;
        }
        let log = &mut self.log;
        let started = node.start(&mut |upto| log.issue(LogChange::Purge(upto)));
        self.done(started)?;
        self.log.acknowledge_all();
        self.expected.started(node.applied());
        check::state_is_that_of(&self.cluster, node.applied(), node.digest())
            .map_err(Halt::Wrong)?;
        Ok(node)
    }

    /// Tells a cut from a failure that nothing explains.
    pub(super) fn done<T>(&self, result: io::Result<T>) -> Result<T, Halt> {
        result.map_err(|error| {
            if self.disk.is_off() {
                Halt::Cut
            } else {
                Halt::Wrong(format!("an operation failed on a good disk: {error}"))
            }
        })
    }

    /// Ends the process, cleanly or not, and starts it again on a machine that lives on.
    pub(super) fn restart(&mut self, node: &mut Node, clean: bool) -> Step {
        self.note(|| format!("restart, clean: {clean}"));
        if clean {
            let stopped = Node::drive(&node.pump, node.machine.checkpointer.stop());
            self.done(stopped)?;
            let closed = node.wal.close();
            self.done(closed)?;
            self.log.acknowledge_all();
            self.expected.checkpointed(node.applied());
        }
        let left = self.disk.operation_count();
        let old = self.disk.clone();
        self.replace_disk(|disk, _| disk.killed());
        // What the old process would still do reaches nobody.
        old.switch_off();
        self.figures.restarts += 1;
        let at = self.disk.operation_count() + 1 + self.dice.below(90).max(left % 7);
        self.disk.cut_at(at);
        *node = self.open_and_start()?;
        Ok(())
    }
}
