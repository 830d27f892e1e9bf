//! What a running node does by itself: tells its peers about itself, registers its start, and, as
//! the leader, keeps the cluster's clock and its list of members in order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

use seqd_state::{Command, Found, NodeId, Outcome, Refusal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::gatherer::{self, Gatherer};
use crate::handle::Phase;
use crate::local::{self, Local};
use crate::members;
use crate::replica::Replica;
use crate::stamping::{ClockOffset, Stamping};
use crate::wire::messages::Ping;
use crate::wire::paths;
use crate::wire::transport::{CallError, Link};

/// Time between two pings; a peer counts as gone after three.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Looks before the log says who is away: at a start nobody has spoken yet.
const LOOKS_BEFORE: u32 = 3;

/// Time between two looks at what a leader has to do.
const LEADER_EVERY: Duration = Duration::from_millis(100);

/// The longest time without an entry that carries the time, while a deadline is pending.
const TIME_ENTRY_EVERY: Duration = Duration::from_secs(1);

/// How long a change of voters may stay between its two steps before the leader takes the second:
/// longer than whoever began it needs.
const JOINT_FOR: Duration = Duration::from_secs(5);

/// Pause before a start that could not be registered is registered again.
const REGISTER_RETRY: Duration = Duration::from_millis(200);

/// What this node tells about itself.
pub(crate) fn own_ping(local: &Local) -> Ping {
    let applied = local
        .replica
        .get()
        .and_then(|replica| replica.applied.read().applied)
        .map_or(0, |id| id.index());
    Ping {
        name: local.settings.name.clone(),
        version: local.settings.version.clone(),
        applied,
        report: local
            .report
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone(),
        wall_ms: local.settings.clock.wall().0,
        acknowledged: local.peers.rows().0,
        disk_hangs: local.disk.hangs(),
    }
}

/// Takes in what a peer tells about itself and about the others.
pub(crate) fn hear_ping(local: &Local, from: u64, mut ping: Ping) {
    let rows = std::mem::take(&mut ping.acknowledged);
    if let Some(own) = local.with_identity(|own| own.node) {
        local.peers.merge(own, rows);
    }
    local.heard(from, Some(ping));
}

/// Pings all members each second, and notices that this node is not one any more.
pub(crate) async fn keep_in_touch(local: Arc<Local>) {
    let mut was_member = false;
    let mut shown = Shown::default();
    loop {
        if let Some(replica) = local.replica.get() {
            shown.tell_changes(&local, replica);
            let members = replica.members();
            if members.contains_key(&replica.node) {
                was_member = true;
            } else if was_member || replica.is_removed(replica.node) {
                return local.stop(local::removed(&local.settings.name));
            }
            for (node, member) in members {
                if node != replica.node {
                    tokio::spawn(ping(Arc::clone(&local), node, member.peer));
                }
            }
            let changed = replica.applied.membership_changed();
            let _ = tokio::time::timeout(PING_EVERY, changed).await;
        } else {
            tokio::time::sleep(LEADER_EVERY).await;
        }
        if local.is_stopped() {
            return;
        }
    }
}

/// What the log last said of the cluster, so that it says each change once.
#[derive(Default)]
struct Shown {
    looks: u32,
    leader: Option<String>,
    has_contact: Option<bool>,
    away: BTreeSet<String>,
}

impl Shown {
    fn tell_changes(&mut self, local: &Local, replica: &Replica) {
        self.looks += 1;
        if self.looks <= LOOKS_BEFORE {
            return;
        }
        let has_contact = replica.has_quorum_contact();
        if self
            .has_contact
            .is_some_and(|before| before && !has_contact)
        {
            tracing::warn!("no leader with a quorum is in touch");
        }
        self.has_contact = Some(has_contact);
        let leader = replica
            .live_leader()
            .and_then(|id| replica.member(id))
            .map(|m| m.name);
        if leader.is_some() && leader != self.leader {
            tracing::info!(leader = leader.as_deref(), "a node leads");
        }
        self.leader = leader;
        let others = replica
            .members()
            .into_iter()
            .filter(|(id, _)| *id != replica.node);
        let away: BTreeSet<String> = others
            .filter(|(id, _)| !local.peer(*id).is_reachable())
            .map(|(_, member)| member.name)
            .collect();
        for name in away.difference(&self.away) {
            tracing::warn!(member = %name, "a member does not answer");
        }
        for name in self.away.difference(&away) {
            tracing::info!(member = %name, "a member answers");
        }
        self.away = away;
    }
}

async fn ping(local: Arc<Local>, node: u64, addr: String) {
    let message = own_ping(&local);
    let to = (node, addr.as_str());
    let (asked, asked_wall) = (Instant::now(), message.wall_ms);
    let answer: Result<Ping, CallError> = local
        .call(Link::Heartbeats, to, paths::PING, message, PING_EVERY)
        .await;
    if let Ok(ping) = answer {
        let offset = ClockOffset::of_answer(asked_wall, asked.elapsed(), ping.wall_ms);
        local.saw_clock(node, offset);
        hear_ping(&local, node, ping);
    }
}

/// Registers this start, so that it may take leases; `started` turns true once that is applied.
pub(crate) async fn register_start(
    local: Arc<Local>,
    gatherer: Arc<Gatherer>,
    started: watch::Sender<bool>,
) {
    let mut phase = local.phase();
    if phase.wait_for(Phase::is_running).await.is_err() {
        return;
    }
    while !local.is_stopped() {
        if let Some(replica) = local.replica.get()
            && replica.member(replica.node).is_some()
        {
            let node = NodeId(replica.node);
            let command = Command::RegisterStart {
                node,
                boot: local.start.boot,
                nonce: local.start.nonce,
            };
            let deadline = Instant::now() + Duration::from_secs(3);
            match gatherer.propose(vec![command], deadline).await.as_deref() {
                Ok([Outcome::StartRegistered { .. }]) => {
                    started.send_replace(true);
                    return;
                }
                Ok([Outcome::Refused(Refusal::NodeRemoved { .. })]) => {
                    return local.stop(local::removed(&local.settings.name));
                }
                Ok([Outcome::Refused(refusal @ Refusal::StaleStart { .. })]) => {
                    let detail = refusal.to_string();
                    return local.stop(local::stale(&local.settings.name, &detail));
                }
                _ => {}
            }
        }
        tokio::time::sleep(REGISTER_RETRY).await;
    }
}

/// While this node leads: founds the state, marks removed members, proposes the time.
pub(crate) async fn lead(local: Arc<Local>) {
    let mut timed = Instant::now();
    let mut joint = None;
    let mut stamping = Stamping::default();
    while !local.is_stopped() {
        tokio::time::sleep(LEADER_EVERY).await;
        let Some(replica) = local.replica.get() else {
            continue;
        };
        let Some(leading) = replica.leading() else {
            continue;
        };
        let mut commands = due(&local, replica);
        commands.extend(stamping.due(&local, replica));
        let time_is_due = timed.elapsed() >= TIME_ENTRY_EVERY
            && replica.applied.read().state.next_deadline().is_some();
        if !commands.is_empty() || time_is_due {
            timed = Instant::now();
            gatherer::propose_as(&local, replica, leading, commands).await;
        }
        joint = members::is_joint(replica).then(|| joint.unwrap_or_else(Instant::now));
        if joint.is_some_and(|since| since.elapsed() >= JOINT_FOR) {
            joint = None;
            members::finish_change(replica).await;
        }
    }
}

/// What the leader has to propose by itself.
fn due(local: &Local, replica: &Replica) -> Vec<Command> {
    let core = replica.applied.read();
    if !core.state.is_founded() {
        let Some(identity) = local.identity() else {
            return Vec::new();
        };
        let founders = identity
            .members
            .iter()
            .map(|m| (NodeId(m.node), m.name.clone()))
            .collect();
        return vec![Command::Found(Found {
            cluster_id: identity.cluster_id,
            window_ms: local.settings.window_ms,
            max_peer_skew_ms: local.settings.max_peer_skew_ms,
            founders,
        })];
    }
    // A node that was started as a member and is none now was removed; the leader that removed it
    // may have ended before it could say so.
    core.state
        .nodes()
        .filter(|(id, record)| {
            record.start.is_some() && !record.removed && core.membership.get_node(&id.0).is_none()
        })
        .map(|(node, _)| Command::MarkRemoved { node })
        .collect()
}
