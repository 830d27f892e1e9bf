//! The handle of a node: its start, its operations, and its ordered stop.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_state::{ClusterMs, Command, Draw, Drawn, NodeId, Outcome, State, Tenant, Wait};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clocks::Clocks;
use crate::diagnosis::FactsSource;
use crate::doctor_facts;
use crate::draws::DrawError;
use crate::export::{self, Export, SnapshotError};
use crate::handle::{
    ChangeOfMembers, LinkStatus, MemberError, MemberStatus, NodeReport, Options, Phase,
    ProposeError, Status, Stop, StorageStats,
};
use crate::membership;
use crate::messages::{Changed, MemberChange, Stopping};
#[cfg(test)]
use crate::node::Node;
#[cfg(test)]
use crate::proposer::ProposalBatcher;
use crate::space;
use crate::start::{self, Started};
use crate::status;
use crate::turns::Turn;

/// A node of the cluster. Clones refer to the same node.
#[derive(Clone)]
pub struct Raft {
    inner: Arc<Started>,
}

impl Raft {
    /// Opens the folder, listens for peers, and continues the start in the background; `phase`
    /// reports its progress.
    ///
    /// # Errors
    /// A [`Stop`] if the folder must not or cannot be used.
    pub fn start(options: Options) -> Pin<Box<dyn Future<Output = Result<Self, Stop>> + Send>> {
        // Boxed, so that the future is compiled in this crate and not in each crate that awaits it.
        Box::pin(async move {
            space::wait_to_start(Arc::clone(&options.disk), options.data_dir.clone()).await;
            let inner = start::start(options)?;
            Ok(Self {
                inner: Arc::new(inner),
            })
        })
    }

