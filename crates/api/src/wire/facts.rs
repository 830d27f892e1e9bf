//! The facts from which `seqd doctor` judges a cluster: of every member, and of the whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster::Cluster;

/// The facts of all members, gathered by the answering node over the connections between nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The answering node.
    pub node: String,
    /// The cluster as it sees it.
    pub cluster: Cluster,
    /// The facts of the answering node and of each member that responded, by name.
    pub nodes: Vec<NodeFacts>,
    /// The members that did not respond.
    #[serde(default)]
    pub missing: Vec<MissingFacts>,
    /// The sequences with less than a tenth of their values left, the smallest part first, at most
    /// 20.
    #[serde(default)]
    pub sequences: Vec<SequenceLeft>,
    /// The use of each bounded resource of the cluster.
    #[serde(default)]
    pub resources: Vec<ResourceUse>,
}

/// A member whose facts are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingFacts {
    /// The member.
    pub name: String,
    /// The reason why it did not respond.
    pub reason: String,
}

/// The facts of one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeFacts {
    /// The node.
    pub name: String,
    /// Its wall clock, RFC 3339.
    pub time: String,
    /// Its version.
    pub version: String,
    /// The revision of its source, if known.
    pub revision: Option<String>,
    /// The lowest and the highest level that its program supports.
    pub levels: Option<(u32, u32)>,
    /// The reason why it is not ready. Null if it is ready.
    pub not_ready: Option<String>,
    /// The leader that it follows.
    pub leader: Option<String>,
    /// The leader changes that it has observed in the last ten minutes.
    pub leader_changes: u64,
    /// Its links to the other members.
    pub links: Vec<LinkFacts>,
    /// The disk with its data folder.
    pub disk: DiskFacts,
    /// The log's `fdatasync` calls in the last ten minutes.
    pub fsync: LatencyFacts,
    /// The commits in the last ten minutes, if it leads.
    pub commit: LatencyFacts,
    /// Its open files. Null if unknown.
    pub descriptors: Option<DescriptorFacts>,
    /// Its certificates in force.
    pub certificates: Vec<CertificateFacts>,
    /// Its windows of IDs.
    pub windows: Vec<WindowFacts>,
    /// Its configuration: each key with its value, as TOML.
    pub config: BTreeMap<String, String>,
    /// The ports that serve other machines without TLS or without authentication.
    pub exposed: Vec<String>,
    /// A short hash of the operator's token. Null if callers need no token.
    pub operator_token: Option<String>,
}

/// The link from a node to a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkFacts {
    /// The member.
    pub name: String,
    /// The time until it answered the last ping, in milliseconds. Null if it answered none in the
    /// last three seconds.
    #[serde(default)]
    pub round_trip_ms: Option<f64>,
    /// The error of the latest ping. Null if it was answered.
    #[serde(default)]
    pub error: Option<String>,
    /// True if the node received pings of this member in the last three seconds.
    pub receives: bool,
}

/// A disk and the files of the node on it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskFacts {
    /// The used bytes of the file system.
    pub used_bytes: u64,
    /// The free bytes that the node may use.
    pub free_bytes: u64,
    /// Free bytes below which writes of clients are refused.
    pub reserve_bytes: u64,
    /// The time when only the reserve is left if the use continues to grow as in the last day, RFC
    /// 3339. Null if it does not grow, or if the node has run for less than six hours.
    pub full_at: Option<String>,
    /// The age of the current write of the log, in milliseconds.
    pub stalled_ms: f64,
    /// The size of the log.
    pub log_bytes: u64,
    /// The entries in the log.
    pub log_entries: u64,
    /// The size of the snapshots.
    pub snapshot_bytes: u64,
    /// The size of the checkpoint.
    pub checkpoint_bytes: u64,
}

/// Durations of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LatencyFacts {
    /// The number of operations.
    pub count: u64,
    /// The median of the latest operations, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
}

/// The open files of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescriptorFacts {
    /// The number of open files.
    pub open: u64,
    /// The limit.
    pub limit: u64,
}

/// A certificate in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateFacts {
    /// `client` for the clients' port, `peer` for the peers' port.
    #[serde(rename = "use")]
    pub used_for: String,
    /// The time when it expires, RFC 3339.
    pub expires_at: String,
}

/// A window in which a node may mint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowFacts {
    /// The layout.
    pub layout: String,
    /// The end of the window, RFC 3339. The node extends it long before.
    pub ends_at: String,
    /// The time left, in milliseconds. Negative after the end.
    pub left_ms: i64,
    /// The length of a new window, in milliseconds.
    pub window_ms: u64,
}

/// A sequence that is nearly exhausted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceLeft {
    /// The sequence.
    pub name: String,
    /// The part of its values that is left, from 0 to 1.
    pub remaining_ratio: f64,
}

/// The use of a bounded resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceUse {
    /// The key of the limit, such as `limits.keys`.
    pub limit_key: String,
    /// The amount in use.
    pub used: u64,
    /// The limit at the answering node.
    pub limit: u64,
    /// The tenant that holds the most. Null if none holds any.
    #[serde(default)]
    pub largest_tenant: Option<String>,
    /// The amount that it holds.
    #[serde(default)]
    pub largest: u64,
    /// The amount that one tenant may hold.
    pub share: u64,
}

impl SequenceLeft {
    /// The part below which little of a sequence is left, so that facts list it.
    pub const LITTLE: f64 = 0.1;

    /// The part below which almost nothing is left.
    pub const ALMOST_NOTHING: f64 = 0.02;
}

impl LatencyFacts {
    /// The number of operations whose median counts. A start makes some slow ones.
    pub const ENOUGH: u64 = 30;
}
