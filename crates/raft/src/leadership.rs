//! A replica's view of the cluster: the leader, the members and the voters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::raft::{Leader, TransferLeaderRequest};
use openraft::{Instant as RaftInstant, ServerState};
use seqd_guards::is_out;
use seqd_state::idgen::WallMs;
use seqd_state::{ClusterMs, Level};
use tokio::time::Instant;

use crate::context::{ClusterView, NodeContext};
use crate::handle::Role;
use crate::messages::Ping;
use crate::quorum::Configs;
use crate::replica::Replica;
use crate::storage::machine::Machine;
use crate::types::{Member, TypeConfig, Vote};

/// Time for which a waiter sleeps once openraft has ended. The node is then about to stop.
const AFTER_THE_END: Duration = Duration::from_millis(20);

/// A node counts as answering if it has acknowledged a message that the leader sent within this
/// many heartbeat intervals. A slow link or a busy machine needs two or three. With the default
/// settings, this time equals the election timeout, after which a leader also counts as lost.
const ANSWERED_HEARTBEATS: u32 = 8;

/// A leadership that may propose, because its own blank entry is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leading {
    pub(crate) term: u64,
    base: ClusterMs,
    stamped: Option<WallMs>,
    since: Instant,
}

impl Leading {
    /// The cluster's clock under this leadership.
    pub(crate) fn cluster_ms(&self) -> ClusterMs {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        ClusterMs(self.base.0.saturating_add(elapsed))
    }

    /// The wall-clock time of the last stamp before this leadership plus the time since then;
    /// `None` if this process has not seen a stamp.
    pub(crate) fn stamped_before(&self) -> Option<WallMs> {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.stamped?;
        Some(WallMs(before.0.saturating_add(elapsed)))
    }
}

impl Replica {
    /// The leadership of this start. openraft reports leadership from the stored vote. After a
    /// restart, that vote still belongs to the previous start, until the next election. No start
    /// leads in the term of the vote that it found.
    fn as_leader(&self) -> Option<Leader<TypeConfig, Machine>> {
        let leader = self.raft.as_leader().ok()?;
        (*leader.to_committed_leader_id() > self.first_term).then_some(leader)
    }

    /// Returns whether this node was elected in this start, and has observed no later leader.
    pub(crate) fn is_leader(&self) -> bool {
        self.as_leader().is_some()
    }

    /// The leadership, if this replica leads and its blank entry is applied.
    pub(crate) fn leading(&self) -> Option<Leading> {
        let leader = self.as_leader()?;
        let term = *leader.to_committed_leader_id();
        let blank = self.applied.read().blank?;
        (blank.term == term).then_some(Leading {
            term,
            base: blank.cluster_ms,
            stamped: blank.stamped,
            since: blank.at,
        })
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        let metrics = self.raft.server_metrics();
        metrics.borrow_watched().current_leader
    }

