//! Groups in flight: to the log of this node, or to the leader.

use std::sync::{Arc, LazyLock};

use seqd_guards::is_out;
use seqd_peers::wire;
use seqd_peers::wire::transport::{CallError, Link};
use seqd_state::codec::frame::{self, Framed as _};
use seqd_state::{CodecError, Command, Level, State, check_command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::entry::{self, Reply};
use super::group::Queued;
use super::inbox::Inbox;
use super::route::{RETRY, Route, given_up, replaced, route, time_left};
use crate::conversation;
use crate::handle::ProposeError;
use crate::leadership::Leading;
use crate::messages::{Forward, ForwardRefusal, ForwardReply};
use crate::node::Node;
use crate::peer_stops;
use crate::platform;

/// Largest number of groups in flight. With one, entries would be largest. With a second, the next
/// group's network and disk time overlaps with the first's, which a single proposal needs.
const IN_FLIGHT: usize = 2;

/// The highest level that any command needs.
static HIGHEST_NEEDED: LazyLock<Level> = LazyLock::new(|| {
    let rows = Command::frame_rows();
    rows.iter()
        .map(|row| row.since)
        .max()
        .unwrap_or(Level::FIRST)
});

/// Takes proposals from the queue in groups until the batcher is dropped.
pub(super) async fn collect(node: Arc<Node>, inbox: Arc<Inbox>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    while inbox.has_items().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let level = node.context.level();
        let is_above = |item: &Queued| {
            level < *HIGHEST_NEEDED
                && (item.commands.iter()).any(|command| check_command(command, level).is_err())
        };
        let group = inbox.take_group(is_above);
        platform::spawn(send(Arc::clone(&node), group, slot));
    }
}

/// Finds the leader, sends it the group, and answers each caller.
async fn send(node: Arc<Node>, mut group: Vec<Queued>, slot: OwnedSemaphorePermit) {
    let _slot = slot;
    loop {
        let forwarded = group.iter().all(|item| item.forwarded);
        let Some(deadline) = group.iter().map(|item| item.deadline).max() else {
            return;
        };
        let route = route(&node, deadline, forwarded).await;
        if let Route::Nowhere(error) = route {
            return answer_all(group, &ForwardRefusal::Propose(error));
        }
        if !matches!(route, Route::Here(_)) {
            // A forwarded proposal returns to the peer that sent it, because a second hop could
            // form a loop.
            let (theirs, own) = group.into_iter().partition(|item| item.forwarded);
            answer_all(theirs, &ForwardRefusal::NotLeader);
            group = own;
        }
        // Commands that need the leader's clock must not delay the others.
        if matches!(route, Route::Here(_)) && !entry::is_clock_known(&node.context) {
            group = refuse_unknown_clock(group);
        }
        // Drop the items whose callers have disconnected or already received an unknown outcome.
        group.retain(|item| !item.reply.is_closed() && item.fate.send());
        if group.is_empty() {
            return;
        }
        let is_there = matches!(route, Route::There { .. });
        let Some(outcomes) = (match route {
            Route::Here(leading) => propose_here(&node, leading, deadline, &mut group).await,
            Route::There { node: leader, addr } => {
                forward(&node, leader, &addr, deadline, &group).await
            }
            Route::NotLeader | Route::Nowhere(_) => return,
        }) else {
            for item in &group {
                item.fate.take_back();
            }
            tokio::time::sleep(RETRY).await;
            continue;
        };
        // The leader refused the whole message and proposed nothing. The reason may apply to only
        // some of the items. (A refusal of this node's own entry is not retried, because the
        // commands were moved into that entry.)
        if is_there
            && let Err(refused) = &outcomes
            && let Some(meant) = meant_part(&node, &group, refused)
        {
            let mut meant = meant.into_iter();
            let (theirs, others) = group
                .into_iter()
                .partition(|_| meant.next().unwrap_or(false));
            answer_all(theirs, &ForwardRefusal::Propose(refused.clone()));
            group = others;
            for item in &group {
                item.fate.take_back();
            }
            continue;
        }
        return hand_out(group, outcomes);
    }
}

/// Returns for which of a group's items the leader may have refused the whole group; `None` if this
/// applies to all of them or to none.
fn meant_part(node: &Node, group: &[Queued], refused: &ProposeError) -> Option<Vec<bool>> {
    let meant: Vec<bool> = match refused {
        ProposeError::NoQuorum { .. } => group.iter().map(|item| item.needs_known_clock).collect(),
        ProposeError::NoRoom { .. } => {
            let replica = node.replica()?;
            let core = replica.applied.read();
            let with = |is_meant: fn(&Command, &State) -> bool| -> Vec<bool> {
                let is_meant = |command: &Command| is_meant(command, &core.state);
                let items = group.iter();
                items
                    .map(|item| item.commands.iter().any(is_meant))
                    .collect()
            };
            let needing = with(Command::needs_room);
            if needing.contains(&true) {
                needing
            } else {
                // A leader at the floor refuses every client command.
                with(Command::is_of_client)
            }
        }
        _ => return None,
    };
    (meant.contains(&true) && meant.contains(&false)).then_some(meant)
}

