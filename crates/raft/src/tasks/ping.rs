//! Pings: each second, every member sends its own state and its records about the other members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seqd_peers::clock::Measured;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{CallError, Link};
use seqd_state::idgen::WallMs;
use tokio::time::Instant;

use super::next_beat;
use crate::context::{ClusterView, NodeContext};
use crate::conversation;
use crate::messages::Ping;
use crate::peer_stops;
use crate::platform;
use crate::replica::Replica;

/// Time between two pings. A peer counts as unreachable after three.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Rounds before unreachable members are logged, because no member has sent anything yet at a
/// start.
const LOOKS_BEFORE: u32 = 3;

/// Records a peer's ping: its own state and its records about the other members.
pub(crate) fn take_ping(context: &NodeContext, from: u64, mut ping: Ping) {
    let rows = std::mem::take(&mut ping.acknowledged);
    if let Some(own) = context.with_identity(|own| own.node) {
        context.peers.merge(own, rows);
    }
    let was_reachable = context.peer(from).is_reachable();
    context.record_answer(from, Some(ping));
    if !was_reachable {
        context.member_came.notify_one();
    }
}

/// Pings all members each second, and stops this node once it is no longer a member.
pub(crate) async fn ping_members(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let mut was_member = false;
    let mut logged = Logged::default();
    while !context.is_stopped() {
        logged.log_changes(&context, &replica);
        let members = replica.members();
        if members.contains_key(&replica.node) {
            was_member = true;
        } else if was_member || replica.is_removed(replica.node) {
            return context.stop(peer_stops::removed(&context.settings.name));
        }
        for (node, member) in members {
            if node != replica.node {
                let (context, replica) = (Arc::clone(&context), Arc::clone(&replica));
                platform::spawn(ping(context, replica, node, member.peer));
            }
        }
        tokio::select! {
            () = next_beat(&context, PING_EVERY) => {}
            () = replica.applied.membership_changed.notified() => {}
            () = context.member_came.notified() => {}
        }
    }
}

/// The state of the cluster that was last logged, so that each change is logged once.
#[derive(Default)]
struct Logged {
    looks: u32,
    leader: Option<String>,
    has_contact: Option<bool>,
    away: BTreeSet<String>,
    /// The members by ID, with whether they vote.
    members: BTreeMap<u64, (String, bool)>,
}

impl Logged {
    fn log_members(&mut self, replica: &Replica) {
        let members = replica.members().into_iter();
        let members: BTreeMap<u64, (String, bool)> = members
            .map(|(id, member)| (id, (member.name, replica.is_voter(id))))
            .collect();
        for (member, line) in changes(&self.members, &members) {
            tracing::info!(member, "{line}");
        }
        self.members = members;
    }

    fn log_changes(&mut self, context: &NodeContext, replica: &Replica) {
        self.log_members(replica);
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
            .filter(|(id, _)| !context.peer(*id).is_reachable())
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

/// The changes of the members since `before`, one line each.
fn changes(
    before: &BTreeMap<u64, (String, bool)>,
    now: &BTreeMap<u64, (String, bool)>,
) -> Vec<(String, &'static str)> {
    let mut lines = Vec::new();
    for (id, (name, votes)) in now {
        let line = match (before.get(id), votes) {
            (None, true) => "a member that votes",
            (None, false) => "a member that does not vote",
            (Some((_, false)), true) => "the member votes from now on",
            (Some((_, true)), false) => "the member no longer votes",
            (Some(_), _) => continue,
        };
        lines.push((name.clone(), line));
    }
    let gone = before.iter().filter(|(id, _)| !now.contains_key(*id));
    lines.extend(gone.map(|(_, (name, _))| (name.clone(), "the member was removed")));
    lines
}

async fn ping(context: Arc<NodeContext>, replica: Arc<Replica>, node: u64, addr: String) {
    let message = replica.own_ping(&context);
    let to = (node, addr.as_str());
    let asked = Instant::now();
    let (link, route) = (Link::Control, Route::Ping);
    let answer: Result<Ping, CallError> =
        conversation::call(&context, link, to, route, message, PING_EVERY).await;
    match answer {
        Ok(ping) => {
            let (asked_at, took) = (asked - context.clock_since, asked.elapsed());
            context.diagnosis.pinged(node, Ok(took));
            context.record_clock(
                node,
                Measured::of_answer(asked_at, took, WallMs(ping.wall_ms)),
            );
            take_ping(&context, node, ping);
        }
        Err(error) => context.diagnosis.pinged(node, Err(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_come_change_and_go_have_a_line_each() {
        let members = |list: &[(u64, &str, bool)]| {
            let list = list.iter();
            list.map(|(id, name, votes)| (*id, ((*name).to_owned(), *votes)))
                .collect::<BTreeMap<_, _>>()
        };
        let before = members(&[(1, "n1", true), (2, "n2", true), (3, "n3", false)]);
        assert!(changes(&before, &before).is_empty());
        // An emptied node rejoins under its name with another ID.
        let now = members(&[(1, "n1", false), (3, "n3", true), (4, "n2", false)]);
        let expected = [
            ("n1", "the member no longer votes"),
            ("n3", "the member votes from now on"),
            ("n2", "a member that does not vote"),
            ("n2", "the member was removed"),
        ];
        let expected = expected.map(|(name, line)| (name.to_owned(), line));
        assert_eq!(changes(&before, &now), expected);
    }
}
