//! What [`Level::NEXT`] changes, as a release would: a command's second version, and one more field
//! of the member's record.
//!
//! Only in tests and behind a feature; see `docs/internals/EXTENDING.md`.

use serde::{Deserialize, Serialize};

use super::commands::{ClusterOutcome, ClusterRefusal};
use super::nodes::{AddedNode, NodeRecord, RegisteredStart};
use crate::codec::{self, CodecError, Versioned};
use crate::level::Level;
use crate::newtypes::NodeId;
use crate::table::Table;

/// The record before [`Level::NEXT`]. Frozen: its bytes are stored.
#[derive(Serialize, Deserialize)]
struct NodeRecordV1 {
    name: String,
    added: Option<AddedNode>,
    start: Option<RegisteredStart>,
    removed: bool,
}

impl From<NodeRecordV1> for NodeRecord {
    fn from(record: NodeRecordV1) -> Self {
        Self {
            name: record.name,
            added: record.added,
            start: record.start,
            removed: record.removed,
            started: None,
        }
    }
}

impl Versioned for NodeRecord {
    const KIND: u8 = 13;
    const VERSION: u8 = 2;

    fn version_at(level: Level) -> u8 {
        if level < Level::NEXT { 1 } else { 2 }
    }

    fn decode_body(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        let kind = Self::KIND.into();
        match version {
            1 => codec::from_body::<NodeRecordV1>(kind, body, Self::MAX_BYTES).map(Into::into),
            2 => codec::from_body(kind, body, Self::MAX_BYTES),
            _ => Err(codec::never_written(kind, version)),
        }
    }

    fn encode_body(&self, version: u8, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        let kind = Self::KIND.into();
        match version {
            1 => {
                let Self {
                    name,
                    added,
                    start,
                    removed,
                    started: _,
                } = self.clone();
                let record = NodeRecordV1 {
                    name,
                    added,
                    start,
                    removed,
                };
                codec::to_body(kind, &record, bytes)
            }
            2 => codec::to_body(kind, self, bytes),
            _ => Err(CodecError::NotInVersion { kind, version }),
        }
    }
}

impl Table<NodeRecord> {
    pub(crate) fn register_start_v2(
        &mut self,
        node: NodeId,
        start: RegisteredStart,
        started: u64,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let outcome = self.register_start(node, start)?;
        if let Some(record) = self.get_mut(&node) {
            record.started = Some(started);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::commands::ClusterCommand;
    use crate::entry::{EncodedEntry, Entry, EntryError};
    use crate::level::{Level, LogPosition};
    use crate::newtypes::NodeId;
    use crate::state::State;
    use crate::testing;

    const MEMBERSHIP: LogPosition = LogPosition { term: 1, index: 0 };

    fn entry(command: ClusterCommand) -> Entry {
        testing::entry(1, vec![command.into()])
    }

    fn founded_at(level: Level) -> State {
        let mut state = testing::founded();
        for to in Level::FIRST.next().0..=level.0 {
            raise(&mut state, Level(to));
        }
        assert_eq!(state.level(), level);
        state
    }

    fn raise(state: &mut State, to: Level) {
        let membership = MEMBERSHIP;
        let raise = ClusterCommand::RaiseLevel { to, membership };
        state.apply(&entry(raise), Some(MEMBERSHIP));
    }

    fn start_v2() -> Entry {
        entry(ClusterCommand::RegisterStartV2 {
            node: NodeId(1),
            boot: 4,
            nonce: 5,
            started: 6,
        })
    }

    /// The version of each member's row.
    fn versions(state: &State) -> Vec<u8> {
        let rows = state.rows().filter(|(key, _)| key[0] == b'n');
        rows.map(|(_, value)| value[1]).collect()
    }

    #[test]
    fn the_second_version_of_a_command_is_not_written_below_its_level() {
        let below = EncodedEntry::new(start_v2(), Level::LOCKS);
        let since = Level::NEXT;
        assert!(
            matches!(below, Err(EntryError::AboveLevel { since: found, .. }) if found == since),
            "{below:?}"
        );
        let written = EncodedEntry::new(start_v2(), Level::NEXT).unwrap();
        let read = EncodedEntry::decode(written.bytes().clone()).unwrap();
        assert_eq!(*read, start_v2());
    }

    #[test]
    fn a_row_takes_its_new_version_at_the_first_touch_after_the_level_rose() {
        let mut state = founded_at(Level::LOCKS);
        assert_eq!(versions(&state), [1, 1]);
        raise(&mut state, Level::NEXT);
        assert_eq!(versions(&state), [1, 1]);
        state.apply(&start_v2(), None);
        assert_eq!(versions(&state), [2, 1]);
        assert_eq!(state.node(NodeId(1)).unwrap().started, Some(6));

        let read_back = State::from_rows(state.rows()).unwrap();
        assert!(read_back.rows().eq(state.rows()), "each in its own version");
        assert_eq!(read_back.digest(), state.digest());
        assert_eq!(read_back.node(NodeId(1)), state.node(NodeId(1)));
    }

    #[test]
    fn the_level_brings_its_layout_and_one_below_does_not_have_it() {
        let mut state = founded_at(Level::LOCKS);
        assert_eq!(state.layout("next"), None);
        raise(&mut state, Level::NEXT);
        let layout = state.layout("next").unwrap();
        assert_eq!((layout.workers(), layout.sequences()), (1 << 8, 1 << 14));
        assert_eq!(state.layouts().count(), 7);
        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.layout("next"), Some(layout));
    }

    #[test]
    fn what_a_still_newer_program_wrote_is_named_so() {
        let beyond = Level::NEWEST.next();
        let state = founded_at(Level::NEXT);
        let mut rows: Vec<_> = state.rows().collect();
        let level = rows.iter_mut().find(|(key, _)| key[0] == b'e').unwrap();
        *level.1.last_chunk_mut().unwrap() = beyond.0.to_le_bytes();
        let error = State::from_rows(rows).unwrap_err();
        assert!(error.is_newer(), "{error}");
    }
}