/// Refuses the items that need a known clock. Returns the others.
fn refuse_unknown_clock(group: Vec<Queued>) -> Vec<Queued> {
    let (refused, others) = group.into_iter().partition(|item| item.needs_known_clock);
    answer_all(refused, &ForwardRefusal::Propose(entry::clock_unknown()));
    others
}

async fn propose_here(
    node: &Node,
    leading: Leading,
    deadline: Instant,
    group: &mut [Queued],
) -> Option<Reply> {
    let replica = node.replica()?;
    let taken = group
        .iter_mut()
        .map(|item| std::mem::take(&mut item.commands));
    let commands: Vec<Command> = taken.flatten().collect();
    let proposal = match entry::encode(&node.context, replica, leading, commands) {
        Ok(proposal) => proposal,
        Err(error) => return Some(Err(error)),
    };
    let sent = entry::propose_entry(replica, leading, proposal.clone(), deadline).await;
    if sent.is_none() {
        let mut commands = proposal.0.commands.iter().cloned();
        for item in group {
            item.commands = commands.by_ref().take(item.count).collect();
        }
    }
    sent
}

pub(super) async fn forward(
    node: &Node,
    leader: u64,
    addr: &str,
    deadline: Instant,
    group: &[Queued],
) -> Option<Reply> {
    let replica = node.replica()?;
    let (left, timeout_ms) = time_left(deadline);
    let commands = match frame::write_all(group.iter().flat_map(|item| &item.commands)) {
        Ok(commands) => commands,
        Err(error) => return Some(Err(not_proposed(&error))),
    };
    let message = Forward {
        commands,
        timeout_ms,
    };
    let (link, to, route) = (Link::Forward, (leader, addr), wire::route::Route::Forward);
    let asked = conversation::call(&node.context, link, to, route, message, left);
    let answer = tokio::select! {
        biased;
        answer = asked => answer,
        () = replaced(node, leader) => {
            return Some(Err(ProposeError::unknown("the leader was replaced")));
        }
        unknown = given_up(replica, deadline) => return Some(Err(unknown)),
    };
    match answer {
        Ok(ForwardReply(Ok(outcomes))) => {
            let outcomes = frame::read_all(&outcomes);
            Some(outcomes.map_err(|error| {
                if error.is_newer() {
                    let levels = node.context.settings.levels;
                    node.context
                        .stop(peer_stops::unreadable(levels, &error.to_string()));
                }
                unread(&error)
            }))
        }
        Ok(ForwardReply(Err(ForwardRefusal::NotLeader))) => None,
        Ok(ForwardReply(Err(ForwardRefusal::Propose(error)))) => Some(Err(error)),
        Err(CallError::Unwritable(detail)) => Some(Err(ProposeError::TooLarge { detail })),
        Err(error) if error.is_unsent() || is_out!(UnknownStaysUnknown) => None,
        Err(error) => {
            let detail = format!("the leader's response was lost: {error}");
            Some(Err(ProposeError::unknown(detail)))
        }
    }
}

/// The error if the commands cannot be encoded, or the receiver cannot decode them, for example
/// because a leader has an older program than the sender.
pub(super) fn not_proposed(error: &CodecError) -> ProposeError {
    if error.is_newer() {
        let detail = format!("the leader cannot read a command that it was sent: {error}");
        return ProposeError::AboveLevel { detail };
    }
    ProposeError::NoQuorum {
        detail: error.to_string(),
    }
}

/// The error if the commands were applied, but their outcomes cannot be encoded, or cannot be
/// decoded here.
pub(super) fn unread(error: &CodecError) -> ProposeError {
    ProposeError::unknown(format!("the outcomes cannot be read: {error}"))
}

fn answer_all(group: Vec<Queued>, refused: &ForwardRefusal) {
    for item in group {
        let _ = item.reply.send(Err(refused.clone()));
    }
}

fn hand_out(group: Vec<Queued>, reply: Reply) {
    match reply {
        Ok(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for item in group {
                let own = outcomes.by_ref().take(item.count).collect();
                let _ = item.reply.send(Ok(own));
            }
        }
        Err(error) => answer_all(group, &ForwardRefusal::Propose(error)),
    }
}
