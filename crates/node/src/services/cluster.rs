//! The cluster in this node's view, and changes of its membership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seqd_api::address::{base_url, check_host_port, is_node_url};
use seqd_api::{
    ClockAgreement, Cluster, LayoutLife, LeaderMove, LeaderMoved, ListQuery, Member, MemberChange,
    MemberState, Page, Plan, Quorum, Role, VoterChange, validate_name,
};
use seqd_idgen::{Agreement, Standing, WallMs};
use seqd_raft::{
    ChangeOfMembers, MAY_BE_BEHIND, MemberError, MemberStatus, Raft, Status, wait_until,
};
use seqd_state::{LayoutUse, NodeId, TextField};
use tokio::time::Instant;

use super::effects::effect;
use super::error::{RequestError, ServiceError};
use super::health::HealthService;
use super::page::PageRequest;
use crate::minting::Minters;
use crate::replica::{name_missing, quorum_lost_ms};
use crate::runs_out::WorkerCounts;
use crate::times::rfc3339;

/// The number of removed members that are listed: as many as a cluster has members at most.
const REMOVED: usize = 64;

/// Time limit of the read after a change of members: the change is committed, so that the read only
/// serves the quorum in the response.
const APPLIED: Duration = Duration::from_secs(1);

pub(crate) struct ClusterService {
    pub(crate) raft: Raft,
    pub(crate) minters: Arc<Minters>,
    pub(crate) health: Arc<HealthService>,
    pub(crate) worker_counts: Arc<WorkerCounts>,
}

impl ClusterService {
    /// The cluster as this node has recorded it; does not contact the leader.
    pub(crate) fn show(&self) -> Cluster {
        let status = self.raft.status();
        let leader = status.leader_member();
        Cluster {
            cluster_id: status.cluster_id.clone(),
            node: status.name.clone(),
            applied: status.applied,
            digest: status.digest.to_string(),
            leader: leader.map(|member| member.name.clone()),
            term: status.term,
            level: status.level,
            clocks: match status.agreement {
                None => ClockAgreement::Alone,
                Some(Agreement::Agreed(_)) => ClockAgreement::Agreed,
                Some(Agreement::Split) => ClockAgreement::Split,
                Some(Agreement::Unknown) => ClockAgreement::Unknown,
            },
            quorum: quorum(&status),
            quorum_lost_ms: quorum_lost_ms(&status),
            voter_change: voter_change(&status),
            members: self.members_of(&status),
            removed: self.removed(&status),
            layouts: self.layouts(),
        }
    }

