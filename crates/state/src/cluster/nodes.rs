//! The members: who ever was one, and which of its starts is the latest.
//!
//! A member's ID is never given twice, so a record stays after the member was removed. Who votes
//! is not known here; that is the membership of the log.

use serde::{Deserialize, Serialize};

use super::commands::{AllocateNodeId, ClusterOutcome, ClusterRefusal};
use super::settings::{Counter, draw};
#[cfg(not(any(test, feature = "test-next-level")))]
use crate::codec::Versioned;
use crate::newtypes::NodeId;
use crate::table::{Record, Table};

/// A member, or what was or will be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Where an added node said that it is found; `None` for a founder.
    pub added: Option<AddedNode>,
    /// Its latest start, if one was registered.
    pub start: Option<RegisteredStart>,
    /// Whether it was removed. Never undone.
    pub removed: bool,
    /// The wall clock of its latest start, which version 1 does not have.
    #[cfg(any(test, feature = "test-next-level"))]
    pub started: Option<u64>,
}

impl NodeRecord {
    /// A member that never started.
    #[must_use]
    pub fn new(name: String, added: Option<AddedNode>) -> Self {
        Self {
            name,
            added,
            start: None,
            removed: false,
            #[cfg(any(test, feature = "test-next-level"))]
            started: None,
        }
    }
}

/// What came with the request that gave an added node its ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedNode {
    /// Its peer address.
    pub peer: String,
    /// Its client URL.
    pub http: String,
    /// The request's nonce: the same request gets the same ID again.
    pub nonce: u64,
}

/// One start of a member's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredStart {
    /// Raised by each start.
    pub boot: u64,
    /// Drawn at each start.
    pub nonce: u64,
}

#[cfg(not(any(test, feature = "test-next-level")))]
impl Versioned for NodeRecord {
    const KIND: u8 = 13;
    const VERSION: u8 = 1;
}

impl Record for NodeRecord {
    type Key = NodeId;
    const PREFIX: u8 = b'n';

    fn write_key(key: &NodeId, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<NodeId> {
        bytes.try_into().ok().map(u64::from_be_bytes).map(NodeId)
    }

    fn is_gone(&self) -> bool {
        self.removed
    }
}

/// All members that ever were.
impl Table<NodeRecord> {
    pub(crate) fn found(&mut self, founders: &[(NodeId, String)]) {
        for (id, name) in founders {
            self.put(*id, NodeRecord::new(name.clone(), None));
        }
    }

    /// Gives a joining node its ID. Between an ID and the first start with it, a later request for
    /// the same name takes its place: the first one's caller did not get far.
    pub(crate) fn allocate(
        &mut self,
        counter: &mut Table<Counter>,
        asked: &AllocateNodeId,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let AllocateNodeId {
            name,
            peer,
            http,
            nonce,
        } = asked.clone();
        let added = Some(AddedNode { peer, http, nonce });
        if let Some((&node, record)) = self.named(&name) {
            if record.added == added {
                return Ok(ClusterOutcome::NodeIdAllocated { node });
            }
            if record.added.is_none() || record.start.is_some() {
                return Err(ClusterRefusal::NodeNameTaken { name, node });
            }
            if let Some(record) = self.get_mut(&node) {
                record.removed = true;
            }
        }
        let node = NodeId(draw(counter));
        self.put(node, NodeRecord::new(name, added));
        Ok(ClusterOutcome::NodeIdAllocated { node })
    }

    /// Makes this start the registered one, if it is not older than the registered one.
    pub(crate) fn register_start(
        &mut self,
        node: NodeId,
        start: RegisteredStart,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let record = self.present(node)?;
        if let Some(registered) = record.start {
            let newer = start.boot > registered.boot;
            if !newer && start != registered {
                let registered = Some(registered.boot);
                return Err(ClusterRefusal::StaleStart { node, registered });
            }
        }
        if let Some(record) = self.get_mut(&node) {
            record.start = Some(start);
        }
        Ok(ClusterOutcome::StartRegistered {
            node,
            boot: start.boot,
        })
    }

    /// Leases of the member are left alone: its processes may go on minting up to their fences.
    pub(crate) fn mark_removed(&mut self, node: NodeId) -> Result<ClusterOutcome, ClusterRefusal> {
        let record = self
            .get_mut(&node)
            .ok_or(ClusterRefusal::UnknownNode { node })?;
        record.removed = true;
        Ok(ClusterOutcome::MarkedRemoved { node })
    }

    /// Ends the membership of all.
    pub(crate) fn remove_all(&mut self) {
        let present = self.iter().filter(|(_, record)| !record.removed);
        let present: Vec<NodeId> = present.map(|(id, _)| *id).collect();
        for node in present {
            if let Some(record) = self.get_mut(&node) {
                record.removed = true;
            }
        }
    }

    /// Refuses a lease to any but the registered start of a present member.
    pub(crate) fn check_start(&self, node: NodeId, boot: u64) -> Result<(), ClusterRefusal> {
        let registered = self.present(node)?.start.map(|start| start.boot);
        if registered == Some(boot) {
            return Ok(());
        }
        Err(ClusterRefusal::StaleStart { node, registered })
    }

    fn present(&self, node: NodeId) -> Result<&NodeRecord, ClusterRefusal> {
        let record = self
            .get(&node)
            .ok_or(ClusterRefusal::UnknownNode { node })?;
        if record.removed {
            return Err(ClusterRefusal::NodeRemoved { node });
        }
        Ok(record)
    }

    fn named(&self, name: &str) -> Option<(&NodeId, &NodeRecord)> {
        self.iter()
            .find(|(_, record)| record.name == name && !record.removed)
    }
}
