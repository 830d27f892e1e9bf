//! The cluster: its members, its quorum, and changes to both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Decimal;
use crate::request::Request;

/// The role of a member in the Raft group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The voter that appends entries.
    Leader,
    /// A voter that replicates the leader's log.
    Follower,
    /// A member that does not vote.
    Learner,
    /// A role that this version does not define.
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

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It serves everything.
    Ready,
    /// It has not yet applied all entries that other members have applied.
    CatchingUp,
    /// It waits for a quorum, for its addition to the cluster, or for its clock.
    Waiting,
    /// The answering node has no contact with it.
    Unreachable,
    /// It is being drained or is about to stop: it serves requests, and balancers should send none.
    Draining,
    /// Its clock disagrees with the majority.
    Skewed,
    /// A state that this version does not define.
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

/// The agreement of the voters' wall clocks within `clock.max_peer_skew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockAgreement {
    /// The clocks of a majority agree. A clock that disagrees with them is wrong.
    Agreed,
    /// The clocks of a majority are known, but no majority agrees. Any of them may be wrong.
    Split,
    /// The answering node is the only voter.
    Alone,
    /// The answering node has measured the clocks of too few voters, or this version does not
    /// define the value.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The cluster as the answering node sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// The cluster ID. Null until the cluster is founded.
    pub cluster_id: Option<String>,
    /// The answering node.
    pub node: String,
    /// The index of the last entry that the answering node applied.
    pub applied: u64,
    /// The digest of its state at that index. Nodes with equal `applied` have equal `digest`.
    pub digest: String,
    /// The leader. Null if unknown.
    pub leader: Option<String>,
    /// The term of the answering node.
    pub term: u64,
    /// The level of the formats that the cluster may write. 0 if the node has a version without
    /// levels.
    #[serde(default)]
    pub level: u32,
    /// The agreement of the voters' wall clocks, as measured by the answering node.
    #[serde(default)]
    pub clocks: ClockAgreement,
    /// The number of voters, reachable voters, and voters that can be lost. During a change of
    /// voters, these are counts of the former or of the new voters, whichever can lose fewer.
    pub quorum: Quorum,
    /// The time for which the answering node has had no contact with a majority of the voters, in
    /// milliseconds. Null while it has.
    #[serde(default)]
    pub quorum_lost_ms: Option<u64>,
    /// The change of voters that is under way. Null or absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voter_change: Option<VoterChange>,
    /// Every member, ordered by name.
    pub members: Vec<Member>,
    /// The names of the members that were removed, the latest first, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// The layouts in use, with the time when each is exhausted: the default layout, and each one
    /// of which a worker is leased or was leased within the last week.
    #[serde(default)]
    pub layouts: Vec<LayoutLife>,
}

impl Cluster {
    /// What the answering node is if it lists no members: it waits for a cluster or, after a
    /// restart, for the other members of its cluster.
    #[must_use]
    pub fn standing(&self) -> String {
        let node = &self.node;
        match &self.cluster_id {
            None => format!("{node} is not a member of a cluster yet"),
            Some(cluster) => format!("{node} does not serve its cluster {cluster} yet"),
        }
    }

    /// The member of this name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The voters that a change of voters lacks for its majorities, such as `n3 or n5`; `None` if
    /// no change is under way or the answering node reaches enough voters.
    #[must_use]
    pub fn voter_change_needs(&self) -> Option<String> {
        let change = self.voter_change.as_ref()?;
        let lacking = [&change.former, &change.new].map(|voters| self.lacking(voters));
        match lacking {
            [Some(former), Some(new)] if former != new => Some(format!("{former}, and {new}")),
            [former, new] => former.or(new),
        }
    }

    fn lacking(&self, voters: &[String]) -> Option<String> {
        let is_missing = |name: &&str| {
            let member = self.member(name);
            member.is_none_or(|member| member.state == MemberState::Unreachable)
        };
        let missing: Vec<&str> = voters
            .iter()
            .map(|name| &**name)
            .filter(is_missing)
            .collect();
        let majority = voters.len() / 2 + 1;
        match majority.saturating_sub(voters.len() - missing.len()) {
            0 => None,
            1 => Some(missing.join(" or ")),
            all if all == missing.len() => Some(missing.join(" and ")),
            some => Some(format!("{some} of {}", missing.join(", "))),
        }
    }

    /// The quorum if one node voted and another did not. A node that is not a member yet counts as
    /// reachable.
    #[must_use]
    pub fn quorum_with(&self, joins: Option<&str>, leaves: Option<&str>) -> Quorum {
        let others = self.members.iter().filter(|member| {
            let name = Some(member.name.as_str());
            member.role != Role::Learner && name != joins && name != leaves
        });
        let is_reachable = |member: &Member| member.state != MemberState::Unreachable;
        let joined = joins.map(|name| self.member(name).is_none_or(is_reachable));
        let (mut all, mut reachable) = (0, 0);
        for is_reachable in others.map(is_reachable).chain(joined) {
            all += 1;
            reachable += u32::from(is_reachable);
        }
        Quorum::of(all, reachable)
    }
}