    pub(crate) fn members(&self, query: &ListQuery) -> Result<Page<Member>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let is_member = self.raft.state_of_member(|_| ());
        is_member.map_err(ServiceError::Unread)?;
        let prefix = query.prefix.as_deref().unwrap_or_default();
        let mut members = self.members_of(&self.raft.status());
        members.retain(|member| member.name.starts_with(prefix));
        let items = members.into_iter();
        Ok(wanted.cut(items.map(|member| (member.name.clone(), member))))
    }

    /// Makes any change but a move of leadership or a drain.
    pub(crate) async fn change(
        &self,
        change: ChangeOfMembers,
        deadline: Instant,
    ) -> Result<MemberChange, ServiceError> {
        check(&change)?;
        let is_removal = matches!(change, ChangeOfMembers::Remove { .. });
        let error_of = self.error_of(removes_voter(&change));
        let member = self.raft.change_member(change, deadline).await;
        let member = member.map_err(error_of)?;
        let role = (!is_removal).then(|| role(member.role));
        let _ = self.raft.read(wait_until(deadline, APPLIED)).await;
        Ok(MemberChange {
            name: member.name,
            id: member.id.0,
            role,
            quorum: quorum(&self.raft.status()),
        })
    }

    pub(crate) async fn move_leader(
        &self,
        request: LeaderMove,
        deadline: Instant,
    ) -> Result<LeaderMoved, ServiceError> {
        request.node.as_deref().map_or(Ok(()), check_name)?;
        let leader = self.raft.leader_move(request.node, deadline).await;
        Ok(LeaderMoved {
            leader: leader.map_err(self.error_of(false))?,
            term: self.raft.status().term,
        })
    }

    /// The effect that a change would have, computed by the node that would make it.
    pub(crate) async fn plan(
        &self,
        change: ChangeOfMembers,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        check(&change)?;
        let error_of = self.error_of(removes_voter(&change));
        let tried = self.raft.try_out(change.clone(), deadline).await;
        let leader = tried.map_err(error_of)?;
        let effect = effect(&self.show(), change, leader);
        Ok(Plan::new(effect, None))
    }

    pub(super) fn error_of(&self, removes_voter: bool) -> impl Fn(MemberError) -> ServiceError {
        move |error| {
            let error = match error {
                MemberError::Propose(error) => name_missing(error, &self.raft).into(),
                error => error,
            };
            ServiceError::Member {
                removes_voter,
                error,
            }
        }
    }

    /// The names of removed members that no member has, the latest first.
    fn removed(&self, status: &Status) -> Vec<String> {
        let mut names: BTreeSet<String> =
            (status.members.iter().map(|it| it.name.clone())).collect();
        self.raft.state(|state| {
            let removed = state.nodes().filter(|(_, record)| record.removed);
            let mut removed: Vec<_> = removed.map(|(id, record)| (id, &record.name)).collect();
            removed.sort_unstable_by(|left, right| right.cmp(left));
            removed.retain(|(_, name)| names.insert((*name).clone()));
            let latest = removed.into_iter().take(REMOVED);
            latest.map(|(_, name)| name.clone()).collect()
        })
    }

    fn members_of(&self, status: &Status) -> Vec<Member> {
        let members = status.members.iter();
        let begins = self.windows_to_begin();
        let mut members: Vec<Member> = members
            .map(|member| Member {
                ids_from: begins.get(&member.id).map(|at| rfc3339(*at)),
                ..self.member_of(status, member)
            })
            .collect();
        members.sort_by(|left, right| left.name.cmp(&right.name));
        members
    }

    /// The beginnings of windows that have not begun: of each node that has leased workers of the
    /// default layout, if none of them can mint yet.
    fn windows_to_begin(&self) -> BTreeMap<NodeId, WallMs> {
        let (minter, now) = (self.minters.default(), self.health.clock.wall());
        let layout = minter.layout();
        let mut begins = BTreeMap::new();
        self.raft.state(|state| {
            for lease in state.leases_of(layout.name()).filter(|lease| lease.live) {
                if let Some(node) = lease.record.node {
                    let at = layout.wall_at(lease.record.from_tick);
                    let first = begins.entry(node).or_insert(at);
                    *first = (*first).min(at);
                }
            }
        });
        begins.retain(|_, at| *at > now);
        begins
    }

    fn member_of(&self, status: &Status, member: &MemberStatus) -> Member {
        let is_self = member.name == status.name;
        let applied = if is_self {
            Some(status.applied)
        } else {
            member.applied
        };
        let others = status.members.iter().filter_map(|other| other.applied);
        let newest = others.max().unwrap_or_default().max(status.committed);
        let report = member.report.as_ref();
        // A ready member measures its own lag at one moment, whereas the newest entry of the others
        // may be up to a second newer than the member's report.
        let is_measured = is_self || member.reachable && report.is_some_and(|its| its.ready);
        let measured = member.behind.filter(|_| is_measured);
        let lag_entries =
            measured.or_else(|| applied.map(|applied| newest.saturating_sub(applied)));
        let ahead_ms = wrong_by(status, member);
        let reported = Member {
            name: member.name.clone(),
            id: member.id.0,
            role: role_in(status, member),
            state: state_of(member, lag_entries, ahead_ms.is_some()),
            http: Some(member.http.clone()).filter(|http| !http.is_empty()),
            peer: member.peer.clone(),
            applied,
            lag_entries,
            ids_from: None,
            clock_offset_ms: member.clock_offset_ms.map(|offset| offset as f64),
            clock_ahead_ms: ahead_ms.map(|ahead| ahead as f64),
            clock_drift_ppm: status
                .clocks
                .get(&member.id)
                .and_then(|clock| clock.drift_ppm),
            workers: report.map_or_else(BTreeMap::new, |its| its.workers.clone()),
            more_workers: report.map_or_else(BTreeMap::new, |its| its.more_workers.clone()),
            version: member.version.clone(),
            levels: member.levels.map(|levels| (levels.oldest, levels.newest)),
            // The last report of an unreachable member has no known time.
            ids_per_second: report
                .filter(|_| member.reachable)
                .map(|report| report.ids_per_second as f64),
        };
        if !is_self {
            return reported;
        }
        Member {
            state: self.health.own_state(),
            workers: self.minters.held(),
            more_workers: self.minters.more_held(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ids_per_second: Some(self.minters.ids_per_second() as f64),
            ..reported
        }
    }

    fn layouts(&self) -> Vec<LayoutLife> {
        let life = |used: &LayoutUse| {
            let none_left = self.worker_counts.run_out_in(used);
            LayoutLife {
                name: used.layout.name().to_owned(),
                exhausted_at: rfc3339(used.layout.exhausted_at()),
                workers_assigned: used.assigned,
                workers_capacity: used.layout.workers(),
                workers_free_for_clients: used.free_for_clients,
                workers_exhausted_at: none_left.map(|left| rfc3339(self.health.clock.after(left))),
            }
        };
        let in_use = self.raft.state(|state| state.layouts_in_use());
        in_use.iter().map(life).collect()
    }
}