    /// Returns once `is` holds for the leader that this replica follows. If openraft has ended,
    /// returns after a pause.
    pub(crate) async fn wait_for_leader(&self, is: impl Fn(Option<u64>) -> bool) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let leader = metrics.borrow_watched().current_leader;
            if is(leader) {
                return;
            }
            if metrics.changed().await.is_err() {
                return tokio::time::sleep(AFTER_THE_END).await;
            }
        }
    }

    /// The leader, while the leader and a quorum are in contact.
    pub(crate) fn live_leader(&self) -> Option<u64> {
        self.leader().filter(|_| self.has_quorum_contact())
    }

    /// Returns whether a quorum was in contact with the leader within an election timeout. On a
    /// follower, the leader must also be in contact with it.
    pub(crate) fn has_quorum_contact(&self) -> bool {
        let leads = self.is_leader();
        let leader_has_quorum = leads || self.contact.leader_has_quorum(self.election_max);
        (leads || self.leader().is_some()) && leader_has_quorum && self.contact_left().is_some()
    }

    /// Time for which the contact with a quorum (or, on a follower, with the leader) remains if no
    /// further message arrives; `None` once it is lost.
    pub(crate) fn contact_left(&self) -> Option<Duration> {
        let silent = if self.is_leader() {
            self.without_quorum_for()?
        } else {
            self.contact.silent_for()?
        };
        self.election_max
            .checked_sub(silent)
            .filter(|left| !left.is_zero())
    }

    /// The voters of the last membership in the log, applied or not.
    pub(crate) fn voters(&self) -> Configs {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        membership.get_joint_config().clone()
    }

    /// Time since a quorum was last in contact with this leader.
    fn quorum_silent_for(&self) -> Option<Duration> {
        let acked = self.as_leader()?.last_quorum_acked()?;
        Some(RaftInstant::elapsed(&acked))
    }

    /// Time since the last contact of this node, or of the leader that it followed, with a quorum;
    /// `None` if there was none.
    pub(crate) fn out_of_contact_for(&self) -> Option<Duration> {
        let (followed, led) = (
            self.contact.leader_without_quorum_for(),
            self.contact.led_before(),
        );
        let all = [self.quorum_silent_for(), followed, led];
        all.into_iter().flatten().min()
    }

    /// Time since a leader (or, during its own leadership, a quorum) was last in contact; `None` if
    /// never.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        let (heard, led) = (self.contact.silent_for(), self.contact.led_before());
        let all = [self.quorum_silent_for(), heard, led];
        all.into_iter().flatten().min()
    }

    /// Records the last contact with a quorum. It still counts when this leadership has ended.
    pub(crate) fn note_quorum_contact(&self) {
        if let Some(silent) = self.quorum_silent_for()
            && let Some(at) = Instant::now().checked_sub(silent)
        {
            self.contact.quorum_answered(at);
        }
    }

    /// Returns whether a message with this vote comes from the leader that this node follows.
    pub(crate) fn follows(&self, vote: &Vote) -> bool {
        vote.committed && self.current_vote() == *vote
    }

    /// Records contact with the leader, if the message comes from the leader that this node
    /// follows.
    pub(crate) fn heard_if_followed(&self, vote: &Vote, without_quorum_for: Option<Duration>) {
        if self.follows(vote) {
            self.contact.heard(vote, without_quorum_for);
        }
    }

    /// The number of voters that run for leader before this node, and whether this node is the only
    /// voter; `None` if it has no vote.
    pub(crate) fn voters_before(&self) -> Option<(u32, bool)> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader;
        let voters: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
        let is_alone = voters.iter().eq([&self.node]);
        let mut others = voters.into_iter().filter(|id| Some(*id) != leader);
        let before = others.position(|id| id == self.node)?;
        Some((u32::try_from(before).unwrap_or(u32::MAX), is_alone))
    }

    /// Returns whether this node has requested votes and has not received them yet.
    pub(crate) async fn is_candidate(&self) -> bool {
        self.server_state().await == Some(ServerState::Candidate)
    }

    /// Returns whether this node leads at this moment, even if its vote is not synced yet.
    pub(crate) async fn is_leader_now(&self) -> bool {
        self.server_state().await == Some(ServerState::Leader)
    }

    /// Queries openraft's core, after all earlier messages, because openraft's metrics change only
    /// after a vote is synced.
    async fn server_state(&self) -> Option<ServerState> {
        let state = self.raft.with_raft_state(|state| state.server_state).await;
        state.ok()
    }

    /// Returns whether this voter has no leader, has lost it, or leads itself.
    pub(crate) async fn may_support_another(&self) -> bool {
        self.is_leader() || self.leader().is_none() || self.contact.is_lost_for_certain().await
    }

    /// Requests pre-votes and, with a majority of them, votes.
    pub(crate) async fn run_for_leader(&self) {
        self.end_lease_of_ended_leader(self.leader()).await;
        if let Err(error) = self.raft.trigger().elect(!is_out!(PreVote)).await {
            tracing::debug!(%error, "cannot run for leader");
        }
    }

    /// Ends the lease of a leader whose process has ended, in favour of any other node.
    pub(crate) async fn end_lease_of_ended_leader(&self, other: Option<u64>) {
        let (vote, other) = (
            self.current_vote(),
            other.filter(|other| *other != self.node),
        );
        if !vote.committed || !self.contact.has_ended_as(&vote) {
            return;
        }
        if let Some(other) = other {
            // A leader sends this to all nodes when it transfers leadership, and the named node
            // runs.
            let request = TransferLeaderRequest::new(vote, other, None);
            if let Err(error) = self.raft.handle_transfer_leader(request).await {
                tracing::debug!(%error, "the lease of the leader cannot be ended");
            }
        }
    }

    /// Records a commit index that the leader sent.
    pub(crate) fn note_commit(&self, index: u64) {
        self.committed.fetch_max(index, Ordering::Relaxed);
    }

    /// The commit index that this node has recorded. On a follower, it is that of the leader's last
    /// message, even if the entries have not arrived.
    pub(crate) fn committed_index(&self) -> u64 {
        let metrics = self.raft.metrics();
        let own = metrics
            .borrow_watched()
            .cluster_committed
            .map(|id| id.index());
        let named = self.committed.load(Ordering::Relaxed);
        own.unwrap_or(0).max(named).max(self.applied_index())
    }

    pub(crate) fn current_vote(&self) -> Vote {
        self.raft.metrics().borrow_watched().vote
    }

    /// Index of the last applied entry; 0 before the first.
    pub(crate) fn applied_index(&self) -> u64 {
        self.applied.read().applied.map_or(0, |id| id.index())
    }

    pub(crate) fn own_ping(&self, context: &NodeContext) -> Ping {
        let applied = self.applied_index();
        context.own_ping(applied, self.committed_index().saturating_sub(applied))
    }

    pub(crate) fn member(&self, node: u64) -> Option<Member> {
        self.applied.read().membership.get_node(&node).cloned()
    }

    pub(crate) fn is_voter(&self, node: u64) -> bool {
        self.votes(node) == Some(true)
    }

    /// Returns whether a change of voters is between its two steps.
    pub(crate) fn is_joint(&self) -> bool {
        self.applied.read().membership.get_joint_config().len() > 1
    }

    pub(crate) fn role(&self, node: u64) -> Role {
        if self.live_leader() == Some(node) {
            Role::Leader
        } else if self.is_voter(node) {
            Role::Follower
        } else {
            Role::Learner
        }
    }

    /// Time since a node last acknowledged a message of this leader; `None` if it never has.
    pub(crate) fn silence_of(&self, node: u64) -> Option<Duration> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let acknowledged = (*metrics.heartbeat.as_ref()?.get(&node)?)?;
        Some(RaftInstant::elapsed(&acknowledged.into_inner()))
    }

    /// Returns whether a node is this leader, or has acknowledged one of its last heartbeats.
    pub(crate) fn answers_now(&self, node: u64) -> bool {
        let answers = |silent: Duration| silent < self.heartbeat * ANSWERED_HEARTBEATS;
        node == self.node || self.silence_of(node).is_some_and(answers)
    }

    /// The number of entries of this leader's log that a node is not known to have.
    pub(crate) fn lag_of(&self, node: u64) -> u64 {
        let last = self.wal.next_index().saturating_sub(1);
        last.saturating_sub(self.matched_index(node).unwrap_or(0))
    }

    /// The last index at which a node's log is known to match this leader's.
    pub(crate) fn matched_index(&self, node: u64) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = metrics.replication.as_ref()?.get(&node)?.as_ref()?;
        Some(matched.index())
    }
}

