//! The raise of the cluster's level. The leader proposes it once every member, learners included,
//! answers and supports the next level.
//!
//! An unreachable member delays the raise, because its program is not known and may be an older one
//! when it returns. The command contains the membership that was checked, and has no effect under
//! another one.

use seqd_guards::is_out;
use seqd_peers::levels::LevelRange;
use seqd_state::{ClusterCommand, Command};

use crate::context::NodeContext;
use crate::leadership::Leading;
use crate::proposer::entry;
use crate::records::position_of;
use crate::replica::Replica;

/// Raises the level as far as possible, and returns once the raise is applied or this node no
/// longer leads.
///
/// No member is added meanwhile, because `adding_or_raising` is held. Across a change of leader,
/// the order of the log decides. A new leader has applied all entries of earlier leaders, so it
/// checks a new member against earlier raises, and checks a raise against all members that were
/// added earlier. A raise that follows a membership that its proposer had not applied is refused by
/// `apply`.
pub(super) async fn raise(context: &NodeContext, replica: &Replica, leading: Leading) {
    // A change in progress delays the level, but not the leader's other duties.
    let Ok(_held) = replica.adding_or_raising.try_lock() else {
        return;
    };
    // A new cluster begins below the level that its members support, and passes through all levels
    // in between at once.
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
