//! One entry of the log: it is stamped, proposed under one leadership, and its outcomes are
//! awaited.

use std::time::Duration;

use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use seqd_guards::is_out;
use seqd_state::idgen::{Standing, WallMs};
use seqd_state::{CodecError, Command, Entry as StateEntry, EntryError, Outcome, Stamp};
use tokio::time::Instant;

use super::route::given_up;
use crate::context::NodeContext;
use crate::handle::ProposeError;
use crate::leadership::Leading;
use crate::replica::Replica;
use crate::types::{self, Proposal};

/// Time without a commit after which the leader stops waiting for its own command and returns to
/// its other duties: far longer than a commit takes if the followers' disks respond.
pub(crate) const OWN_LIMIT: Duration = Duration::from_secs(10);

/// Outcomes in the order of the commands, or the reason why there are none.
pub(crate) type Reply = Result<Vec<Outcome>, ProposeError>;

/// Stamps and encodes one entry for the cluster's level. After an error, nothing was proposed.
pub(crate) fn encode(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    commands: Vec<Command>,
) -> Result<Proposal, ProposeError> {
    if !is_clock_known(context) && commands.iter().any(Command::needs_known_clock) {
        return Err(clock_unknown());
    }
    let stamp = Stamp {
        wall_ms: wall_time(context, leading),
        cluster_ms: leading.cluster_ms(),
    };
    let level = replica.applied.read().state.level();
    let proposal = Proposal::new(StateEntry { stamp, commands }, level);
    proposal.map_err(|error| not_encoded(&error))
}

/// The wall-clock time in the stamp of an entry under this leadership. It is this node's clock if
/// that clock agrees with a majority. Otherwise it is the time of the majority, as measured now or
/// as last measured plus the monotonic time since then. A process that has never measured a
/// majority continues from the last stamp before this leadership.
pub(crate) fn wall_time(context: &NodeContext, leading: Leading) -> WallMs {
    let wall = context.settings.clock.wall();
    let clocks = context.clocks();
    let is_right = clocks.is_alone || clocks.standing(wall) == Standing::Right;
    if is_right || is_out!(StampOfMajority) {
        return wall;
    }
    let of_majority = clocks
        .agreed
        .map(|line| line.wall_at(clocks.since.elapsed()));
    let continued = of_majority.or_else(|| leading.stamped_before());
    continued.unwrap_or(wall)
}

/// Returns whether this leader proposes commands that need a known clock.
pub(crate) fn is_clock_known(context: &NodeContext) -> bool {
    context.clocks().is_known() || is_out!(GrantWhenKnown)
}

/// The refusal of commands that need a known clock.
pub(super) fn clock_unknown() -> ProposeError {
    ProposeError::NoQuorum {
        detail: "the leader does not know yet whether its clock is right".to_owned(),
    }
}

fn not_encoded(error: &EntryError) -> ProposeError {
    match error {
        EntryError::TooManyCommands { .. } | EntryError::Codec(CodecError::TooLarge { .. }) => {
            ProposeError::TooLarge {
                detail: error.to_string(),
            }
        }
        EntryError::AboveLevel { .. } => ProposeError::AboveLevel {
            detail: error.to_string(),
        },
        EntryError::Codec(_) => ProposeError::NoQuorum {
            detail: error.to_string(),
        },
    }
}

/// Proposes one entry under this leadership and waits for its outcomes until the deadline, while a
/// quorum is in contact. `None` if nothing was proposed because another node leads.
pub(crate) async fn propose_entry(
    replica: &Replica,
    leading: Leading,
    proposal: Proposal,
    deadline: Instant,
) -> Option<Reply> {
    tokio::select! {
        biased;
        reply = outcomes_of(replica, leading, proposal) => reply,
        unknown = given_up(replica, deadline) => Some(Err(unknown)),
    }
}

/// Like [`propose_entry`], but waits until the entry is applied or discarded.
pub(crate) async fn outcomes_of(
    replica: &Replica,
    leading: Leading,
    proposal: Proposal,
) -> Option<Reply> {
    let started = Instant::now();
    let (responder, applied) = ProgressResponder::complete_only();
    let leader = *types::log_id(leading.term, 0).committed_leader_id();
    let write = replica.raft.write(proposal).responder(responder);
    let submitted = if is_out!(SameLeadership) {
        write.await
    } else {
        write.with_leader(leader).await
    };
    if submitted.is_err() {
        return Some(Err(ProposeError::unknown("this node's Raft has stopped")));
    }
    match applied.await {
        Ok(Ok(written)) => {
            replica.commits.record(started.elapsed());
            Some(Ok(written.data.0))
        }
        Ok(Err(ClientWriteError::ForwardToLeader(_))) => None,
        Ok(Err(error)) => Some(Err(ProposeError::unknown(error.to_string()))),
        Err(_) => Some(Err(ProposeError::unknown("this node's Raft has stopped"))),
    }
}

/// Proposes the leader's own commands, and only under this leadership.
pub(crate) async fn propose_as(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    commands: Vec<Command>,
) -> Option<Vec<Outcome>> {
    let proposal = encode(context, replica, leading, commands).ok()?;
    let deadline = Instant::now() + OWN_LIMIT;
    propose_entry(replica, leading, proposal, deadline)
        .await?
        .ok()
}

#[cfg(test)]
mod tests {
    use seqd_state::{ClusterCommand, Level, MAX_COMMANDS_PER_ENTRY, NodeId};

    use super::*;

    #[test]
    fn more_commands_than_an_entry_has_are_too_many_and_not_a_lack_of_voters() {
        let command = Command::Cluster(ClusterCommand::MarkRemoved { node: NodeId(1) });
        let entry = |count| StateEntry {
            stamp: Stamp::default(),
            commands: vec![command.clone(); count],
        };
        assert!(Proposal::new(entry(MAX_COMMANDS_PER_ENTRY), Level::NEWEST).is_ok());
        let refused = Proposal::new(entry(MAX_COMMANDS_PER_ENTRY + 1), Level::NEWEST);
        let refused = refused.map_err(|error| not_encoded(&error));
        assert!(matches!(refused, Err(ProposeError::TooLarge { .. })));
    }

    #[test]
    fn a_command_above_the_level_is_not_a_lack_of_voters() {
        let above = EntryError::AboveLevel {
            kind: 1,
            version: 1,
            since: Level::NEWEST,
            level: Level::FIRST,
        };
        let detail = above.to_string();
        assert_eq!(not_encoded(&above), ProposeError::AboveLevel { detail });
    }
}
