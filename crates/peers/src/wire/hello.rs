//! The messages of the handshake.
//!
//! They have no envelope, because a node sends them and responds to them before it has an identity.

use std::collections::BTreeMap;

use seqd_state::Level;
use seqd_store::records::Member;
use serde::{Deserialize, Serialize};

use crate::levels::LevelRange;
use crate::table::{Start, SyncedPosition};

/// Gives each message its kind, in its first version.
#[macro_export]
macro_rules! kinds {
    (
        $(#[$when:meta])* $visible:vis const KINDS;
        $($message:ty = $kind:literal),+ $(,)?
    ) => {
        $(impl ::seqd_state::codec::Versioned for $message {
            const KIND: u8 = $kind;
            const VERSION: u8 = 1;
        })+

        $(#[$when])*
        $visible const KINDS: &[u8] = &[$($kind),+];
    };
}

kinds! {
    pub const KINDS;
    Hello = 86,
    HelloReply = 87,
    Prepare = 88,
    Adopt = 89,
    Taken = 90,
    AskStart = 112,
    OwnStart = 113,
}

/// Every start sends this message to every configured peer and receives the identity of the peer.
///
/// A hello is sent before the version of the peer's program is known, so its format never changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub name: String,
    /// The configured peers: names and addresses.
    pub peers: BTreeMap<String, String>,
    /// The client address, for the membership.
    pub http: String,
    pub levels: LevelRange,
    pub identity: Option<HelloIdentity>,
}

/// The identity of the sender of a hello.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloIdentity {
    pub cluster_id: String,
    /// The clusters from which this one was restored.
    pub ancestors: Vec<String>,
    pub node: u64,
    pub start: Start,
    /// The position on the disk at the beginning of this start.
    pub began: SyncedPosition,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloReply {
    pub name: String,
    pub peers: BTreeMap<String, String>,
    pub http: String,
    pub levels: LevelRange,
    pub standing: Standing,
    /// `true` if the answering node votes, according to its own state.
    pub votes: bool,
    /// The answering node's own start: one hello introduces both nodes.
    pub identity: Option<HelloIdentity>,
    pub verdict: HelloVerdict,
}

/// The stage of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// The node's folder is empty.
    Empty,
    /// The node was prepared for this cluster and has neither a vote nor an entry.
    Prepared { cluster_id: String, node: u64 },
    /// The node is part of this cluster, whose members have these names. If the sender of the hello
    /// has no identity and is one of the members, the leader is named only if it confirmed the
    /// members.
    Member {
        cluster_id: String,
        node: u64,
        members: Vec<String>,
        leader: Option<String>,
    },
}

/// The verdict of the answering node on the sender of the hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelloVerdict {
    Welcome,
    /// The sender's identity belongs to another cluster.
    Foreign,
    /// A later start of the sender's folder or a twin of this start was seen, or the sender has
    /// less than it has acknowledged.
    Stale {
        why: String,
    },
    Removed,
    /// The sender's cluster was restored into the cluster with this ID.
    Superseded {
        by: String,
    },
    /// The sender's program does not support the cluster's level.
    LeftBehind {
        level: Level,
    },
}

/// The first phase of the founder: the receiver stores this identity durably and responds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepare {
    pub cluster_id: String,
    pub founders: Vec<(u64, Member)>,
    /// The name of the receiver among the founders.
    pub you: String,
}

/// The response of a node that received an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// The identity is on the node's disk.
    Yes {
        http: String,
    },
    /// The node already has this identity, and its log has a vote or an entry.
    Used,
    No {
        why: String,
    },
}

/// Requests the start of the receiver's process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AskStart;

/// The start of the sender's process, which exists before the node has an identity.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OwnStart {
    pub start: Start,
}

/// Assigns a waiting node its ID in an existing cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Adopt {
    pub cluster_id: String,
    pub node: u64,
    pub you: String,
    /// The members, so that the node can contact them after a restart.
    pub members: Vec<(u64, Member)>,
    /// The clusters that this one replaced.
    pub ancestors: Vec<String>,
}
