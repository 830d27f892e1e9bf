//! Converts a state, from a backup or a surviving node, into the state of a new cluster.
//!
//! The state does not contain the actions of the old cluster after the backup. The new cluster must
//! not give out again what the old one may have given out since then:
//! - IDs: every window of every worker begins past every fence that the old cluster can have
//!   granted.
//! - Tokens, lease IDs and node IDs: the counter rises above every number that the old cluster can
//!   have drawn.
//! - Locks: every lock is free and has no waiters, and the token of its next grant is larger than
//!   all previous ones.
//! - Sequences: the last granted value is unknown. An operator gives a floor (the first value that
//!   may be granted) or a margin (the number of values that may have been granted since the
//!   backup). If the sequence does not cycle, either may be past its end, because the end may have
//!   been extended after the backup. The mark is then past the end too, and stays valid if the end
//!   is extended again.
//!
//! One-time tokens are dropped, because one may have been consumed since. Idempotency keys are kept
//! unchanged, so a key that was completed since the backup may return another claim.
//!
//! IDs and tokens depend on the time at which the new cluster begins. The first leader of the new
//! cluster stamps this time with a command. Until then nothing is drawn from the counter and no
//! worker is leased. Both bounds hold if every process of the old cluster has ended by then, and if
//! the clocks of the old leaders and of the new leader were correct within the agreed skew.

use std::collections::BTreeMap;

use seqd_idgen::WallMs;

