//! The encoding of all consensus data in a log, a checkpoint and a snapshot: mirror types with a
//! kind and a version, so that no type of a library has to keep its shape.
//!
//! Kinds 96 to 127 of the codec belong to this file, to the small files of the data folder and to
//! the messages of peers; kinds 64 to 95 belong to checkpoints and snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use seqd_state::codec::{self, Bytes, CodecError, Versioned};
use seqd_state::{EncodedEntry, LogPosition};
use serde::{Deserialize, Serialize};

use crate::disk_errors::newer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteRecord {
    pub term: u64,
    pub node: u64,
    /// `true` if that node is known to have won the election.
    pub committed: bool,
}

impl Versioned for VoteRecord {
    const KIND: u8 = 96;
    const VERSION: u8 = 1;
}

/// A position in the log: the term of the leader that wrote the entry, and its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogIdRecord {
    pub term: u64,
    pub index: u64,
}

impl Versioned for LogIdRecord {
    const KIND: u8 = 97;
    const VERSION: u8 = 1;
}

impl From<LogIdRecord> for LogPosition {
    fn from(LogIdRecord { term, index }: LogIdRecord) -> Self {
        Self { term, index }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    /// The peer address, `HOST:PORT`.
    pub peer: String,
    /// The client address, `http://HOST:PORT`.
    pub http: String,
}

/// The voters of each (joint) configuration, and all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipRecord {
    pub configs: Vec<BTreeSet<u64>>,
    pub nodes: BTreeMap<u64, Member>,
}

impl MembershipRecord {
    pub fn of_one(node: u64, member: Member) -> Self {
        Self {
            configs: vec![[node].into()],
            nodes: [(node, member)].into(),
        }
    }

    pub fn voters(&self) -> BTreeSet<u64> {
        self.configs.iter().flatten().copied().collect()
    }

    /// Rejects a configuration without voters, and a voter that is not in `nodes`.
    fn check(&self) -> io::Result<()> {
        if self.configs.iter().any(BTreeSet::is_empty) {
            return Err(invalid("a configuration without voters"));
        }
        match self.voters().iter().find(|id| !self.nodes.contains_key(id)) {
            Some(id) => Err(invalid(&format!("voter {id} is not a member"))),
            None => Ok(()),
        }
    }
}

/// A membership and the entry that set it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMembershipRecord {
    pub log_id: Option<LogIdRecord>,
    pub membership: MembershipRecord,
}

impl Versioned for StoredMembershipRecord {
    const KIND: u8 = 98;
    const VERSION: u8 = 1;
}

#[derive(Clone, Debug)]
pub enum EntryPayload {
    Blank,
    Normal(Arc<EncodedEntry>),
    Membership(MembershipRecord),
}

#[derive(Clone, Debug)]
pub struct LogEntry {
    pub id: LogIdRecord,
    pub payload: EntryPayload,
}

/// A log entry in its stored and transmitted form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryRecord {
    id: LogIdRecord,
    payload: PayloadRecord,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum PayloadRecord {
    Blank,
    /// The entry of the state, with its kind and version.
    Normal(Bytes),
    Membership(MembershipRecord),
}

impl Versioned for EntryRecord {
    const KIND: u8 = 99;
    const VERSION: u8 = 1;
}

impl EntryRecord {
    pub fn restore(self) -> io::Result<LogEntry> {
        let payload = match self.payload {
            PayloadRecord::Blank => EntryPayload::Blank,
            PayloadRecord::Normal(bytes) => {
                let entry = EncodedEntry::decode(bytes).map_err(not_decoded)?;
                EntryPayload::Normal(Arc::new(entry))
            }
            PayloadRecord::Membership(membership) => {
                membership.check()?;
                EntryPayload::Membership(membership)
            }
        };
        let id = self.id;
        Ok(LogEntry { id, payload })
    }
}

impl LogEntry {
    pub fn record(&self) -> EntryRecord {
        let payload = match &self.payload {
            EntryPayload::Blank => PayloadRecord::Blank,
            EntryPayload::Normal(entry) => PayloadRecord::Normal(entry.bytes().clone()),
            EntryPayload::Membership(membership) => PayloadRecord::Membership(membership.clone()),
        };
        let id = self.id;
        EntryRecord { id, payload }
    }

    /// Encodes the entry. The bytes are the same in the log and between peers.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        encode(&self.record())
    }
}

/// A durable vote, in the order in which the votes of one node may follow each other: within a
/// term, first one vote, then the leader that won the term, which may be another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct Ballot {
    pub term: u64,
    pub committed: bool,
    pub node: u64,
}

impl From<VoteRecord> for Ballot {
    fn from(vote: VoteRecord) -> Self {
        Self {
            term: vote.term,
            committed: vote.committed,
            node: vote.node,
        }
    }
}

/// The durable position of a node, ordered by the vote first. Under a higher vote the last log ID
/// may be lower, because a new leader may truncate entries that were never committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct SyncedPosition {
    pub vote: Option<Ballot>,
    pub last: Option<LogIdRecord>,
}

impl fmt::Display for SyncedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vote {
            Some(vote) if vote.committed => {
                write!(f, "term {} led by node {}", vote.term, vote.node)
            }
            Some(vote) => write!(f, "term {} and a vote for node {}", vote.term, vote.node),
            None => f.write_str("no term"),
        }?;
        match self.last {
            Some(last) => write!(f, ", entry {} of term {}", last.index, last.term),
            None => f.write_str(", no entry"),
        }
    }
}

/// One start of a node: the number of starts of its folder, and a random number drawn at that
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub boot: u64,
    pub nonce: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The latest known start of the peer.
    pub start: Start,
    /// The highest position that this start reported as synced.
    pub synced: SyncedPosition,
    /// The highest position that earlier starts reported.
    pub before: SyncedPosition,
}

/// The stored table of the positions that the other nodes have acknowledged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeersRecord {
    /// The cluster of these nodes: a restored cluster assigns new node numbers.
    pub cluster_id: String,
    pub rows: Vec<(u64, PeerRecord)>,
}

impl Versioned for PeersRecord {
    const KIND: u8 = 103;
    const VERSION: u8 = 1;
}

/// Decodes a log ID and a membership from a checkpoint or a snapshot. An empty log ID means that
/// nothing was applied.
pub fn restore_position(
    log_id: &[u8],
    membership: &[u8],
) -> io::Result<(Option<LogIdRecord>, StoredMembershipRecord)> {
    let id = (!log_id.is_empty()).then(|| decode::<LogIdRecord>(log_id));
    let stored: StoredMembershipRecord = decode(membership)?;
    stored.membership.check()?;
    Ok((id.transpose()?, stored))
}

pub fn decode_entry(bytes: &[u8]) -> io::Result<LogEntry> {
    decode::<EntryRecord>(bytes)?.restore()
}

/// `codec::encode` with an I/O error.
pub fn encode<T: Versioned>(value: &T) -> io::Result<Vec<u8>> {
    codec::encode(value).map_err(|e| not_encoded(&e))
}

/// `codec::decode` with an I/O error. The checksum of data from a disk has already been verified.
pub fn decode<T: Versioned>(bytes: &[u8]) -> io::Result<T> {
    codec::decode(bytes).map_err(not_decoded)
}

/// A value that cannot be encoded is too large or not supported by the version. The disk is never
/// the cause.
fn not_encoded(error: &CodecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

fn not_decoded(error: CodecError) -> io::Error {
    if error.is_newer() {
        newer(error.to_string())
    } else {
        invalid(&error.to_string())
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
