//! All members, removed ones included, and the latest start of each.
//!
//! An ID is never allocated twice, so the record of a removed member is kept. The membership in the
//! log decides which nodes vote; it is not part of this state.

use seqd_guards::is_out;
use serde::{Deserialize, Serialize};

use super::commands::{AllocateNodeId, ClusterOutcome, ClusterRefusal};
use super::settings::{Counter, draw};
use crate::newtypes::NodeId;
use crate::table::{Table, record};

/// A member: removed, present, or with an ID but not started yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub name: String,
    /// `None` for a founder.
    pub added: Option<AddedNode>,
    pub start: Option<RegisteredStart>,
    /// Never reset.
    pub removed: bool,
}

impl NodeRecord {
    #[must_use]
    pub fn new(name: String, added: Option<AddedNode>) -> Self {
        Self {
            name,
            added,
            start: None,
            removed: false,
        }
    }
}

/// The data of the request that allocated the added node's ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedNode {
    pub peer: String,
    pub http: String,
    /// A repeated request with the same nonce gets the same ID.
    pub nonce: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredStart {
    pub boot: u64,
    pub nonce: u64,
}

record!(NodeRecord, kind 13, version 1, prefix b'n', key NodeId);

impl Table<NodeRecord> {
    pub(crate) fn found(&mut self, founders: &[(NodeId, String)]) {
        for (id, name) in founders {
            self.put(*id, NodeRecord::new(name.clone(), None));
        }
    }

    /// Allocates an ID. A later request for the same name replaces it until a node has started with
    /// it, because the first caller must have failed.
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

    /// Registers a start, unless a newer one is registered.
    pub(crate) fn register_start(
        &mut self,
        node: NodeId,
        start: RegisteredStart,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let record = self.present(node)?;
        if let Some(registered) = record.start {
            let newer = start.boot > registered.boot;
            if !newer && start != registered && !is_out!(StartCompared) {
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

    /// Marks a member as removed. Its leases stay, because its processes may mint up to their
    /// fences.
    pub(crate) fn mark_removed(&mut self, node: NodeId) -> Result<ClusterOutcome, ClusterRefusal> {
        let record = self
            .get_mut(&node)
            .ok_or(ClusterRefusal::UnknownNode { node })?;
        record.removed = true;
        Ok(ClusterOutcome::MarkedRemoved { node })
    }

    pub(crate) fn remove_all(&mut self) {
        let present = self.iter().filter(|(_, record)| !record.removed);
        let present: Vec<NodeId> = present.map(|(id, _)| *id).collect();
        for node in present {
            if let Some(record) = self.get_mut(&node) {
                record.removed = true;
            }
        }
    }

    /// Refuses a lease unless it is for the registered start of a present member.
    pub(crate) fn check_start(&self, node: NodeId, boot: u64) -> Result<(), ClusterRefusal> {
        let registered = self.present(node)?.start.map(|start| start.boot);
        if registered == Some(boot) || is_out!(LeaseByLatestStart) {
            return Ok(());
        }
        Err(ClusterRefusal::StaleStart { node, registered })
    }

    pub(crate) fn present(&self, node: NodeId) -> Result<&NodeRecord, ClusterRefusal> {
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
