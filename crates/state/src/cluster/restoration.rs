//! A state that becomes that of another cluster: from a backup, or from what one node still has.
//!
//! What the old cluster did after the backup is not in it. So nothing that was, or may have been,
//! given out after it may be given out again:
//! - IDs: no window begins below a time that lies past every fence that the old cluster can have
//!   granted, for every worker of every layout, recorded or not;
//! - tokens, lease IDs and node IDs: the counter rises above all that it can have drawn;
//! - sequences: nobody can know. An operator says how far each may have come (a floor), or how
//!   many values may have been given since (a margin).
//!
//! The first two need the time at which the new cluster begins. Its first leader says it, once, in
//! a command; until then nothing is drawn from the counter and no worker is leased. Both bounds
//! hold if every process of the old cluster has ended by then, and if the old leaders' clocks and
//! the new one's were right within the agreed skew.
//!
//! Reading a backup and building a folder from it is for others.

use std::collections::BTreeMap;

use seqd_idgen::{Layout, Tick, WallMs};
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::newtypes::{NodeId, SequenceName};
use crate::cluster::nodes::NodeRecord;
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::sequences::{SequenceMode, SequenceRecord};
use crate::cluster::settings::{Counter, Settings, draw};
use crate::state::State;
use crate::table::singleton;
use crate::text::{self, TextField};

/// More numbers than any cluster draws from its counter in a millisecond, as a power of two: so a
/// wall clock times this lies above all that was drawn until then.
const DRAWS_PER_MS_BITS: u32 = 20;

/// The latest wall clock that can be stamped, in Unix milliseconds: the year 2248. It leaves the
/// counter half of its numbers, and keeps a senseless clock from taking the rest.
pub const MAX_STAMP_MS: u64 = (1 << (63 - DRAWS_PER_MS_BITS)) - 1;

/// What becomes of a state. See [`State::restore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoration {
    /// The new cluster's ID.
    pub cluster_id: String,
    /// The name of its only member.
    pub founder: String,
    /// The clusters that it takes the place of; none for a rehearsal.
    pub ancestors: Vec<String>,
    /// For each named sequence, the first value that may be granted.
    pub floors: BTreeMap<SequenceName, i64>,
    /// How many values of every other sequence are passed over.
    pub margin: Option<u64>,
}

/// That the state was restored. The record stays for as long as the cluster does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorationRecord {
    /// The cluster whose state it was.
    pub from_cluster: String,
    /// The clusters that this one takes the place of; none for a rehearsal.
    pub ancestors: Vec<String>,
    /// The wall clock of the last entry that was in the backup.
    #[serde(with = "crate::foreign::wall_ms")]
    pub backup_wall_ms: WallMs,
    /// Whether the first leader has said the time.
    pub stamped: bool,
    /// The stamped time: every worker's windows begin a window and four skews after it. 0 before
    /// the first stamp.
    #[serde(with = "crate::foreign::wall_ms")]
    pub stamped_wall_ms: WallMs,
}

singleton!(RestorationRecord, kind 16, version 1, prefix b'd');

impl RestorationRecord {
    /// From when on this layout's windows begin: past every fence that the old cluster can have
    /// granted.
    #[must_use]
    pub fn windows_from(&self, settings: &Settings, layout: &Layout) -> Tick {
        let reach_ms = settings.window_ms_for(layout) + 4 * settings.max_peer_skew_ms;
        layout.fence_at(WallMs(self.stamped_wall_ms.0.saturating_add(reach_ms)))
    }

    /// Refuses a lease whose window could begin below that.
    pub(crate) fn check_lease(
        &self,
        settings: &Settings,
        layout: &Layout,
        wall_ms: WallMs,
        tick: Tick,
    ) -> Result<(), Refusal> {
        let from = self.windows_from(settings, layout);
        if tick >= from {
            return Ok(());
        }
        let until = layout.wall_at(from);
        Err(Refusal::WindowsBeginLater {
            layout: layout.name().to_owned(),
            until,
            retry_after_ms: until.0.saturating_sub(wall_ms.0).max(1),
        })
    }
}

/// How far a sequence was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raise {
    /// To the first value at or beyond this one.
    Floor(i64),
    /// By this many values.
    Margin(u64),
}

