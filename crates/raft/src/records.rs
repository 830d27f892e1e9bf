//! Conversions between openraft's types and their stored and sent records, so that openraft's types
//! may change their shape.

use std::io;
use std::sync::Arc;

use openraft::entry::RaftEntry;
use seqd_state::LogPosition;
use seqd_store::records::SyncedPosition;
pub(crate) use seqd_store::records::{
    EntryPayload, EntryRecord, LogEntry, LogIdRecord, MembershipRecord, StoredMembershipRecord,
    VoteRecord, decode, encode,
};

use crate::types::{self, Entry, LogId, Membership, Payload, Proposal, StoredMembership, Vote};

/// A type of openraft that has a record.
pub(crate) trait ToRecord {
    type Record;
    fn record(&self) -> Self::Record;
}

/// A record that has a type of openraft.
pub(crate) trait Restore {
    type Restored;
    fn restore(self) -> Self::Restored;
}

impl<T: ToRecord> ToRecord for Option<T> {
    type Record = Option<T::Record>;

    fn record(&self) -> Self::Record {
        self.as_ref().map(ToRecord::record)
    }
}

impl<T: Restore> Restore for Option<T> {
    type Restored = Option<T::Restored>;

    fn restore(self) -> Self::Restored {
        self.map(Restore::restore)
    }
}

impl ToRecord for Vote {
    type Record = VoteRecord;

    fn record(&self) -> VoteRecord {
        VoteRecord {
            term: self.leader_id.term,
            node: self.leader_id.voted_for,
            committed: self.committed,
        }
    }
}

impl Restore for VoteRecord {
    type Restored = Vote;

    fn restore(self) -> Vote {
        types::vote(self.term, self.node, self.committed)
    }
}

impl ToRecord for LogId {
    type Record = LogIdRecord;

    fn record(&self) -> LogIdRecord {
        LogIdRecord {
            term: **self.committed_leader_id(),
            index: self.index(),
        }
    }
}

impl Restore for LogIdRecord {
    type Restored = LogId;

    fn restore(self) -> LogId {
        types::log_id(self.term, self.index)
    }
}

impl ToRecord for Membership {
    type Record = MembershipRecord;

    fn record(&self) -> MembershipRecord {
        let nodes = self.nodes().map(|(id, node)| (*id, node.clone()));
        MembershipRecord {
            configs: self.get_joint_config().clone(),
            nodes: nodes.collect(),
        }
    }
}

impl Restore for MembershipRecord {
    type Restored = io::Result<Membership>;

    fn restore(self) -> io::Result<Membership> {
        if self.configs.is_empty() && self.nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(self.configs, self.nodes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
    }
}

impl ToRecord for StoredMembership {
    type Record = StoredMembershipRecord;

    fn record(&self) -> StoredMembershipRecord {
        StoredMembershipRecord {
            log_id: self.log_id().record(),
            membership: self.membership().record(),
        }
    }
}

impl Restore for StoredMembershipRecord {
    type Restored = io::Result<StoredMembership>;

    fn restore(self) -> io::Result<StoredMembership> {
        let membership = self.membership.restore()?;
        Ok(StoredMembership::new(self.log_id.restore(), membership))
    }
}

impl ToRecord for Entry {
    type Record = LogEntry;

    fn record(&self) -> LogEntry {
        let payload = match &self.payload {
            Payload::Blank => EntryPayload::Blank,
            Payload::Normal(proposal) => EntryPayload::Normal(Arc::clone(&proposal.0)),
            Payload::Membership(membership) => EntryPayload::Membership(membership.record()),
        };
        let id = self.log_id().record();
        LogEntry { id, payload }
    }
}

impl Restore for LogEntry {
    type Restored = io::Result<Entry>;

    fn restore(self) -> io::Result<Entry> {
        let id = self.id.restore();
        Ok(match self.payload {
            EntryPayload::Blank => Entry::new_blank(id),
            EntryPayload::Normal(entry) => Entry::new_normal(id, Proposal(entry)),
            EntryPayload::Membership(membership) => {
                Entry::new_membership(id, membership.restore()?)
            }
        })
    }
}

/// The position of the entry that set the applied membership. A raise of the level is compared with
/// it.
pub(crate) fn position_of(membership: &StoredMembership) -> Option<LogPosition> {
    membership.log_id().as_ref().map(|id| id.record().into())
}

pub(crate) fn synced_position(vote: Option<&Vote>, last: Option<&LogId>) -> SyncedPosition {
    SyncedPosition {
        vote: vote.map(|vote| vote.record().into()),
        last: last.map(ToRecord::record),
    }
}

pub(crate) fn decode_entry(bytes: &[u8]) -> io::Result<Entry> {
    seqd_store::records::decode_entry(bytes)?.restore()
}

/// Reads a log ID and a membership from the bytes in a checkpoint or a snapshot.
pub(crate) fn restore_position(
    log_id: &[u8],
    membership: &[u8],
) -> io::Result<(Option<LogId>, StoredMembership)> {
    let (id, membership) = seqd_store::records::restore_position(log_id, membership)?;
    Ok((id.restore(), membership.restore()?))
}
