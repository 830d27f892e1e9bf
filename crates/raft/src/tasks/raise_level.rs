//! The raise of the cluster's level: proposed by the leader once every member, learners too, answers
//! and supports the next one.
//!
//! A member that is away holds it up, for its program is not known: it may come back as an older
//! one. The command has the membership that was looked at, and raises nothing under another.

use seqd_guards::is_out;
use seqd_peers::levels::LevelRange;
use seqd_state::{ClusterCommand, Command};

use crate::context::NodeContext;
use crate::leadership::Leading;
use crate::proposer::entry;
use crate::records::position_of;
use crate::replica::Replica;

/// Raises the level as far as that is due, and returns once it is applied, or this node leads no more.
///
/// No member is added meanwhile, as `adding_or_raising` is held. Under the next leader the log decides:
/// it leads once all entries of earlier leaders are applied, so it checks a new member against a raise
/// that came before, and looks at a member that was added before. A raise behind a membership that its
/// proposer had not applied is refused when it is applied.
pub(super) async fn raise(context: &NodeContext, replica: &Replica, leading: Leading) {
    // A change that is being made holds up the level and not the leader's other duties.
    let Ok(_held) = replica.adding_or_raising.try_lock() else {
        return;
    };
    // A new cluster is some levels below what its members support: it rises through all at once.
    let mut last = None;
    while let Some(command) = due(context, replica) {
        let level = replica.applied.read().state.level();
        if last == Some(level) {
            return;
        }
        last = Some(level);
        entry::propose_as(context, replica, leading, vec![command]).await;
    }
}

pub(crate) fn due(context: &NodeContext, replica: &Replica) -> Option<Command> {
    let core = replica.applied.read();
    let to = core.state.level().next();
    let supports = |levels: LevelRange| levels.contains(to);
    if !supports(context.settings.levels) || !core.state.is_founded() {
        return None;
    }
    let mut others = core
        .membership
        .nodes()
        .filter(|(id, _)| **id != replica.node);
    if !others.all(|(id, _)| context.levels_of(*id).is_some_and(supports) || is_out!(MembersAsked))
    {
        return None;
    }
    let membership = position_of(&core.membership)?;
    tracing::info!(
        level = to.0,
        "every member supports the next level; it is raised"
    );
    Some(Command::Cluster(ClusterCommand::RaiseLevel {
        to,
        membership,
    }))
}