/// A sequence before and after a restoration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaisedSequence {
    /// Its name.
    pub name: SequenceName,
    /// How it is served.
    pub mode: SequenceMode,
    /// Whether it was deleted: its mark is kept for a sequence of the same name.
    pub deleted: bool,
    /// What was asked for it.
    pub raise: Raise,
    /// The mark in the backup.
    pub index_before: u64,
    /// The mark in the new cluster.
    pub index_after: u64,
    /// The value that the backup would grant next; `None` if none was left.
    pub next_before: Option<i64>,
    /// The value that the new cluster grants next; `None` if none is left.
    pub next_after: Option<i64>,
}

/// Why a state cannot be restored as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestorationError {
    /// There is no cluster in it.
    #[error("the state holds no cluster: it was never founded")]
    NotFounded,
    /// The new cluster's ID or its founder's name breaks a rule.
    #[error("{0}")]
    Text(Refusal),
    /// Floors for sequences that the backup does not have.
    #[error("the backup has no sequence {}", list(.0))]
    UnknownNames(Vec<SequenceName>),
    /// Sequences about which nothing was said.
    #[error(
        "nothing says how far these sequences came after the backup: {}; give a floor for each, or \
         a margin for all others",
        list(.0)
    )]
    NothingSaid(Vec<SequenceName>),
    /// Floors for cycling sequences, where a value does not say which pass is meant.
    #[error("a value does not say in which pass of a cycling sequence it is: give a margin for {}", list(.0))]
    FloorOfCycling(Vec<SequenceName>),
    /// Sequences that have no value left beyond what was asked.
    #[error("the floor or the margin is past the end of {}; give a floor within it", list(.0))]
    PastEnd(Vec<SequenceName>),
}

