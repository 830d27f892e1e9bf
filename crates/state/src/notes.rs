//! A replicated table with three commands, whose records expire: the worked example of
//! `docs/internals/EXTENDING.md`, compiled only with the feature `test-next-level`.
//!
//! Invariant: a note exists while the cluster time is below its end, whether or not its row has
//! been dropped.

use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::context::ApplyContext;
use crate::deadlines::{Deadlines, Expiring, Passing};
use crate::level::Level;
use crate::newtypes::ClusterMs;
use crate::table::{Table, record};

/// The maximum size of a note and of its name, in bytes, so that a row stays small.
pub const MAX_BYTES: usize = 256;

/// The maximum lifetime of a note: an hour.
pub const MAX_TTL_MS: u64 = 3_600_000;

/// A change of the notes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteCommand {
    /// Writes a note, and replaces an existing one of the same name.
    Put {
        name: String,
        text: String,
        ttl_ms: u64,
    },
    /// Extends the lifetime of a note.
    Extend { name: String, ttl_ms: u64 },
    /// Ends a note.
    Remove { name: String },
}

/// The result of a [`NoteCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteOutcome {
    /// The note exists until this cluster time.
    Kept { until: ClusterMs },
    /// The note no longer exists.
    Removed,
}

/// The reason why a [`NoteCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoteRefusal {
    #[error("there is no note {name}")]
    NotFound { name: String },
    #[error(
        "a note and its name have at most {MAX_BYTES} bytes, and its ttl is at most {MAX_TTL_MS} ms"
    )]
    TooLong,
}

impl FrameTable for NoteCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x7f01).since(Level::NEXT), // Put
        row(0x7f02).since(Level::NEXT), // Extend
        row(0x7f03).since(Level::NEXT), // Remove
    ];
}

impl FrameTable for NoteOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x7f41).since(Level::NEXT), // Kept
        row(0x7f42).since(Level::NEXT), // Removed
    ];
}

impl FrameTable for NoteRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x7f81).since(Level::NEXT), // NotFound
        row(0x7f82).since(Level::NEXT), // TooLong
    ];
}

/// A note. Its name is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteRecord {
    pub text: String,
    pub until: ClusterMs,
}

record!(NoteRecord, kind 62, version 1, prefix b'z', key String);

impl Expiring for NoteRecord {
    fn deadline(&self, _: &String, _: &ApplyContext<'_>) -> Option<ClusterMs> {
        Some(self.until)
    }

    fn pass(table: &mut Table<Self>, name: &String, passing: Passing<'_>) {
        if table.live(name, passing.cluster_ms).is_err() {
            table.remove(name);
        }
    }
}

impl NoteRecord {
    fn is_over(&self, now: ClusterMs) -> bool {
        self.until <= now
    }
}

impl Table<NoteRecord> {
    pub(crate) fn apply(
        &mut self,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        command: &NoteCommand,
    ) -> Result<NoteOutcome, NoteRefusal> {
        command.check()?;
        match command {
            NoteCommand::Put { name, text, ttl_ms } => {
                self.keep(deadlines, context, name, text.clone(), *ttl_ms)
            }
            NoteCommand::Extend { name, ttl_ms } => {
                let text = self.live(name, context.cluster_ms)?.text.clone();
                self.keep(deadlines, context, name, text, *ttl_ms)
            }
            NoteCommand::Remove { name } => {
                let until = self.live(name, context.cluster_ms)?.until;
                deadlines.remove::<NoteRecord>(until, name);
                self.remove(name);
                Ok(NoteOutcome::Removed)
            }
        }
    }

    fn keep(
        &mut self,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        name: &String,
        text: String,
        ttl_ms: u64,
    ) -> Result<NoteOutcome, NoteRefusal> {
        if let Some(before) = self.get(name) {
            deadlines.remove::<NoteRecord>(before.until, name);
        }
        let until = ClusterMs(context.cluster_ms.0.saturating_add(ttl_ms));
        deadlines.insert::<NoteRecord>(until, name);
        self.put(name.clone(), NoteRecord { text, until });
        Ok(NoteOutcome::Kept { until })
    }

    pub(crate) fn live(&self, name: &str, now: ClusterMs) -> Result<&NoteRecord, NoteRefusal> {
        self.get(name)
            .filter(|note| !note.is_over(now))
            .ok_or_else(|| NoteRefusal::NotFound {
                name: name.to_owned(),
            })
    }
}

