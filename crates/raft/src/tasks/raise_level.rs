//! The raise of the cluster's level: proposed by the leader once every member, learners too, answers
//! and supports the next one.
//!
//! A member that is away holds it up, for its program is not known: it may come back as an older
//! one. The command names the membership that was asked, and raises nothing under another.

use seqd_state::{ClusterCommand, Command};

use crate::context::NodeContext;
use crate::levels::LevelRange;
use crate::records::position_of;
use crate::replica::Replica;

pub(super) fn due(context: &NodeContext, replica: &Replica) -> Option<Command> {
    let core = replica.applied.read();
    let to = core.state.level().next();
    let speaks = |levels: LevelRange| levels.contains(to);
    if !speaks(context.settings.levels) || !core.state.is_founded() {
        return None;
    }
    let mut others = core
        .membership
        .nodes()
        .filter(|(id, _)| **id != replica.node);
    if !others.all(|(id, _)| context.peer(*id).levels().is_some_and(speaks)) {
        return None;
    }
    let membership = position_of(&core.membership)?;
    tracing::info!(
        level = to.0,
        "every member speaks the next level; it is raised"
    );
    Some(Command::Cluster(ClusterCommand::RaiseLevel {
        to,
        membership,
    }))
}
