//! The part of consensus that minting and sequences need, as a trait that a test can implement.
//!
//! It is implemented by the Raft handle. In unit tests it is implemented by the same state machine,
//! without Raft.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use seqd_guards::is_out;
use seqd_idgen::Layout;
use seqd_raft::{DrawError, ProposeError, Raft, Role, Status, Turn};
use seqd_state::{ClusterMs, Command, Draw, Drawn, NodeId, Outcome, State, Wait};
use tokio::time::Instant;

use crate::admission::Serving;
use crate::times::millis;

/// The interval at which a request checks whether this node has a state.
pub(crate) const STATE_WAIT: Duration = Duration::from_millis(50);

/// A pending response of the cluster.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProposeError>> + Send + 'a>>;

/// The future of a draw.
pub(crate) type Drawing<'a> = Pin<Box<dyn Future<Output = Result<Drawn, DrawError>> + Send + 'a>>;

/// The last applied entry of each member, as last reported to this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// This node's last applied entry.
    pub(crate) applied: u64,
    pub(crate) others: Vec<OtherMember>,
}

#[derive(Clone, Debug)]
pub(crate) struct OtherMember {
    pub(crate) name: String,
    pub(crate) applied: Option<u64>,
    pub(crate) reachable: bool,
}

/// Access to the replicated state, for reads and for changes.
pub(crate) trait Replica: Send + Sync {
    fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Answer<'_, Vec<Outcome>>;

    /// A linearizable read: waits until this node's state includes everything that any node
    /// acknowledged before the call. Returns the leader's cluster clock at some moment during the
    /// call.
    fn read(&self, deadline: Instant) -> Answer<'_, ClusterMs>;

    /// Draws values of an ordered sequence, or timestamps. After an error, no value was issued.
    fn draw(&self, draw: Draw, deadline: Instant) -> Drawing<'_>;

    fn progress(&self) -> Progress;

    /// Passes the state that this node has applied as a member of its cluster to `at`. Keep `at`
    /// short, because a lock is held.
    ///
    /// # Errors
    /// The reason why this node has no such state; `at` is not called.
    fn look(&self, at: &mut dyn FnMut(&State)) -> Result<(), ProposeError>;

    /// Returns whether this node has applied nearly everything that its leader has committed, and
    /// the leader has contact with a quorum.
    fn is_in_touch(&self) -> bool;

    /// The reason why nothing can be proposed; `None` while this node is in contact with a leader
    /// that has a quorum.
    fn without_leader(&self) -> Option<ProposeError>;

    /// Registers a wait; `None` while this node has no state.
    fn wait_for_turn(&self, wait: Wait) -> Option<Turn>;

    /// This start's node ID and boot number, as soon as it may take leases.
    fn started(&self) -> Option<(NodeId, u64)>;
}

/// The cluster's time as of a read, from which the remaining time of a hold is computed. After a
/// linearizable read it is an upper bound, so that no hold appears to last longer than it does.
/// After a stale read, it may lag by any amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTime {
    /// The leader's clock at a moment after `asked`; after a stale read, the clock that this node
    /// had applied by then.
    cluster_ms: ClusterMs,
    asked: Instant,
}

impl ReadTime {
    /// The applied time of this node, for stale reads. It may lag by any amount, and a hold then
    /// appears to last longer by that amount.
    pub(crate) fn of_applied(state: &State) -> Self {
        Self {
            cluster_ms: state.cluster_ms(),
            asked: Instant::now(),
        }
    }

    /// Returns whether `until` was still ahead at the time of the read.
    pub(crate) fn is_before(self, until: ClusterMs) -> bool {
        self.cluster_ms < until
    }

    /// The remaining time until `until`, counted from this call, in milliseconds.
    pub(crate) fn left(self, until: ClusterMs) -> u64 {
        let passed = self.asked.elapsed().as_micros().div_ceil(1000);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        until.left_at(ClusterMs(self.cluster_ms.0.saturating_add(passed)))
    }
}

/// Waits like [`Replica::read`].
pub(crate) async fn read_time(
    replica: &dyn Replica,
    deadline: Instant,
) -> Result<ReadTime, ProposeError> {
    let asked = Instant::now();
    let cluster_ms = replica.read(deadline).await?;
    if is_out!(ReadStamped) {
        return applied(replica, ReadTime::of_applied);
    }
    Ok(ReadTime { cluster_ms, asked })
}

/// Calls `look` with the state that this node has applied, and returns its result.
///
/// # Errors
/// The reason why this node has no state.
pub(crate) fn applied<R>(
    replica: &dyn Replica,
    look: impl FnOnce(&State) -> R,
) -> Result<R, ProposeError> {
    let mut look = Some(look);
    let mut seen = None;
    replica.look(&mut |state| {
        if let Some(look) = look.take() {
            seen = Some(look(state));
        }
    })?;
    seen.ok_or_else(no_state)
}

/// Like [`applied`], but returns `None` while this node has no state.
pub(crate) fn peek<R>(replica: &dyn Replica, look: impl FnOnce(&State) -> R) -> Option<R> {
    applied(replica, look).ok()
}

/// The layout with this name, as this node has applied it.
pub(crate) fn layout(replica: &dyn Replica, name: &str) -> Option<Layout> {
    on_state_or_empty(replica, |state| state.layout(name).cloned())
}

/// The agreed window of a lease of `layout`, in milliseconds; `before` while this node has no
/// state.
pub(crate) fn window_ms(replica: &dyn Replica, layout: &Layout, before: u64) -> u64 {
    let agreed = peek(replica, |state| {
        let settings = state.settings();
        settings.map(|settings| settings.window_ms_for(layout))
    });
    agreed.flatten().unwrap_or(before)
}