pub(super) fn role(role: seqd_raft::Role) -> Role {
    match role {
        seqd_raft::Role::Leader => Role::Leader,
        seqd_raft::Role::Follower => Role::Follower,
        seqd_raft::Role::Learner => Role::Learner,
    }
}

/// A member's role. A member is shown as the leader only if this node has recorded it as such: role
/// and leader are read one after the other, and may disagree.
fn role_in(status: &Status, member: &MemberStatus) -> Role {
    match role(member.role) {
        Role::Leader if status.leader != Some(member.id) => Role::Follower,
        role => role,
    }
}

fn quorum(status: &Status) -> Quorum {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Quorum::of(count(status.voters), count(status.reachable))
}

fn voter_change(status: &Status) -> Option<VoterChange> {
    let [former, new] = status.voter_change.as_ref()?;
    let names = |voters: &BTreeSet<NodeId>| {
        let members = status.members.iter();
        let voters = members.filter(|member| voters.contains(&member.id));
        voters.map(|member| member.name.clone()).collect()
    };
    Some(VoterChange {
        former: names(former),
        new: names(new),
    })
}

/// The number of milliseconds by which a member's clock is ahead of a majority, if it is wrong.
fn wrong_by(status: &Status, member: &MemberStatus) -> Option<i64> {
    match status.clocks.get(&member.id)?.standing {
        Standing::Wrong { ahead_ms } => Some(ahead_ms),
        _ => None,
    }
}

fn state_of(member: &MemberStatus, lag_entries: Option<u64>, is_clock_wrong: bool) -> MemberState {
    let is_behind = lag_entries.is_some_and(|lag| lag > MAY_BE_BEHIND);
    match &member.report {
        _ if !member.reachable => MemberState::Unreachable,
        Some(report) if report.draining => MemberState::Draining,
        _ if is_clock_wrong => MemberState::Skewed,
        Some(report) if report.ready => MemberState::Ready,
        _ if is_behind => MemberState::CatchingUp,
        _ => MemberState::Waiting,
    }
}

/// Refuses an invalid member name.
pub(super) fn check_name(name: &str) -> Result<(), RequestError> {
    validate_name(name).map_err(|error| RequestError::Invalid(format!("name: {error}")))
}

/// Refuses an invalid name, then invalid addresses, and an update without any.
fn check(change: &ChangeOfMembers) -> Result<(), RequestError> {
    match change {
        ChangeOfMembers::Add { name, peer, http } => {
            check_name(name)?;
            check_addresses(Some(peer), http.as_ref())
        }
        ChangeOfMembers::Update { name, peer, http } => {
            check_name(name)?;
            if peer.is_none() && http.is_none() {
                let detail = "no address was given: peer, http or both are required";
                return Err(RequestError::invalid(detail));
            }
            check_addresses(peer.as_ref(), http.as_ref())
        }
        ChangeOfMembers::Promote { name }
        | ChangeOfMembers::Demote { name }
        | ChangeOfMembers::Remove { name }
        | ChangeOfMembers::Drain { name, .. } => check_name(name),
        ChangeOfMembers::MoveLeader { to } => to.as_deref().map_or(Ok(()), check_name),
    }
}

/// Returns whether a voter may leave by this change.
fn removes_voter(change: &ChangeOfMembers) -> bool {
    matches!(
        change,
        ChangeOfMembers::Demote { .. } | ChangeOfMembers::Remove { .. }
    )
}

fn check_addresses(peer: Option<&String>, http: Option<&String>) -> Result<(), RequestError> {
    if let Some(peer) = peer {
        check_host_port("peer", peer).map_err(RequestError::Invalid)?;
        let (length, limit) = (peer.len(), TextField::PeerAddress.max_bytes());
        if length > limit {
            let detail = format!("peer: the address has {length} bytes; {limit} are allowed");
            return Err(RequestError::Invalid(detail));
        }
    }
    if let Some(http) = http.filter(|http| !is_node_url(http)) {
        let sample = base_url("n4.example:7400");
        let detail = format!("http: {http:?} is not a URL such as {sample}");
        return Err(RequestError::Invalid(detail));
    }
    Ok(())
}