impl ClusterView for Replica {
    fn has_history(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.vote.leader_id.term > 0 || metrics.last_log_index.is_some()
    }

    fn is_removed(&self, node: u64) -> bool {
        let core = self.applied.read();
        core.membership.get_node(&node).is_none() && core.state.is_removed(seqd_state::NodeId(node))
    }

    fn members(&self) -> BTreeMap<u64, Member> {
        let core = self.applied.read();
        core.membership
            .nodes()
            .map(|(id, member)| (*id, member.clone()))
            .collect()
    }

    fn member(&self, node: u64) -> Option<Member> {
        Self::member(self, node)
    }

    fn live_leader_name(&self) -> Option<String> {
        self.member(self.live_leader()?).map(|member| member.name)
    }

    fn votes(&self, node: u64) -> Option<bool> {
        let core = self.applied.read();
        let mut voters = core.membership.voter_ids().peekable();
        voters.peek()?;
        Some(voters.any(|id| id == node))
    }

    fn level(&self) -> Level {
        self.applied.read().state.level()
    }

    fn leads(&self) -> bool {
        self.leading().is_some()
    }

    fn without_quorum_for(&self) -> Option<Duration> {
        if !self.is_leader() {
            return None;
        }
        if self.voters().iter().flatten().eq([&self.node]) {
            return Some(Duration::ZERO);
        }
        // The leader's first entry was applied because a quorum had it.
        let began = self.leading().map(|leading| leading.since.elapsed());
        self.quorum_silent_for().into_iter().chain(began).min()
    }
}
