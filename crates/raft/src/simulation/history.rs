//! The life of one folder: a workload, power cuts, openings.

use super::check;
use super::life::{Figures, Halt, Life, Step};
use super::log_model::LogChange;
use super::node::Node;
use super::{Plant, Violation};

/// Rounds of a history: enough for a folder to accumulate state, few enough for a violation to be
/// near its cause.
pub(crate) const CUTS_PER_HISTORY: u64 = 25;

/// Steps after which a round's power fails, if the chosen operation was not reached before.
const MAX_STEPS: usize = 120;

/// Runs one history of up to `cuts` cuts.
///
/// # Errors
/// The first violation.
pub(crate) fn history(seed: u64, cuts: u64, plant: Plant) -> Result<Figures, Box<Violation>> {
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

impl Life {
    /// Runs from one cut to the next.
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

    /// Opens, checks and starts the node. Sometimes the power fails meanwhile.
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

    /// Ends the process, cleanly or not, and starts it again on the same running machine.
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
        // Further operations of the old process have no effect.
        old.switch_off();
        self.figures.restarts += 1;
        let at = self.disk.operation_count() + 1 + self.dice.below(90).max(left % 7);
        self.disk.cut_at(at);
        *node = self.open_and_start()?;
        Ok(())
    }
}
