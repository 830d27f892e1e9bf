//! The handle: started, asked, and stopped in order.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use seqd_state::{ClusterMs, Command, NodeId, Outcome, State, Tenant, Wait};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clocks::Clocks;
use crate::export::{self, Export, SnapshotError};
use crate::handle::{
    ChangeOfMembers, MemberError, MemberStatus, Options, Phase, ProposeError, Report, Status, Stop,
    StorageStats,
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

/// A node's part in the cluster. Clones are the same node.
#[derive(Clone)]
pub struct Raft {
    inner: Arc<Started>,
}

impl Raft {
    /// Opens the folder, listens for peers, and goes on in the background; `phase` follows how far
    /// it has come.
    ///
    /// # Errors
    /// A [`Stop`] where the folder must not or cannot be used.
    pub fn start(options: Options) -> Pin<Box<dyn Future<Output = Result<Self, Stop>> + Send>> {
        // Boxed, so that the whole of it is compiled in this crate and not where it is awaited.
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
    pub(crate) fn node(&self) -> &Node {
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

    /// Turns true once this start is registered: from then on it may take leases.
    #[must_use]
    pub fn started(&self) -> watch::Receiver<bool> {
        self.inner.registered.clone()
    }

    /// This node's ID and the number of this start, once it has an identity.
    #[must_use]
    pub fn boot(&self) -> Option<(NodeId, u64)> {
        let context = &self.inner.node.context;
        context
            .identity()
            .map(|identity| (NodeId(identity.node), context.start.boot))
    }

    /// Proposes commands of this node itself; returns an outcome for each, in order, once they are applied.
    ///
    /// # Errors
    /// See [`ProposeError`]: only `OutcomeUnknown` leaves open whether they took effect.
    pub async fn propose(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_for(Tenant::OPERATOR, commands, deadline).await
    }

    /// Proposes commands of a tenant, which has its share of what may wait here.
    ///
    /// # Errors
    /// As of [`Raft::propose`].
    pub async fn propose_for(
        &self,
        tenant: Tenant,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let batcher = &self.inner.batcher;
        batcher.propose_for(tenant, commands, deadline).await
    }

    /// Returns when this node's state holds all that was acknowledged anywhere before the call: the
    /// leader's cluster clock at a moment of the call. The applied cluster time may be a second
    /// behind it.
    ///
    /// # Errors
    /// `NoQuorum` if no leader confirms it within the deadline.
    pub async fn read(&self, deadline: Instant) -> Result<ClusterMs, ProposeError> {
        self.inner.batcher.read(deadline).await
    }

    /// Takes a snapshot to be sent out of the cluster. It holds all that was acknowledged anywhere
    /// before the call; with `stale`, what this node has applied.
    ///
    /// # Errors
    /// See [`SnapshotError`]. The deadline is that of the agreement with the leader.
    pub async fn snapshot(&self, stale: bool, deadline: Instant) -> Result<Export, SnapshotError> {
        let Started {
            node,
            batcher,
            exporting,
            ..
        } = &*self.inner;
        export::export(node, batcher, exporting, stale, deadline).await
    }

    /// Reads the state that this node has applied. Keep it short: `apply` waits meanwhile.
    pub fn state<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        match self.inner.node.replica() {
            Some(replica) => look(&replica.applied.read().state),
            None => look(&State::default()),
        }
    }

    /// Registers a wait at this node; `None` while it has no state.
    #[must_use]
    pub fn wait_for_turn(&self, wait: Wait) -> Option<Turn> {
        let replica = self.inner.node.replica()?;
        Some(replica.applied.turns().register(wait))
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let changes = self.inner.leader_changes.load(Ordering::Relaxed);
        status::status(&self.inner.node, changes, self.inner.batcher.pending())
    }

    /// The members' wall clocks, as last looked at.
    #[must_use]
    pub fn clocks(&self) -> watch::Receiver<Clocks> {
        self.inner.node.context.clocks_watched()
    }

    #[must_use]
    pub fn storage_stats(&self) -> StorageStats {
        status::storage(&self.inner.node)
    }

    /// What this node reports of itself to its peers from now on.
    pub fn set_report(&self, report: Report) {
        *self
            .inner
            .node
            .context
            .report
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// Adds a waiting node as a learner.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_add(
        &self,
        name: String,
        peer: String,
        http: Option<String>,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Add { name, peer, http }, deadline)
            .await
            .and_then(member)
    }

    /// Gives a member new addresses; those that are `None` stay as they are. At its next start the
    /// member takes those of its own configuration.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_update(
        &self,
        name: String,
        peer: Option<String>,
        http: Option<String>,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Update { name, peer, http }, deadline)
            .await
            .and_then(member)
    }

    /// Makes a learner that has caught up a voter.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_promote(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Promote { name }, deadline)
            .await
            .and_then(member)
    }

    /// Removes a member for good; a leader transfers leadership first. Returns the member as the
    /// leader last had it.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_remove(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Remove { name }, deadline)
            .await
            .and_then(member)
    }

    /// Transfers leadership to a voter, the one with the longest log if none is named; returns the
    /// name of the one that leads then.
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

    /// Checks a change as its leader would, and makes none. Returns who would lead, of leadership.
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

    /// Announces this node's stop to peers that ask. From now until `stop` others that stop too go
    /// on taking part in Raft, so that what this node holds can be given back.
    pub fn begin_stop(&self) {
        self.inner.node.context.set_stopping(Stopping::Holds);
    }

    /// Waits for the nodes that stop too, transfers leadership if this node leads, stops Raft,
    /// writes the last checkpoint, drains the log.
    pub fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(start::stop(&self.inner))
    }
}

fn member(changed: Changed) -> Result<MemberStatus, MemberError> {
    match changed {
        Changed::Member(member) => Ok(*member),
        Changed::Leader(_) | Changed::Fits(_) => Err(unexpected_reply().into()),
    }
}

fn unexpected_reply() -> ProposeError {
    ProposeError::OutcomeUnknown {
        detail: "the leader answered another question".to_owned(),
    }
}
