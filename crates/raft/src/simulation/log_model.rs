//! The expected log: a map, and the operations that are not acknowledged yet.

use std::collections::BTreeMap;

use crate::records::{self, ToRecord};
use crate::types::{Entry, LogId, Vote};

/// The change of one operation.
#[derive(Clone, Debug)]
pub(super) enum LogChange {
    Append(Vec<(u64, Vec<u8>)>),
    Vote(Vote),
    /// Removes everything after this index.
    Truncate(Option<u64>),
    Purge(LogId),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) vote: Option<Vote>,
    pub(super) purged: Option<LogId>,
    pub(super) entries: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    /// Index of the next entry.
    pub(super) fn next(&self) -> u64 {
        let last = self.entries.last_key_value().map(|(index, _)| *index);
        let purged = self.purged.map(|id| id.index());
        last.max(purged).map_or(0, |index| index + 1)
    }

    /// The entry's ID, or that of the purged entry.
    pub(super) fn id(&self, index: u64) -> Option<LogId> {
        match self.entries.get(&index) {
            Some(bytes) => Some(decode(bytes).log_id),
            None => self.purged.filter(|id| id.index() == index),
        }
    }

    pub(super) fn apply(&mut self, change: &LogChange) {
        match change {
            LogChange::Append(entries) => self.entries.extend(entries.iter().cloned()),
            LogChange::Vote(vote) => self.vote = Some(*vote),
            LogChange::Truncate(after) => {
                self.entries.retain(|index, _| Some(*index) <= *after);
            }
            LogChange::Purge(upto) => {
                self.entries.retain(|index, _| *index > upto.index());
                self.purged = Some(*upto);
            }
        }
    }
}

/// The operations that were requested from the log, and the state after the acknowledged ones.
#[derive(Clone, Debug, Default)]
pub(super) struct LogModel {
    /// The content after the acknowledged operations.
    acknowledged: Content,
    /// The content after all operations.
    pub(super) now: Content,
    pending: Vec<LogChange>,
}

impl LogModel {
    /// Records an operation that was passed to the log.
    pub(super) fn issue(&mut self, change: LogChange) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    /// Records that all operations were acknowledged, because the last one was.
    pub(super) fn acknowledge_all(&mut self) {
        for change in self.pending.drain(..) {
            self.acknowledged.apply(&change);
        }
    }

    /// Adopts the log that was found after a cut, if it is allowed.
    pub(super) fn settle(&mut self, found: Content) -> Result<(), String> {
        let mut allowed = self.acknowledged.clone();
        let mut pending = self.pending.iter();
        loop {
            if allowed == found {
                break;
            }
            match pending.next() {
                Some(change) => allowed.apply(change),
                None => {
                    return Err(format!(
                        "the log is not one of those that may be left: found {}, acknowledged \
                         were {}, with all that was pending it would be {}",
                        summary(&found),
                        summary(&self.acknowledged),
                        summary(&self.now)
                    ));
                }
            }
        }
        self.acknowledged = found.clone();
        self.now = found;
        self.pending.clear();
        Ok(())
    }
}

fn summary(content: &Content) -> String {
    let ends = (
        content.entries.first_key_value(),
        content.entries.last_key_value(),
    );
    let range = match ends {
        (Some((first, _)), Some((last, _))) => format!("{first}..={last}"),
        _ => "none".to_owned(),
    };
    format!(
        "[entries {range}, purged {:?}, vote {:?}]",
        content.purged.map(|id| id.index()),
        content.vote.map(|vote| vote.leader_id.term)
    )
}

pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    entry
        .record()
        .encode()
        .expect("an entry of the workload can be written")
}

pub(super) fn decode(bytes: &[u8]) -> Entry {
    records::decode_entry(bytes).expect("the model's own bytes")
}