/// All layouts, ordered by name, as this node has applied them.
pub(crate) fn layouts(replica: &dyn Replica) -> Vec<Layout> {
    on_state_or_empty(replica, |state| state.layouts().cloned().collect())
}

/// Like [`applied`], but while this node has no state, `look` receives the empty state of a new
/// cluster.
fn on_state_or_empty<R>(replica: &dyn Replica, look: impl Fn(&State) -> R) -> R {
    peek(replica, &look).unwrap_or_else(|| look(&State::new()))
}

/// Proposes a command and waits for its outcome.
pub(crate) async fn propose_one(
    replica: &dyn Replica,
    command: Command,
    deadline: Instant,
) -> Result<Outcome, ProposeError> {
    propose_last(replica, vec![command], deadline).await
}

/// Proposes commands in one entry and waits for the outcome of the last one.
pub(crate) async fn propose_last(
    replica: &dyn Replica,
    commands: Vec<Command>,
    deadline: Instant,
) -> Result<Outcome, ProposeError> {
    let outcomes = replica.propose(commands, deadline).await?;
    outcomes
        .into_iter()
        .next_back()
        .ok_or_else(|| ProposeError::OutcomeUnknown {
            detail: "the proposal returned no outcome".to_owned(),
        })
}

/// The error of a node that has just started and has not read its state yet.
pub(crate) fn no_state() -> ProposeError {
    ProposeError::NoQuorum {
        detail: "this node has no state yet".to_owned(),
    }
}

/// Adds the names of the voters that this node cannot reach to a `NoQuorum` error. A node that is
/// not a member has no voters, and this is the reason to report.
pub(crate) fn name_missing(error: ProposeError, raft: &Raft) -> ProposeError {
    let ProposeError::NoQuorum { detail } = error else {
        return error;
    };
    if let Err(not_a_member) = raft.state_of_member(|_| ()) {
        return not_a_member;
    }
    let status = raft.status();
    let missing: Vec<&str> = status
        .members
        .iter()
        .filter(|member| !member.reachable && member.role != Role::Learner)
        .map(|member| member.name.as_str())
        .collect();
    let detail = match status.leader_member() {
        Some(leader) if !status.reaches_leader => {
            format!("this node does not reach the leader {}", leader.name)
        }
        _ => detail,
    };
    if missing.is_empty() {
        return ProposeError::NoQuorum { detail };
    }
    let (name, missing) = (&status.name, missing.join(", "));
    let (reachable, voters) = (status.reachable, status.voters);
    ProposeError::NoQuorum {
        detail: format!(
            "{detail}; {name} reaches {reachable} of {voters} voters, not {missing}{}",
            lost_for_long(&status)
        ),
    }
}

/// The time for which this node has reached no majority of the voters, in milliseconds; `None`
/// while it reaches one.
pub(crate) fn quorum_lost_ms(status: &Status) -> Option<u64> {
    let lost_for = status.out_of_contact_for?;
    let is_lost = status.voters > 0 && status.reachable <= status.voters / 2;
    is_lost.then(|| millis(lost_for))
}

/// The advice if the quorum was lost long ago, after a semicolon.
pub(crate) fn lost_for_long(status: &Status) -> String {
    let advice = seqd_api::advice::lost_for_long(quorum_lost_ms(status));
    advice.map_or_else(String::new, |advice| format!("; {advice}"))
}

impl Replica for Raft {
    fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Answer<'_, Vec<Outcome>> {
        Box::pin(async move {
            let tenant = Serving::current_tenant();
            let outcomes = self.propose_for(tenant, commands, deadline).await;
            outcomes.map_err(|error| name_missing(error, self))
        })
    }

    fn read(&self, deadline: Instant) -> Answer<'_, ClusterMs> {
        Box::pin(async move {
            let read = Raft::read(self, deadline).await;
            read.map_err(|error| name_missing(error, self))
        })
    }

    fn draw(&self, draw: Draw, deadline: Instant) -> Drawing<'_> {
        Box::pin(async move {
            let tenant = Serving::current_tenant();
            let drawn = Raft::draw(self, tenant, draw, deadline).await;
            drawn.map_err(|error| match error {
                DrawError::Propose(error) => DrawError::Propose(name_missing(error, self)),
                error => error,
            })
        })
    }

    fn progress(&self) -> Progress {
        let status = self.status();
        let members = status.members.into_iter();
        let others = members.filter(|member| member.name != status.name);
        let others = others.map(|member| OtherMember {
            name: member.name,
            applied: member.applied,
            reachable: member.reachable,
        });
        Progress {
            applied: status.applied,
            others: others.collect(),
        }
    }

    fn look(&self, at: &mut dyn FnMut(&State)) -> Result<(), ProposeError> {
        self.state_of_member(|state| at(state))
    }

    fn is_in_touch(&self) -> bool {
        let status = self.status();
        status.caught_up && status.leader.is_some() && status.has_quorum_contact
    }

    fn without_leader(&self) -> Option<ProposeError> {
        let status = self.status();
        let is_led = status.leader.is_some() && status.has_quorum_contact;
        let detail = "this cluster has no leader with a quorum".to_owned();
        (!is_led).then(|| name_missing(ProposeError::NoQuorum { detail }, self))
    }

    fn wait_for_turn(&self, wait: Wait) -> Option<Turn> {
        Raft::wait_for_turn(self, wait)
    }

    fn started(&self) -> Option<(NodeId, u64)> {
        if *Raft::started(self).borrow() {
            self.boot()
        } else {
            None
        }
    }
}
