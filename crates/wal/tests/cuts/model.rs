//! A log without files: a map, a vote and a purge mark. A copy is noted after each call. After a
//! crash the log must equal one of these notes, and none older than the last acknowledged call.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seqd_wal::{Done, Recovered, Wal};

/// A log at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) entries: BTreeMap<u64, Arc<[u8]>>,
    pub(crate) next: u64,
    pub(crate) vote: Option<Vec<u8>>,
    pub(crate) purged: Option<(u64, Vec<u8>)>,
}

impl Model {
    /// Returns the index of the first entry, or of the next entry if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.entries.keys().next().copied().unwrap_or(self.next)
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.entries.insert(self.next, bytes.into());
        self.next += 1;
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        self.entries.split_off(&from);
        self.next = from;
    }

    pub(crate) fn purge(&mut self, upto: u64, meta: Vec<u8>) {
        self.entries = self.entries.split_off(&(upto + 1));
        self.next = self.next.max(upto + 1);
        self.purged = Some((upto, meta));
    }

    /// Reads all entries of an opened log.
    fn found(wal: &Wal, recovered: &Recovered) -> Result<Self, String> {
        let records = wal
            .read(0..u64::MAX, usize::MAX)
            .map_err(|error| format!("a log that was opened is not read: {error}"))?;
        let found = Self {
            entries: records
                .into_iter()
                .map(|r| (r.index, r.bytes.into()))
                .collect(),
            next: wal.next_index(),
            vote: recovered.vote.clone(),
            purged: recovered.purged.clone(),
        };
        let last = found
            .entries
            .last_key_value()
            .map(|(index, bytes)| (*index, bytes.to_vec()));
        let complete = found.entries.len() as u64 == found.next - found.first();
        if !complete || last != recovered.last || found.first() != recovered.first_index {
            return Err(format!(
                "it does not agree with itself: {found:?}, {recovered:?}"
            ));
        }
        Ok(found)
    }

    fn brief(&self) -> String {
        let entries: Vec<_> = self
            .entries
            .iter()
            .map(|(index, bytes)| format!("{index}:{}", name(bytes)))
            .collect();
        format!(
            "next {} vote {:?} purged {:?} entries [{}]",
            self.next,
            self.vote.as_deref().map(name),
            self.purged.as_ref().map(|(upto, _)| upto),
            entries.join(" ")
        )
    }
}

/// The last eight bytes, which contain the number of each value.
fn name(bytes: &[u8]) -> String {
    let mut last = [0; 8];
    let tail = &bytes[bytes.len().saturating_sub(8)..];
    last[..tail.len()].copy_from_slice(tail);
    format!("{}b#{}", bytes.len(), u64::from_le_bytes(last))
}

/// The notes of one life of the log, and the last acknowledged call.
pub(crate) struct Notes {
    notes: Vec<Model>,
    answered: Arc<AtomicUsize>,
    out_of_order: Arc<AtomicUsize>,
    /// Committed marks rise from 1; 0 means none. The range is from the highest mark in a synced
    /// batch to the last saved one.
    pub(crate) committed: RangeInclusive<u64>,
}

impl Notes {
    pub(crate) fn of(model: Model, committed: RangeInclusive<u64>) -> Self {
        Self {
            notes: vec![model],
            answered: Arc::default(),
            out_of_order: Arc::default(),
            committed,
        }
    }

    pub(crate) fn last(&self) -> &Model {
        &self.notes[self.notes.len() - 1]
    }

    /// Adds the note for a call, and returns its callback.
    pub(crate) fn add(&mut self, model: Model) -> Done {
        self.notes.push(model);
        let place = self.notes.len() - 1;
        let (answered, out_of_order) = (Arc::clone(&self.answered), Arc::clone(&self.out_of_order));
        Box::new(move |result| {
            if result.is_ok() && answered.swap(place, Ordering::Relaxed) + 1 != place {
                out_of_order.store(place, Ordering::Relaxed);
            }
        })
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn all_answered(&self) -> bool {
        self.answered() == self.notes.len() - 1
    }

    /// Checks the state found by an open, and begins the next life from it.
    pub(crate) fn judge(&self, wal: &Wal, recovered: &Recovered) -> Result<Self, String> {
        if self.out_of_order.load(Ordering::Relaxed) != 0 {
            return Err("answers came out of the order of the calls".into());
        }
        let found = Model::found(wal, recovered)?;
        let possible = &self.notes[self.answered()..];
        if !possible.contains(&found) {
            let possible: Vec<_> = possible.iter().map(Model::brief).collect();
            return Err(format!(
                "{} of {} calls were answered; found:\n  {}\nwhich is none of:\n  {}",
                self.answered(),
                self.notes.len() - 1,
                found.brief(),
                possible.join("\n  ")
            ));
        }
        let committed = match recovered.committed.as_deref().map(<[u8; 8]>::try_from) {
            None => 0,
            Some(Ok(bytes)) => u64::from_le_bytes(bytes),
            Some(Err(_)) => return Err("a committed mark that nobody saved".into()),
        };
        if !self.committed.contains(&committed) {
            return Err(format!(
                "committed mark {committed} is not within {:?}",
                self.committed
            ));
        }
        Ok(Self::of(found, committed..=committed))
    }
}