use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::settings::{Clock, draw};
use crate::locks::record::LockRecord;
use crate::locks::tally::LockTally;
use crate::newtypes::{NodeId, SequenceName};
use crate::sequences::definition::SequenceMode;
use crate::sequences::record::SequenceRecord;
use crate::state::State;
use crate::text::{self, TextField, TextRefusal};
use crate::tokens::record::OneTimeRecord;
use crate::workers::record::WorkerRecord;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoration {
    pub cluster_id: String,
    /// The name of the only member.
    pub founder: String,
    /// The clusters that the new one replaces. Empty for a rehearsal.
    pub ancestors: Vec<String>,
    /// For each named sequence, the first value that may be granted.
    pub floors: BTreeMap<SequenceName, i64>,
    /// The number of values to skip in every other sequence.
    pub margin: Option<u64>,
    /// The time at which the state was written, if the recorded time is wrong; never later than the
    /// recorded time.
    pub written: Option<WallMs>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raise {
    /// The mark is raised to the first value at or beyond this one.
    Floor(i64),
    /// The mark is raised by this many values.
    Margin(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaisedSequence {
    pub name: SequenceName,
    pub mode: SequenceMode,
    /// True if the sequence was deleted. Its mark is kept for a later sequence of the same name.
    pub deleted: bool,
    pub raise: Raise,
    pub index_before: u64,
    pub index_after: u64,
    /// `None` if no value remained.
    pub next_before: Option<i64>,
    /// `None` if no value remains.
    pub next_after: Option<i64>,
    /// If no value remains, the next value once the end of the sequence is extended that far.
    /// `None` if it can never be.
    pub continues_at: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestorationError {
    #[error("the state contains no cluster: the cluster was never founded")]
    NotFounded,
    #[error("{0}")]
    Text(TextRefusal),
    #[error("the state cannot have been written at {} ms: allowed are {} to {} ms", .given.0, .from.0, .to.0)]
    WrittenOutOfRange {
        given: WallMs,
        /// The start of the cluster, if it was itself restored. The windows of its workers depend
        /// on it.
        from: WallMs,
        /// The time recorded in the state.
        to: WallMs,
    },
    #[error("the saved state has no sequence {}", list(.0))]
    UnknownNames(Vec<SequenceName>),
    #[error(
        "it is unknown which values of these sequences were granted later: {}; give a \
         floor for each, or a margin for all others",
        list(.0)
    )]
    MissingFloors(Vec<SequenceName>),
    #[error("a value does not identify the pass of a cycling sequence: give a margin for {}", list(.0))]
    FloorOfCycling(Vec<SequenceName>),
}

fn list(names: &[SequenceName]) -> String {
    names
        .iter()
        .map(SequenceName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

impl State {
    /// Converts this state to the state of a new cluster with one member. Returns the member's ID
    /// and the new mark of each sequence. An error leaves the state unchanged.
    pub fn restore(
        &mut self,
        restoration: &Restoration,
    ) -> Result<(NodeId, Vec<RaisedSequence>), RestorationError> {
        let Restoration {
            cluster_id,
            founder,
            ancestors,
            floors,
            margin,
            written,
        } = restoration;
        let mut settings = self.settings().ok_or(RestorationError::NotFounded)?.clone();
        text::check(TextField::ClusterId, cluster_id).map_err(RestorationError::Text)?;
        text::check(TextField::NodeName, founder).map_err(RestorationError::Text)?;
        let written = self.written(*written)?;
        let raised = self.raised(floors, *margin)?;

        for sequence in &raised {
            if let Some(record) = self.tables.sequences.get_mut(&sequence.name) {
                record.next_index = sequence.index_after;
                record.run = None;
                record.epoch = record.epoch.next();
            }
        }
        // No token of the old cluster is valid in the new one, because any of them may have been
        // revoked or consumed since the backup.
        self.tables.secret.remove(&());
        self.tables.access.clear();
        self.tables.one_time.clear();
        self.deadlines.clear::<OneTimeRecord>();
        self.tables.workers.end_all();
        self.deadlines.clear::<WorkerRecord>();
        // Every lock is free: the tokens of its holders are below those of the new cluster.
        self.tables.locks.clear();
        self.deadlines.clear::<LockRecord>();
        self.lock_tally = LockTally::default();
        self.tables.nodes.remove_all();
        self.tables.resets.clear();
        let node = NodeId(draw(&mut self.tables.counter));
        let record = NodeRecord::new(founder.clone(), None);
        self.tables.nodes.put(node, record);
        // An earlier stamp stays valid until a new one, which is never below it, replaces it.
        let stamped_wall_ms = self
            .restoration()
            .map_or(WallMs(0), |record| record.stamped_wall_ms);
        let record = RestorationRecord {
            from_cluster: std::mem::replace(&mut settings.cluster_id, cluster_id.clone()),
            ancestors: ancestors.clone(),
            backup_wall_ms: written,
            stamped: false,
            stamped_wall_ms,
        };
        self.tables.restoration.put((), record);
        // A later backup of the new cluster must not carry a wrong time of the old one.
        self.tables.clock.entry((), Clock::default).wall_ms = written.0;
        settings.founders = vec![(node, founder.clone())];
        self.tables.settings.put((), settings);
        Ok((node, raised))
    }

    /// Returns the time at which the state was written: the given time, or else the recorded one.
    ///
    /// A given time replaces a time that a wrong clock recorded. The operator is responsible for
    /// it: grants made after the given time, and grants based on a wrong time, are unknown here.
    /// The windows recorded in the state hold whatever time is given.
    fn written(&self, given: Option<WallMs>) -> Result<WallMs, RestorationError> {
        let to = self.last_wall_ms();
        let Some(given) = given else {
            return Ok(to);
        };
        let from = self
            .restoration()
            .map_or(WallMs(0), |record| record.stamped_wall_ms);
        if given < from || given > to {
            return Err(RestorationError::WrittenOutOfRange { given, from, to });
        }
        Ok(given)
    }

    /// Computes the new mark of each sequence, deleted ones included.
    fn raised(
        &self,
        floors: &BTreeMap<SequenceName, i64>,
        margin: Option<u64>,
    ) -> Result<Vec<RaisedSequence>, RestorationError> {
        let unknown = floors
            .keys()
            .filter(|name| self.tables.sequences.get(*name).is_none());
        refuse(unknown.cloned().collect(), RestorationError::UnknownNames)?;
        let (mut missing, mut cycling) = (Vec::new(), Vec::new());
        let mut raised = Vec::new();
        for (name, record) in self.tables.sequences.iter() {
            let raise = match (floors.get(name), margin) {
                (Some(floor), _) => Raise::Floor(*floor),
                (None, Some(margin)) => Raise::Margin(margin),
                (None, None) => {
                    missing.push(name.clone());
                    continue;
                }
            };
            if matches!(raise, Raise::Floor(_)) && record.definition.progression.cycle() {
                cycling.push(name.clone());
                continue;
            }
            let progression = &record.definition.progression;
            let index_after = raised_index(record, raise);
            let next_after = progression.value_at(index_after);
            let is_over = next_after.is_none() && !progression.cycle();
            raised.push(RaisedSequence {
                name: name.clone(),
                mode: record.definition.mode,
                deleted: record.deleted,
                raise,
                index_before: record.next_index,
                index_after,
                next_before: record.next_value(),
                next_after,
                continues_at: progression
                    .value_if_extended(index_after)
                    .filter(|_| is_over),
            });
        }
        refuse(missing, RestorationError::MissingFloors)?;
        refuse(cycling, RestorationError::FloorOfCycling)?;
        Ok(raised)
    }
}

fn refuse(
    names: Vec<SequenceName>,
    error: impl FnOnce(Vec<SequenceName>) -> RestorationError,
) -> Result<(), RestorationError> {
    if names.is_empty() {
        return Ok(());
    }
    Err(error(names))
}

/// Returns the mark after the raise, which never decreases. It may be past the end: an extension of
/// the end after the backup is lost, but the values granted since then are not free.
fn raised_index(record: &SequenceRecord, raise: Raise) -> u64 {
    let before = record.next_index;
    match raise {
        Raise::Floor(floor) => before.max(record.definition.progression.index_of_any(floor)),
        Raise::Margin(margin) => before.saturating_add(margin),
    }
}