/// A change of voters that is under way. It needs a majority of the former and of the new voters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoterChange {
    /// The names of the former voters.
    pub former: Vec<String>,
    /// The names of the new voters.
    pub new: Vec<String>,
}

/// The number of voters, reachable voters, and voters that can be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Quorum {
    /// The number of voters.
    pub voters: u32,
    /// The number of voters that the answering node has contact with, including itself.
    pub reachable: u32,
    /// The number of reachable voters that can fail while a quorum remains.
    pub can_lose: u32,
}

impl Quorum {
    /// Computes the quorum from the number of voters and the number of reachable voters.
    #[must_use]
    pub const fn of(voters: u32, reachable: u32) -> Self {
        let needed = voters / 2 + 1;
        Self {
            voters,
            reachable,
            can_lose: reachable.saturating_sub(needed),
        }
    }

    /// Describes a change from this quorum to another one.
    #[must_use]
    pub fn change_to(self, after: Self) -> String {
        let plural = if after.can_lose == 1 { "" } else { "s" };
        format!(
            "quorum {}/{} -> {}/{}, can lose {} node{plural}",
            self.reachable, self.voters, after.reachable, after.voters, after.can_lose
        )
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number. It is never assigned to another node.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// Its role in the Raft group.
    pub role: Role,
    /// Its state.
    pub state: MemberState,
    /// Its URL for clients, with the scheme.
    pub http: Option<String>,
    /// Its address for peers, `host:port`.
    pub peer: String,
    /// The index of the last entry that it applied or, for another node, acknowledged. Null if
    /// unknown.
    #[serde(default)]
    pub applied: Option<u64>,
    /// The number of entries by which it lags behind the leader. Null if unknown.
    #[serde(default)]
    pub lag_entries: Option<u64>,
    /// The time at which its window of IDs of the default layout begins, RFC 3339. Null unless that
    /// is in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_from: Option<String>,
    /// The difference between its clock and the clock of the answering node in milliseconds. Null
    /// if unknown.
    #[serde(default)]
    pub clock_offset_ms: Option<f64>,
    /// The time by which its wall clock is ahead of the clocks of a majority of voters, in
    /// milliseconds. Null unless a majority agrees and this member is not part of it.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// The drift of its wall clock relative to the clock of the answering node, in microseconds per
    /// second, measured over up to ten minutes. Null if unknown.
    #[serde(default)]
    pub clock_drift_ppm: Option<f64>,
    /// The worker that it holds in each layout, as the whole worker field.
    #[serde(default)]
    pub workers: BTreeMap<String, u32>,
    /// The additional workers that it holds in each layout while the load requires them, each as
    /// the whole worker field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more_workers: BTreeMap<String, Vec<u32>>,
    /// Its version. Null if unknown.
    #[serde(default)]
    pub version: Option<String>,
    /// The lowest and the highest level that its program supports. Null if unknown.
    #[serde(default)]
    pub levels: Option<(u32, u32)>,
    /// The number of IDs that it minted per second, from its latest report. Null if the answering
    /// node has no contact with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_per_second: Option<f64>,
}

/// The remaining lifetime of a layout and the use of its workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutLife {
    /// The layout.
    pub name: String,
    /// The time when its time field is full, RFC 3339. After the year 9999: `N ms after 1970`.
    pub exhausted_at: String,
    /// The number of workers with a live lease.
    pub workers_assigned: u32,
    /// The number of workers of the layout.
    pub workers_capacity: u32,
    /// The number of workers that clients can still lease: free and not reserved for the nodes.
    pub workers_free_for_clients: u32,
    /// The time when clients can lease no worker if the number of live leases continues to grow as
    /// in the last day, RFC 3339. Null if it does not grow or if the answering node has too little
    /// data.
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
    /// The new addresses of a member. At least one is required.
    UpdateMember {
        /// Its address for peers, `host:port`. Unchanged by default.
        peer: String,
        /// Its URL for clients, with the scheme. Unchanged by default.
        http: String,
    }
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

/// A member after its drain began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberDrain {
    /// The member.
    pub name: String,
    /// True if it drains.
    pub draining: bool,
    /// Its role. A draining member is the leader only while no other voter can lead.
    pub role: Role,
    /// The leader, as the answering node sees it. Null if unknown.
    pub leader: Option<String>,
}

/// A reset of a node's workers. The node carries it out when it applies the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersReset {
    /// The member.
    pub name: String,
    /// The effect of the reset, for people.
    pub effect: String,
    /// The layouts in which the member had windows ahead of the clock. Empty if it had none; then
    /// nothing was reset.
    pub layouts: Vec<ResetLayout>,
}

/// The workers that a node gives up in one layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResetLayout {
    /// The layout.
    pub layout: String,
    /// The workers whose windows are ahead of the clock, each as the whole worker field. They
    /// cannot be leased before `until`.
    pub workers: Vec<u32>,
    /// The time when the last of these windows ends, RFC 3339.
    pub until: String,
    /// The number of other workers that are free.
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
    fn a_quorum_reports_how_many_voters_it_can_lose() {
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
