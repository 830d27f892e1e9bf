//! The fuzz target for messages of the peers' port, with arbitrary bytes.
//! `docs/internals/FUZZING.md` describes it.
//!
//! The target panics if a guarantee is violated. The tests below run the kept inputs of
//! `tests/fuzz/corpus`, so that these are checked without a fuzzer too.

use std::io;

use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::hello::{Adopt, AskStart, Hello, HelloReply, OwnStart, Prepare, Taken};
use seqd_peers::wire::sealed;
use seqd_state::codec::Versioned;
use seqd_state::codec::frame::read_all;
use seqd_state::{Command, Outcome, codec};
use seqd_store::disk_errors::is_newer;

use super::*;
use crate::records::{EntryRecord, Restore, StoredMembershipRecord};

/// Longest error text about unreadable bytes, in bytes.
const MOST_WORDS: usize = 1024;

/// Reads a message. Its first byte is its kind, or 0 before an envelope with a message after it.
///
/// A message that was read must be written to bytes that are read as the same message. Entries and
/// memberships in it are accepted or refused with an error text.
pub fn peer_message(input: &[u8]) {
    let message = match input {
        [0, sealed @ ..] => match sealed::unseal(sealed) {
            Ok((envelope, message)) => {
                one(&sealed[4..sealed.len() - message.len()], &|_: &Envelope| {});
                assert!(!format!("{envelope:?}").is_empty());
                message
            }
            Err(error) => return worded(&error),
        },
        message => message,
    };
    if let Some(kind) = message.first() {
        by_kind(*kind, message);
    }
}

/// Reads a message of one type; `None` if the bytes are not one.
fn one<M: Versioned>(bytes: &[u8], look: &dyn Fn(&M)) -> Option<M> {
    let message = match sealed::decode::<M>(bytes) {
        Ok(message) => message,
        Err(error) => {
            worded(&error);
            return None;
        }
    };
    let written = written(&message);
    // A set or a map in the input may contain an element twice.
    assert!(written.len() <= bytes.len());
    match sealed::decode::<M>(&written) {
        Ok(again) => assert_eq!(self::written(&again), written),
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
    look(&message);
    Some(message)
}

fn written<M: Versioned>(message: &M) -> Vec<u8> {
    match codec::encode(message) {
        Ok(bytes) => bytes,
        Err(error) => panic!("what was read cannot be written: {error}"),
    }
}

fn by_kind(kind: u8, bytes: &[u8]) {
    /// Reads the message of this kind. The listed types need no further check.
    macro_rules! any_of {
        ($($message:ty),+ $(,)?) => {
            match kind {
                AppendRequest::KIND => {
                    if let Some(append) = one::<AppendRequest>(bytes, &|_| {}) {
                        appended(append);
                    }
                }
                SnapshotHead::KIND => {
                    if let Some(head) = one::<SnapshotHead>(bytes, &|_| {}) {
                        member(head.membership);
                    }
                }
                Forward::KIND => {
                    one::<Forward>(bytes, &|forward| {
                        if let Ok(commands) = read_all::<Command>(&forward.commands) {
                            assert_eq!(commands.len(), forward.commands.len());
                        }
                    });
                }
                ForwardReply::KIND => {
                    one::<ForwardReply>(bytes, &|reply| {
                        if let Ok(outcomes) = &reply.0 {
                            let _ = read_all::<Outcome>(outcomes);
                        }
                    });
                }
                $(<$message>::KIND => {
                    one::<$message>(bytes, &|_| {});
                })+
                _ => {}
            }
        };
    }
    any_of! {
        AppendReply, BallotRequest, BallotReply, TransferRequest, TransferReply, SnapshotReply,
        ReadIndex, ReadIndexReply, ChangeRequest, ChangeReply, Ping, Watch, Hello, HelloReply,
        Prepare, Adopt, Taken, AskSnapshotKept, SnapshotKept, SnapshotRest, Stopping, Facts,
        AskStart, OwnStart, Envelope,
    }
}

/// Restores entries like a follower. An accepted entry must be written as the same bytes again.
fn appended(append: AppendRequest) {
    let _ = (
        append.vote.restore(),
        append.prev.restore(),
        append.commit.restore(),
    );
    for record in append.entries {
        let bytes = written::<EntryRecord>(&record);
        match record.restore() {
            Ok(entry) => {
                assert_eq!(written(&entry.record()), bytes, "{entry:?}");
                if let Err(error) = entry.restore() {
                    worded(&error);
                }
            }
            Err(error) => worded(&error),
        }
    }
}

fn member(membership: StoredMembershipRecord) {
    match membership.restore() {
        Ok(membership) => assert!(membership.voter_ids().count() < 1 << 20),
        Err(error) => worded(&error),
    }
}

fn worded(error: &io::Error) {
    let words = error.to_string();
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{words}");
    let _ = is_newer(error);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    #[test]
    fn kept_messages_are_read_or_refused_with_words() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/messages.hex");
        let golden = std::fs::read_to_string(golden).unwrap();
        let messages = golden
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().as_bytes())
            .map(|hex| data_encoding::HEXLOWER.decode(hex).unwrap());
        let mut inputs: Vec<Vec<u8>> = messages.collect();
        let envelope = inputs
            .iter()
            .find(|bytes| bytes[0] == Envelope::KIND)
            .unwrap()
            .clone();
        let length = u32::try_from(envelope.len()).unwrap().to_le_bytes();
        let ping = inputs.iter().find(|bytes| bytes[0] == Ping::KIND).unwrap();
        inputs.push([&[0][..], &length, &envelope, ping].concat());
        replay("peer_message", &seeds(inputs), peer_message);
    }
}