impl NoteCommand {
    /// Refuses a command that is invalid in every state.
    pub(crate) fn check(&self) -> Result<(), NoteRefusal> {
        let (texts, ttl_ms): (&[&String], u64) = match self {
            Self::Put { name, text, ttl_ms } => (&[name, text], *ttl_ms),
            Self::Extend { name, ttl_ms } => (&[name], *ttl_ms),
            Self::Remove { .. } => return Ok(()),
        };
        if texts.iter().any(|text| text.len() > MAX_BYTES) || ttl_ms > MAX_TTL_MS {
            return Err(NoteRefusal::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlines::PASSED_PER_ENTRY;
    use crate::domains::{Command, Outcome, Refusal};
    use crate::entry::EncodedEntry;
    use crate::state::State;
    use crate::testing::{entry, founded};

    fn put(name: &str, ttl_ms: u64) -> Command {
        let (name, text) = (name.to_owned(), "hello".to_owned());
        NoteCommand::Put { name, text, ttl_ms }.into()
    }

    fn extend(name: &str, ttl_ms: u64) -> Command {
        let name = name.to_owned();
        NoteCommand::Extend { name, ttl_ms }.into()
    }

    fn remove(name: &str) -> Command {
        let name = name.to_owned();
        NoteCommand::Remove { name }.into()
    }

    fn kept(until: u64) -> Outcome {
        let until = ClusterMs(until);
        Outcome::Notes(NoteOutcome::Kept { until })
    }

    fn refused(refusal: NoteRefusal) -> Outcome {
        Outcome::Refused(Refusal::Notes(refusal))
    }

    fn not_found(name: &str) -> Outcome {
        let name = name.to_owned();
        refused(NoteRefusal::NotFound { name })
    }

    #[test]
    fn a_note_is_written_extended_and_removed() {
        let mut state = founded();
        let put = state.apply(&entry(10, vec![put("a", 5)]), None);
        assert_eq!(put, [kept(15)]);
        let more = vec![extend("a", 20), extend("b", 1), remove("b")];
        let more = state.apply(&entry(12, more), None);
        assert_eq!(more, [kept(32), not_found("b"), not_found("b")]);
        assert_eq!(state.note("a").unwrap().text, "hello");
        assert_eq!(state.next_deadline(), Some(ClusterMs(32)));

        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.note("a"), state.note("a"));
        assert_eq!(read_back.digest(), state.digest());
        assert_eq!(read_back.next_deadline(), state.next_deadline());

        let removed = state.apply(&entry(13, vec![remove("a")]), None);
        assert_eq!(removed, [Outcome::Notes(NoteOutcome::Removed)]);
        assert_eq!((state.note("a"), state.next_deadline()), (None, None));
        assert_eq!(state.digest(), {
            let mut never = founded();
            never.apply(&entry(13, Vec::new()), None);
            never.digest()
        });
    }

    #[test]
    fn a_note_ends_at_its_time_and_its_row_is_dropped() {
        let mut state = founded();
        state.apply(&entry(10, vec![put("a", 5)]), None);
        state.drain_changes();
        state.apply(&entry(14, Vec::new()), None);
        assert!(state.note("a").is_some());
        let outcomes = state.apply(&entry(15, vec![extend("a", 9), remove("a")]), None);
        assert_eq!(outcomes, [not_found("a"), not_found("a")]);
        assert_eq!(state.note("a"), None);
        let changes = state.drain_changes().rows;
        assert!(changes.contains(&(b"za".to_vec(), None)), "{changes:?}");
    }

    /// Simulates a command that overwrites a record and leaves its old deadline in the index.
    #[test]
    fn a_deadline_of_an_overwritten_note_drops_nothing() {
        let mut state = founded();
        state.apply(&entry(10, vec![put("a", 5)]), None);
        let until = ClusterMs(30);
        let text = "later".to_owned();
        (state.tables.notes).put("a".to_owned(), NoteRecord { text, until });
        (state.deadlines).insert::<NoteRecord>(until, &"a".to_owned());
        state.apply(&entry(15, Vec::new()), None);
        assert_eq!(state.note("a").unwrap().text, "later");
        state.apply(&entry(30, Vec::new()), None);
        assert!(!state.rows().any(|(key, _)| key[0] == b'z'));
    }

    #[test]
    fn an_entry_drops_a_bounded_number_and_the_others_count_as_dropped() {
        let mut state = founded();
        let notes = PASSED_PER_ENTRY + 1;
        let commands = (0..notes).map(|at| put(&format!("{at:05}"), 5)).collect();
        state.apply(&entry(10, commands), None);
        let rows = |state: &State| state.rows().filter(|(key, _)| key[0] == b'z').count();
        assert_eq!(rows(&state), notes);
        state.apply(&entry(20, Vec::new()), None);
        assert_eq!(rows(&state), 1, "one row is left for the next entry");
        assert_eq!(state.note(&format!("{:05}", notes - 1)), None);

        // A replica that started in between drops the row at the same entry.
        let mut read_back = State::from_rows(state.rows()).unwrap();
        for state in [&mut state, &mut read_back] {
            state.apply(&entry(20, Vec::new()), None);
            assert_eq!(rows(state), 0);
        }
        assert_eq!(read_back.digest(), state.digest());
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        let mut state = founded();
        let long = "x".repeat(MAX_BYTES + 1);
        let commands = vec![put(&long, 1), put("a", MAX_TTL_MS + 1), extend(&long, 1)];
        for command in &commands {
            assert_eq!(command.check(), Err(NoteRefusal::TooLong.into()));
        }
        let outcomes = state.apply(&entry(10, commands), None);
        assert_eq!(outcomes, [(); 3].map(|()| refused(NoteRefusal::TooLong)));
    }

    #[test]
    fn the_commands_are_written_from_their_level_on_and_come_back() {
        let commands = vec![put("a", 5), extend("a", 5), remove("a")];
        for command in &commands {
            let one = entry(10, vec![command.clone()]);
            assert!(EncodedEntry::new(one, Level::FIRST).is_err());
        }
        let all = entry(10, commands);
        let written = EncodedEntry::new(all.clone(), Level::NEXT).unwrap();
        let read = EncodedEntry::decode(written.bytes().clone()).unwrap();
        assert_eq!(*read, all);
    }
}