    /// For tests.
    #[cfg(test)]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    /// For tests.
    #[cfg(test)]
    pub(crate) fn batcher(&self) -> &ProposalBatcher {
        &self.inner.batcher
    }

    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.inner.node.context.phase()
    }

    /// Becomes true once this start is registered. From then on, it may take leases.
    #[must_use]
    pub fn started(&self) -> watch::Receiver<bool> {
        self.inner.registered.clone()
    }

    /// This node's ID and boot number; `None` before it has an identity.
    #[must_use]
    pub fn boot(&self) -> Option<(NodeId, u64)> {
        let context = &self.inner.node.context;
        context
            .identity()
            .map(|identity| (NodeId(identity.node), context.start.boot))
    }

    /// Proposes this node's own commands. Returns an outcome for each, in order, once they are
    /// applied.
    ///
    /// # Errors
    /// See [`ProposeError`]. Only `OutcomeUnknown` leaves it open whether the commands took effect.
    pub async fn propose(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_for(Tenant::OPERATOR, commands, deadline).await
    }

    /// Proposes a tenant's commands, within the tenant's share of the proposals that may wait here.
    ///
    /// # Errors
    /// As for [`Raft::propose`].
    pub async fn propose_for(
        &self,
        tenant: Tenant,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let batcher = &self.inner.batcher;
        batcher.propose_for(tenant, commands, deadline).await
    }

    /// Performs a linearizable read: returns once this node's state contains everything
    /// acknowledged anywhere before the call. Returns the leader's cluster clock at a moment during
    /// the call. The applied cluster time may be a second behind it.
    ///
    /// # Errors
    /// `NoQuorum` if no leader confirms the read within the deadline.
    pub async fn read(&self, deadline: Instant) -> Result<ClusterMs, ProposeError> {
        self.inner.batcher.read(deadline).await
    }

    /// Draws the next values of an ordered sequence, or the next timestamps, for a tenant.
    ///
    /// # Errors
    /// See [`DrawError`]. After any error, none of the values was issued.
    pub async fn draw(
        &self,
        tenant: Tenant,
        draw: Draw,
        deadline: Instant,
    ) -> Result<Drawn, DrawError> {
        self.inner.draws.draw(tenant, draw, deadline).await
    }

    /// Takes a snapshot for export from the cluster. It contains everything acknowledged anywhere
    /// before the call; with `stale`, it contains what this node has applied.
    ///
    /// # Errors
    /// See [`SnapshotError`]. The deadline applies to the agreement with the leader.
    pub async fn snapshot(&self, stale: bool, deadline: Instant) -> Result<Export, SnapshotError> {
        let Started {
            node,
            batcher,
            exporting,
            ..
        } = &*self.inner;
        export::export(node, batcher, exporting, stale, deadline).await
    }

    /// Reads the state that this node has applied. `look` must be short, because `apply` waits
    /// meanwhile.
    pub fn state<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        match self.inner.node.replica() {
            Some(replica) => look(&replica.applied.read().state),
            None => look(&State::default()),
        }
    }

    /// Reads the state that this node has applied as a member of its cluster. `look` must be short,
    /// as for [`Raft::state`].
    ///
    /// # Errors
    /// The reason why this node has no such state: `NoQuorum` while it is not a member yet or its
    /// replica does not run yet.
    pub fn state_of_member<R>(&self, look: impl FnOnce(&State) -> R) -> Result<R, ProposeError> {
        status::state_of_member(&self.inner.node, look)
    }

    /// Registers a wait at this node; `None` while the node has no state.
    #[must_use]
    pub fn wait_for_turn(&self, wait: Wait) -> Option<Turn> {
        let replica = self.inner.node.replica()?;
        Some(replica.applied.turns.register(wait))
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let changes = self.inner.leader_changes.load(Ordering::Relaxed);
        status::status(&self.inner.node, changes, self.inner.batcher.pending())
    }

    /// The members' wall clocks, as of the last comparison.
    #[must_use]
    pub fn clocks(&self) -> watch::Receiver<Clocks> {
        self.inner.node.context.clocks_watched()
    }

    #[must_use]
    pub fn storage_stats(&self) -> StorageStats {
        status::storage(&self.inner.node)
    }

    /// Sets the report that this node sends to its peers from now on.
    pub fn set_report(&self, report: NodeReport) {
        *self.inner.node.context.report.lock() = report;
    }

    /// Sets the source of the facts that this node sends to members that request them.
    pub fn set_facts(&self, source: FactsSource) {
        // Set once: a start has one set of services.
        let _ = self.inner.node.context.diagnosis.facts.set(source);
    }

    /// The links to the other members, by name.
    #[must_use]
    pub fn links(&self) -> Vec<LinkStatus> {
        status::links(&self.inner.node)
    }

    /// Requests the facts of the other members, at the same time, over the peers' connections.
    /// Returns them with the members' names, or the reasons why a member did not answer.
    pub async fn facts_of_others(&self, limit: Duration) -> Vec<(String, Result<Vec<u8>, String>)> {
        doctor_facts::gather(&self.inner.node, limit).await
    }

    /// Adds, updates, promotes, demotes, removes or drains a member. Returns its status: at the
    /// leader, or for a drain at the member itself; for a removed member, its last one. Use
    /// [`Raft::leader_move`] for a move of leadership.
    ///
    /// - Add: a waiting node becomes a learner.
    /// - Update: at its next start, the member uses the addresses of its own configuration.
    /// - Promote: a learner that has caught up becomes a voter.
    /// - Demote and remove: a leader transfers leadership first.
    /// - Drain: the member serves every request and leaves the leadership to other voters that can
    ///   lead.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn change_member(
        &self,
        change: ChangeOfMembers,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        match self.change(change.into(), deadline).await? {
            Changed::Member(member) => Ok(*member),
            Changed::Leader(_) | Changed::Fits(_) => Err(unexpected_reply().into()),
        }
    }

    #[cfg(test)]
    pub(crate) async fn member_add(
        &self,
        name: String,
        peer: String,
        http: Option<String>,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        let change = ChangeOfMembers::Add { name, peer, http };
        self.change_member(change, deadline).await
    }

    #[cfg(test)]
    pub(crate) async fn member_promote(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        let change = ChangeOfMembers::Promote { name };
        self.change_member(change, deadline).await
    }

    #[cfg(test)]
    pub(crate) async fn member_remove(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        let change = ChangeOfMembers::Remove { name };
        self.change_member(change, deadline).await
    }

    /// Transfers leadership to a voter: to the one with the longest log if `to` is `None`. Returns
    /// the name of the new leader.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn leader_move(
        &self,
        to: Option<String>,
        deadline: Instant,
    ) -> Result<String, MemberError> {
        match self
            .change(MemberChange::MoveLeader { to }, deadline)
            .await?
        {
            Changed::Leader(name) => Ok(name),
            Changed::Member(_) | Changed::Fits(_) => Err(unexpected_reply().into()),
        }
    }

    /// The time at which the drain of this node began; `None` while it does not drain.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<Option<Instant>> {
        self.inner.node.context.draining.watched()
    }

    /// Drains this node until it stops.
    pub fn drain_to_stop(&self) {
        self.inner.node.context.draining.begin_last();
        self.inner.node.context.member_came.notify_one();
    }

    /// Checks a change as the leader would, without making it. For a move of leadership or a drain,
    /// returns the name of the node that would lead.
    ///
    /// # Errors
    /// Those of the change itself.
    pub async fn try_out(
        &self,
        change: ChangeOfMembers,
        deadline: Instant,
    ) -> Result<Option<String>, MemberError> {
        let change = MemberChange::TryOut(change);
        match self.change(change, deadline).await? {
            Changed::Fits(leader) => Ok(leader),
            Changed::Member(_) | Changed::Leader(_) => Err(unexpected_reply().into()),
        }
    }

    async fn change(
        &self,
        change: MemberChange,
        deadline: Instant,
    ) -> Result<Changed, MemberError> {
        membership::carry_out(&self.inner.node, &self.inner.batcher, change, deadline).await
    }

    /// Announces this node's stop to peers that poll for it. Until `stop` is called, other nodes
    /// that are also stopping continue to take part in Raft, so that this node can return its
    /// leases and ranges.
    pub fn begin_stop(&self) {
        self.inner.node.context.set_stopping(Stopping::Holds);
    }

    /// Waits for the other nodes that stop too, transfers leadership if this node leads, stops
    /// Raft, writes the last checkpoint, and drains the log.
    pub fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(start::stop(&self.inner))
    }
}

fn unexpected_reply() -> ProposeError {
    ProposeError::OutcomeUnknown {
        detail: "the leader responded to another request".to_owned(),
    }
}
