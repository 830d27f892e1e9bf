//! A log entry and its bytes.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::cluster::commands::ClusterCommand;
use crate::codec::frame::{self, Frame, Framed};
use crate::codec::{self, Bytes, CodecError, Versioned};
use crate::domains::Command;
use crate::level::Level;
use crate::stamp::Stamp;

/// The maximum number of commands in one entry.
///
/// Commands are gathered while the previous entry is in flight. Applying four thousand of them
/// takes a few milliseconds, so no single entry delays a follower noticeably.
pub const MAX_COMMANDS_PER_ENTRY: usize = 4096;

/// The maximum size of a proposed entry, in bytes. Together with the 4 MiB of other entries before
/// it, it fits in one message between peers. A decoded entry may be larger, up to the codec's
/// limit.
pub const MAX_ENTRY_BYTES: usize = 8 << 20;

/// A log entry. Without commands it only carries the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub stamp: Stamp,
    pub commands: Vec<Command>,
}

/// The body of an entry, with frames that may have unknown kinds.
#[derive(Deserialize)]
struct Frames {
    stamp: Stamp,
    commands: Vec<Frame>,
}

impl Versioned for Entry {
    const KIND: u8 = 1;
    const VERSION: u8 = 1;

    fn decode_body(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        let kind = Self::KIND.into();
        if version != Self::VERSION {
            return Err(codec::never_written(kind, version));
        }
        let Frames { stamp, commands } = codec::from_body(kind, body, Self::MAX_BYTES)?;
        let commands: Vec<Command> = frame::read_all(&commands)?;
        check_level(&commands)?;
        Ok(Self { stamp, commands })
    }
}

/// Refuses a raise to a level above the highest level that this program supports, because this
/// program must not apply it.
fn check_level(commands: &[Command]) -> Result<(), CodecError> {
    let known = Level::highest();
    for command in commands {
        if let Command::Cluster(ClusterCommand::RaiseLevel { to, .. }) = command
            && *to > known
        {
            return Err(CodecError::NewerLevel { found: *to, known });
        }
    }
    Ok(())
}

/// The reason why the leader does not propose an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("command {kind} in version {version} needs level {since}: the cluster is at {level}")]
    AboveLevel {
        kind: u16,
        version: u8,
        since: Level,
        level: Level,
    },
    #[error("an entry has {count} commands, at most {MAX_COMMANDS_PER_ENTRY} are allowed")]
    TooManyCommands { count: usize },
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// An entry with its bytes, header included. The proposer encodes it once, for the log and for
/// every member.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedEntry {
    entry: Entry,
    bytes: Bytes,
}

impl EncodedEntry {
    /// Encodes the entry in the versions that a cluster at this level writes.
    pub fn new(entry: Entry, level: Level) -> Result<Self, EntryError> {
        let count = entry.commands.len();
        if count > MAX_COMMANDS_PER_ENTRY {
            return Err(EntryError::TooManyCommands { count });
        }
        for command in &entry.commands {
            check_command(command, level)?;
        }
        check_level(&entry.commands)?;
        let encoded = codec::encode_version(&entry, Entry::version_at(level))?;
        if encoded.len() > MAX_ENTRY_BYTES {
            return Err(EntryError::Codec(CodecError::TooLarge {
                kind: Entry::KIND.into(),
                limit: MAX_ENTRY_BYTES,
            }));
        }
        let bytes = encoded.into();
        Ok(Self { entry, bytes })
    }

    pub fn decode(bytes: Bytes) -> Result<Self, CodecError> {
        let entry = codec::decode(&bytes.0)?;
        Ok(Self { entry, bytes })
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Deref for EncodedEntry {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// Refuses a command that a cluster at this level cannot write.
pub fn check_command(command: &Command, level: Level) -> Result<(), EntryError> {
    let row = command.frame_row()?;
    if row.since > level {
        return Err(EntryError::AboveLevel {
            kind: row.kind,
            version: row.version,
            since: row.since,
            level,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::commands::AllocateNodeId;
    use crate::level::LogPosition;
    use crate::newtypes::NodeId;

    #[test]
    fn a_raise_above_the_levels_of_this_program_is_not_written() {
        let (found, known) = (Level::NEWEST.next(), Level::NEWEST);
        let raise = ClusterCommand::RaiseLevel {
            to: found,
            membership: LogPosition { term: 1, index: 0 },
        };
        let (stamp, commands) = (Stamp::default(), vec![raise.into()]);
        assert_eq!(
            EncodedEntry::new(Entry { stamp, commands }, Level::NEWEST),
            Err(CodecError::NewerLevel { found, known }.into())
        );
    }

    #[test]
    fn an_entry_of_more_bytes_than_allowed_is_not_encoded_and_still_read() {
        let of_bytes = |bytes: usize| {
            let command = ClusterCommand::AllocateNodeId(AllocateNodeId {
                name: "n".repeat(bytes),
                peer: String::new(),
                http: String::new(),
                nonce: 0,
            });
            let (stamp, commands) = (Stamp::default(), vec![command.into()]);
            Entry { stamp, commands }
        };
        let kept = EncodedEntry::new(of_bytes(MAX_ENTRY_BYTES - 1024), Level::FIRST);
        assert!(kept.is_ok());
        let large = of_bytes(MAX_ENTRY_BYTES);
        let refused = EncodedEntry::new(large.clone(), Level::FIRST);
        let (kind, limit) = (Entry::KIND.into(), MAX_ENTRY_BYTES);
        assert_eq!(refused, Err(CodecError::TooLarge { kind, limit }.into()));
        let of_another_log = codec::encode(&large).unwrap();
        assert_eq!(*EncodedEntry::decode(of_another_log.into()).unwrap(), large);
    }

    #[test]
    fn an_entry_of_more_commands_than_allowed_is_not_encoded() {
        let command = Command::Cluster(ClusterCommand::MarkRemoved { node: NodeId(1) });
        let encoded = |count| {
            let (stamp, commands) = (Stamp::default(), vec![command.clone(); count]);
            EncodedEntry::new(Entry { stamp, commands }, Level::FIRST)
        };
        assert!(encoded(MAX_COMMANDS_PER_ENTRY).is_ok());
        let count = MAX_COMMANDS_PER_ENTRY + 1;
        assert_eq!(encoded(count), Err(EntryError::TooManyCommands { count }));
    }
}