fn list(names: &[SequenceName]) -> String {
    names
        .iter()
        .map(SequenceName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

impl State {
    /// Makes this the state of a new cluster of one member, whose ID it returns, with what became
    /// of each sequence. It grants no worker and no token until a time is stamped.
    ///
    /// # Errors
    /// See [`RestorationError`]; the state is unchanged then.
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
        } = restoration;
        let mut settings = self.settings().ok_or(RestorationError::NotFounded)?.clone();
        text::check(TextField::ClusterId, cluster_id).map_err(RestorationError::Text)?;
        text::check(TextField::NodeName, founder).map_err(RestorationError::Text)?;
        let raised = self.raised(floors, *margin)?;

        for sequence in &raised {
            if let Some(record) = self.sequences.table.get_mut(&sequence.name) {
                record.next_index = sequence.index_after;
                record.run = None;
                record.epoch.0 += 1;
            }
        }
        self.leases.end_all();
        self.nodes.remove_all();
        let node = NodeId(draw(&mut self.counter));
        let record = NodeRecord {
            name: founder.clone(),
            added: None,
            start: None,
            removed: false,
        };
        self.nodes.table.put(node, record);
        // An earlier stamp holds until there is a new one, which is not below it.
        let stamped_wall_ms = self
            .restoration()
            .map_or(WallMs(0), |record| record.stamped_wall_ms);
        let record = RestorationRecord {
            from_cluster: std::mem::replace(&mut settings.cluster_id, cluster_id.clone()),
            ancestors: ancestors.clone(),
            backup_wall_ms: self.last_wall_ms(),
            stamped: false,
            stamped_wall_ms,
        };
        self.restoration.put((), record);
        settings.founders = vec![(node, founder.clone())];
        self.settings.put((), settings);
        Ok((node, raised))
    }

    /// Where each sequence would stand, deleted ones included.
    fn raised(
        &self,
        floors: &BTreeMap<SequenceName, i64>,
        margin: Option<u64>,
    ) -> Result<Vec<RaisedSequence>, RestorationError> {
        let unknown = floors
            .keys()
            .filter(|name| self.sequences.table.get(name).is_none());
        refuse(unknown.cloned().collect(), RestorationError::UnknownNames)?;
        let (mut unsaid, mut cycling, mut past) = (Vec::new(), Vec::new(), Vec::new());
        let mut raised = Vec::new();
        for (name, record) in self.sequences.table.iter() {
            let raise = match (floors.get(name), margin) {
                (Some(floor), _) => Raise::Floor(*floor),
                // Its last value was granted: there is nothing that could be granted again.
                (None, None) if record.next_value().is_none() => Raise::Margin(0),
                (None, Some(margin)) => Raise::Margin(margin),
                (None, None) => {
                    unsaid.push(name.clone());
                    continue;
                }
            };
            if matches!(raise, Raise::Floor(_)) && record.definition.progression.cycle() {
                cycling.push(name.clone());
            } else if let Some(index_after) = raised_index(record, raise) {
                raised.push(RaisedSequence {
                    name: name.clone(),
                    mode: record.definition.mode,
                    deleted: record.deleted,
                    raise,
                    index_before: record.next_index,
                    index_after,
                    next_before: record.next_value(),
                    next_after: record.definition.progression.value_at(index_after),
                });
            } else {
                past.push(name.clone());
            }
        }
        refuse(unsaid, RestorationError::NothingSaid)?;
        refuse(cycling, RestorationError::FloorOfCycling)?;
        refuse(past, RestorationError::PastEnd)?;
        Ok(raised)
    }

    /// How the state was restored, if it was.
    #[must_use]
    pub fn restoration(&self) -> Option<&RestorationRecord> {
        self.restoration.get(&())
    }

    /// A sequence, also if it was deleted.
    #[must_use]
    pub fn sequence_or_deleted(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.sequences.table.get(name)
    }

    /// Refuses what draws from the counter while its new beginning is not known.
    pub(crate) fn check_stamped(&self, command: &Command) -> Result<(), Refusal> {
        let draws = matches!(
            command,
            Command::AllocateNodeId(_) | Command::TakeLease(_) | Command::GrantSegment { .. }
        );
        match self.restoration() {
            Some(record) if draws && !record.stamped => Err(Refusal::RestorationNotStamped {
                backup_wall_ms: record.backup_wall_ms,
            }),
            _ => Ok(()),
        }
    }

    /// Takes the time from the first leader. A repeated stamp changes nothing.
    pub(crate) fn stamp_restoration(&mut self, wall_ms: WallMs) -> Result<Outcome, Refusal> {
        let skew_ms = self.settings().map_or(0, |s| s.max_peer_skew_ms);
        let Some(record) = self.restoration.get_mut(&()) else {
            return Err(Refusal::NotRestored);
        };
        if record.stamped {
            let wall_ms = record.stamped_wall_ms;
            return Ok(Outcome::RestorationStamped { wall_ms });
        }
        let from = record.backup_wall_ms.max(record.stamped_wall_ms);
        if wall_ms < from || wall_ms.0 > MAX_STAMP_MS {
            let to = WallMs(MAX_STAMP_MS);
            return Err(Refusal::StampOutOfRange { wall_ms, from, to });
        }
        let since_ms = wall_ms.0 - record.backup_wall_ms.0;
        record.stamped = true;
        record.stamped_wall_ms = wall_ms;
        // What the old cluster drew lies below its clock's milliseconds times the draws of one. A
        // cluster that was itself restored began there, so its draws since are added.
        let counter = self.counter.entry((), Counter::default);
        let drawn_since = (since_ms + 4 * skew_ms).saturating_mul(1 << DRAWS_PER_MS_BITS);
        counter.last =
            (counter.last.saturating_add(drawn_since)).max(wall_ms.0 << DRAWS_PER_MS_BITS);
        Ok(Outcome::RestorationStamped { wall_ms })
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

/// The mark after the raise; `None` if that is past the end. It never falls, and one that has no
/// value left stays where it is.
fn raised_index(record: &SequenceRecord, raise: Raise) -> Option<u64> {
    let progression = &record.definition.progression;
    let before = record.next_index;
    match raise {
        _ if progression.value_at(before).is_none() => Some(before),
        Raise::Floor(floor) => progression.first_index_at_or_beyond(floor, before),
        Raise::Margin(margin) => before
            .checked_add(margin)
            .filter(|after| *after <= progression.total().unwrap_or(u64::MAX - 1)),
    }
}
