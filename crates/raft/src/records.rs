//! The bytes of everything that consensus stores or sends: mirror structs with a kind and a
//! version, so that no openraft type has to keep its shape.
//!
//! Kinds 96 to 127 of the codec belong to this file and to `messages`; 64 to 95 to checkpoints
//! and snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use openraft::entry::RaftEntry;
use seqd_state::codec::{self, Bytes, CodecError, Versioned};
use seqd_state::{EncodedEntry, EntryV1};
use serde::{Deserialize, Serialize};

use crate::types::{
    self, Entry, LogId, Member, Membership, Payload, Proposal, StoredMembership, Vote,
};
use seqd_store::faults::newer;

/// A vote as stored and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    term: u64,
    node: u64,
    committed: bool,
}

impl Versioned for VoteRecord {
    const KIND: u8 = 96;
    const VERSION: u8 = 1;
}

impl From<&Vote> for VoteRecord {
    fn from(vote: &Vote) -> Self {
        Self {
            term: vote.leader_id.term,
            node: vote.leader_id.voted_for,
            committed: vote.committed,
        }
    }
}

impl From<VoteRecord> for Vote {
    fn from(record: VoteRecord) -> Self {
        types::vote(record.term, record.node, record.committed)
    }
}

/// A log ID as stored and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogIdRecord {
    /// The term of the leader that wrote the entry.
    pub(crate) term: u64,
    /// Its place in the log.
    pub(crate) index: u64,
}

impl Versioned for LogIdRecord {
    const KIND: u8 = 97;
    const VERSION: u8 = 1;
}

impl From<&LogId> for LogIdRecord {
    fn from(id: &LogId) -> Self {
        Self {
            term: **id.committed_leader_id(),
            index: id.index(),
        }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(record: LogIdRecord) -> Self {
        types::log_id(record.term, record.index)
    }
}

/// A member as stored and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// Its name.
    pub(crate) name: String,
    /// Its peer address.
    pub(crate) peer: String,
    /// Its client address.
    pub(crate) http: String,
}

impl From<&Member> for MemberRecord {
    fn from(member: &Member) -> Self {
        Self {
            name: member.name.clone(),
            peer: member.peer.clone(),
            http: member.http.clone(),
        }
    }
}

impl From<MemberRecord> for Member {
    fn from(record: MemberRecord) -> Self {
        Self {
            name: record.name,
            peer: record.peer,
            http: record.http,
        }
    }
}

/// A membership as stored and sent: the voters of each (joint) configuration, and all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipRecord {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, MemberRecord>,
}

impl From<&Membership> for MembershipRecord {
    fn from(membership: &Membership) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership
                .nodes()
                .map(|(id, node)| (*id, node.into()))
                .collect(),
        }
    }
}

impl MembershipRecord {
    fn restore(self) -> io::Result<Membership> {
        let nodes: BTreeMap<u64, Member> = self
            .nodes
            .into_iter()
            .map(|(id, node)| (id, node.into()))
            .collect();
        if self.configs.is_empty() && nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(self.configs, nodes).map_err(|e| invalid(&e.to_string()))
    }
}

/// A membership and the entry that set it, as stored in checkpoints and snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMembershipRecord {
    log_id: Option<LogIdRecord>,
    membership: MembershipRecord,
}

impl Versioned for StoredMembershipRecord {
    const KIND: u8 = 98;
    const VERSION: u8 = 1;
}

impl From<&StoredMembership> for StoredMembershipRecord {
    fn from(stored: &StoredMembership) -> Self {
        Self {
            log_id: stored.log_id().as_ref().map(Into::into),
            membership: stored.membership().into(),
        }
    }
}

impl StoredMembershipRecord {
    /// The openraft form.
    pub(crate) fn restore(self) -> io::Result<StoredMembership> {
        Ok(StoredMembership::new(
            self.log_id.map(Into::into),
            self.membership.restore()?,
        ))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum PayloadRecord {
    Blank,
    /// Version 1 of the state's entry, without its two bytes in front and without a length.
    Normal(EntryV1),
    Membership(MembershipRecord),
    /// The state's entry in a later version, with them. Not in version 1 of the record.
    Framed(Bytes),
}

/// A log entry as stored and sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EntryRecord {
    id: LogIdRecord,
    payload: PayloadRecord,
}

impl Versioned for EntryRecord {
    const KIND: u8 = 99;
    const VERSION: u8 = 2;

    fn decode_body(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 | 2 => codec::from_body(Self::KIND.into(), body, Self::MAX_BYTES),
            _ => Err(codec::never_written(Self::KIND.into(), version)),
        }
    }

    fn encode_body(&self, version: u8, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        let kind = Self::KIND.into();
        match (version, &self.payload) {
            (1, PayloadRecord::Framed(_)) => Err(CodecError::NotInVersion { kind, version }),
            _ => codec::to_body(kind, self, bytes),
        }
    }
}

impl EntryRecord {
    /// The lowest version that has such a payload: what an older program can read, it shall.
    fn version(&self) -> u8 {
        match self.payload {
            PayloadRecord::Framed(_) => 2,
            _ => 1,
        }
    }

    /// The record of an entry.
    pub(crate) fn of(entry: &Entry) -> io::Result<Self> {
        let payload = match &entry.payload {
            Payload::Blank => PayloadRecord::Blank,
            Payload::Normal(proposal) => {
                let entry = &proposal.0;
                match entry.first_version().map_err(not_decoded)? {
                    Some(entry) => PayloadRecord::Normal(entry),
                    None => PayloadRecord::Framed(entry.bytes().clone()),
                }
            }
            Payload::Membership(membership) => PayloadRecord::Membership(membership.into()),
        };
        Ok(Self {
            id: (&entry.log_id()).into(),
            payload,
        })
    }
}

impl EntryRecord {
    /// The openraft form.
    pub(crate) fn restore(self) -> io::Result<Entry> {
        let id = self.id.into();
        Ok(match self.payload {
            PayloadRecord::Blank => Entry::new_blank(id),
            PayloadRecord::Normal(entry) => {
                let entry = EncodedEntry::of_first_version(entry).map_err(not_decoded)?;
                Entry::new_normal(id, Proposal(Arc::new(entry)))
            }
            PayloadRecord::Framed(bytes) => {
                let entry = EncodedEntry::decode(bytes).map_err(not_decoded)?;
                Entry::new_normal(id, Proposal(Arc::new(entry)))
            }
            PayloadRecord::Membership(membership) => {
                Entry::new_membership(id, membership.restore()?)
            }
        })
    }
}

/// The bytes of one log entry: the same in the log and between peers.
pub(crate) fn encode_entry(entry: &Entry) -> io::Result<Vec<u8>> {
    let record = EntryRecord::of(entry)?;
    codec::encode_version(&record, record.version()).map_err(|e| invalid(&e.to_string()))
}

/// Reads one log entry.
pub(crate) fn decode_entry(bytes: &[u8]) -> io::Result<Entry> {
    decode::<EntryRecord>(bytes)?.restore()
}

/// `codec::encode` with an I/O error.
pub(crate) fn encode<T: Versioned>(value: &T) -> io::Result<Vec<u8>> {
    codec::encode(value).map_err(|e| invalid(&e.to_string()))
}

/// `codec::decode` with an I/O error. The checksum of what comes from a disk was right.
pub(crate) fn decode<T: Versioned>(bytes: &[u8]) -> io::Result<T> {
    codec::decode(bytes).map_err(not_decoded)
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
