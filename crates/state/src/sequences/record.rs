//! The stored record of a sequence.

use serde::{Deserialize, Serialize};

use super::commands::SequenceRefusal;
use super::definition::{SequenceDefinition, SequenceMode};
use crate::codec::Versioned;
use crate::newtypes::{Epoch, GrantToken, Revision, SequenceName};
use crate::table::{Record, Table};
use crate::tenant::Tenant;

/// A sequence, or the kept part of a deleted one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// The tenant that last created the sequence. The kept part of a deleted sequence is charged to
    /// it too.
    pub tenant: Tenant,
    pub definition: SequenceDefinition,
    pub revision: Revision,
    pub epoch: Epoch,
    /// The mark: the next index that will be granted.
    pub next_index: u64,
    /// The ranges from which the latest token can return indices.
    pub run: Option<Run>,
    pub deleted: bool,
}

/// Adjacent granted ranges of one caller, which end at the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The token of the latest of these grants.
    pub token: GrantToken,
    pub start: u64,
}

impl Versioned for SequenceRecord {
    const KIND: u8 = 15;
    const VERSION: u8 = 1;
}

impl Record for SequenceRecord {
    type Key = SequenceName;
    const PREFIX: u8 = b's';

    fn is_sound(&self) -> bool {
        self.run.is_none_or(|run| run.start <= self.next_index)
    }

    fn charge(&self, _: &SequenceName, charge: &mut dyn FnMut(Tenant, u64)) {
        charge(self.tenant, 0);
    }
}

impl SequenceRecord {
    /// Returns `None` if the last value was granted.
    #[must_use]
    pub fn next_value(&self) -> Option<i64> {
        self.definition.progression.value_at(self.next_index)
    }

    /// Returns the number of values that are left, or `None` for a cycling sequence.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.definition.progression.remaining(self.next_index)
    }

    /// Refuses a change that expects another revision.
    pub(crate) fn demand_revision(
        &self,
        name: &SequenceName,
        expected: Option<Revision>,
    ) -> Result<(), SequenceRefusal> {
        let actual = self.revision;
        match expected.filter(|expected| *expected != actual) {
            None => Ok(()),
            Some(expected) => Err(SequenceRefusal::RevisionMismatch {
                name: name.clone(),
                expected,
                actual,
            }),
        }
    }

    pub(crate) fn demand(
        &self,
        name: &SequenceName,
        mode: SequenceMode,
    ) -> Result<(), SequenceRefusal> {
        if self.definition.mode == mode {
            return Ok(());
        }
        Err(SequenceRefusal::WrongMode {
            name: name.clone(),
            mode: self.definition.mode,
        })
    }
}

impl Table<SequenceRecord> {
    /// Returns the sequence unless it was deleted.
    pub(crate) fn existing(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.get(name).filter(|record| !record.deleted)
    }

    /// Returns the sequence for a change. If the change is then refused, the row is encoded again
    /// without need.
    pub(crate) fn existing_mut(
        &mut self,
        name: &SequenceName,
    ) -> Result<&mut SequenceRecord, SequenceRefusal> {
        self.get_mut(name)
            .filter(|record| !record.deleted)
            .ok_or_else(|| SequenceRefusal::SequenceNotFound { name: name.clone() })
    }
}
