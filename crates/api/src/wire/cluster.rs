//! The cluster: its members, its quorum, changes to both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Decimal;
use crate::request::Request;

/// What a member is in the Raft group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The voter that appends.
    Leader,
    /// A voter that follows.
    Follower,
    /// A member that does not vote.
    Learner,
    /// A role that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Role {
    /// The name of the role.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Learner => "learner",
            Self::Unknown => "unknown",
        }
    }
}

/// How a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It serves everything.
    Ready,
    /// It applies entries that others have already.
    CatchingUp,
    /// It waits for a quorum, to be added, or for its clock.
    Waiting,
    /// The answering node has no contact with it.
    Unreachable,
    /// It is drained: it takes no new requests.
    Draining,
    /// Its clock disagrees with the majority.
    Skewed,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

impl MemberState {
    /// The name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::CatchingUp => "catching-up",
            Self::Waiting => "waiting",
            Self::Unreachable => "unreachable",
            Self::Draining => "draining",
            Self::Skewed => "skewed",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether the wall clocks of a majority of the voters agree within `clock.max_peer_skew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockAgreement {
    /// Those of a majority agree: a clock that disagrees with them is wrong.
    Agreed,
    /// Those of a majority are known, and no majority agrees: any of them may be wrong.
    Split,
    /// The answering node is the only voter.
    Alone,
    /// The answering node knows the clocks of too few; or a word that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The cluster as the answering node sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// The cluster; null before it is founded.
    pub cluster_id: Option<String>,
    /// The answering node.
    pub node: String,
    /// The index of the last entry that the answering node applied.
    pub applied: u64,
    /// The digest of its state at that index: equal `applied` means equal `digest`.
    pub digest: String,
    /// The leader, if the answering node knows one.
    pub leader: Option<String>,
    /// The term of the answering node.
    pub term: u64,
    /// The level of the formats that the cluster may write; 0 if the node is older.
    #[serde(default)]
    pub level: u32,
    /// Whether the wall clocks of the voters agree, as the answering node measures them.
    #[serde(default)]
    pub clocks: ClockAgreement,
    /// Who is needed and who is there.
    pub quorum: Quorum,
    /// Every member, ordered by name.
    pub members: Vec<Member>,
    /// The layouts in use and how long they last.
    #[serde(default)]
    pub layouts: Vec<LayoutLife>,
}

/// Who is needed and who is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Quorum {
    /// Members that vote.
    pub voters: u32,
    /// Voters that the answering node has contact with, itself included.
    pub reachable: u32,
    /// How many of those that are there may still go.
    pub can_lose: u32,
}

impl Quorum {
    /// The quorum of so many voters of which so many are reachable.
    #[must_use]
    pub const fn of(voters: u32, reachable: u32) -> Self {
        let needed = voters / 2 + 1;
        Self {
            voters,
            reachable,
            can_lose: reachable.saturating_sub(needed),
        }
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number; never used again for another node.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// What it is in the Raft group.
    pub role: Role,
    /// How it is.
    pub state: MemberState,
    /// Its URL for clients, with the scheme.
    pub http: Option<String>,
    /// Its address for peers, `host:port`.
    pub peer: String,
    /// The index of its last applied (or, of another node, acknowledged) entry, where known.
    #[serde(default)]
    pub applied: Option<u64>,
    /// How far behind the leader it is, in entries, where known.
    #[serde(default)]
    pub lag_entries: Option<u64>,
    /// How far its clock is from the answering node's, in milliseconds, where known.
    #[serde(default)]
    pub clock_offset_ms: Option<f64>,
    /// How far its wall clock is ahead of a majority of the voters' clocks, in milliseconds, where a
    /// majority agrees without it; null otherwise.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// How fast its wall clock gains on the answering node's, in microseconds a second, over up to ten
    /// minutes; null where that is not known.
    #[serde(default)]
    pub clock_drift_ppm: Option<f64>,
    /// The whole worker field that it holds, by layout.
    #[serde(default)]
    pub workers: BTreeMap<String, u32>,
    /// The whole worker field of each further worker that it holds while the load needs it, by layout.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more_workers: BTreeMap<String, Vec<u32>>,
    /// Its version, where known.
    #[serde(default)]
    pub version: Option<String>,
    /// The lowest and the highest level that its program can be part of, where known.
    #[serde(default)]
    pub levels: Option<(u32, u32)>,
    /// IDs that it minted within a second, as it last reported; null where the answering node has no
    /// contact with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_per_second: Option<f64>,
}

/// How long a layout lasts and how full its worker field is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutLife {
    /// The layout.
    pub name: String,
    /// When its time field is full, RFC 3339.
    pub exhausted_at: String,
    /// Workers with a live lease.
    pub workers_assigned: u32,
    /// Workers in all.
    pub workers_capacity: u32,
    /// When no worker is left, if live leases go on growing as within the last day, RFC 3339; null
    /// where they do not grow, or the answering node knows too little.
    #[serde(default)]
    pub workers_exhausted_at: Option<String>,
}

/// A node that joins as a learner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMember {
    /// Its name.
    pub name: String,
    /// Its address for peers, `host:port`.
    pub peer: String,
    /// Its URL for clients, with the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
}

impl Request for AddMember {
    const FIELDS: &'static [&'static str] = &["name", "peer", "http"];
}

requests! {
    /// A request that takes no field.
    NoFields {}
}

/// The result of a membership change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberChange {
    /// The member.
    pub name: String,
    /// Its number.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// Its role after the change. Null if it was removed.
    pub role: Option<Role>,
    /// The quorum after the change.
    pub quorum: Quorum,
}

/// A reset of a node's workers, which the node obeys once it has applied it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersReset {
    /// The member.
    pub name: String,
    /// The effect of the reset, for people.
    pub effect: String,
    /// The layouts in which the member had windows ahead of the clock; empty if it had none, and
    /// nothing was reset.
    pub layouts: Vec<ResetLayout>,
}

/// What a node gives up in a layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResetLayout {
    /// The layout.
    pub layout: String,
    /// The whole worker fields whose windows lie ahead of the clock. Nobody can lease them until then.
    pub workers: Vec<u32>,
    /// When the last of these windows ends, RFC 3339.
    pub until: String,
    /// How many other workers are free.
    pub free: u32,
}

requests! {
    /// The new leader.
    LeaderMove {
        /// The voter that becomes the leader. Any other voter by default.
        node: String,
    }
}

/// The result of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaderMoved {
    /// The leader.
    pub leader: String,
    /// Its term.
    pub term: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_says_what_it_can_lose() {
        let can_lose = |voters, reachable| Quorum::of(voters, reachable).can_lose;
        assert_eq!(
            [
                can_lose(1, 1),
                can_lose(2, 2),
                can_lose(3, 3),
                can_lose(5, 5)
            ],
            [0, 0, 1, 2]
        );
        assert_eq!([can_lose(3, 2), can_lose(3, 1), can_lose(5, 4)], [0, 0, 1]);
    }

    #[test]
    fn a_member_of_a_newer_server_is_read() {
        let member: Member = serde_json::from_str(
            r#"{"name":"n1","id":"1","role":"witness","state":"napping","http":null,"peer":"a:1","colour":"red"}"#,
        )
        .unwrap();
        assert_eq!(
            (member.role, member.state),
            (Role::Unknown, MemberState::Unknown)
        );
    }
}
