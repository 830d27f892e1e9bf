//! The stop reasons that result from peers' answers or messages.

use seqd_peers::levels::LevelRange;
use seqd_state::Level;

use crate::handle::{Stop, StopReason};

pub(crate) fn removed(name: &str) -> Stop {
    Stop::new(
        StopReason::NodeRemoved,
        format!(
            "this node was removed from the cluster and its folder is of no further use; to bring \
             the machine back, empty the folder, set peer.peers to the present members (empty nodes \
             that list only each other found a new cluster), start seqd, and run `seqd member add \
             {name} HOST:PORT --wait` and `seqd member promote {name} --wait`"
        ),
    )
}

pub(crate) fn stale(name: &str, why: &str) -> Stop {
    Stop::new(
        StopReason::StaleFolder,
        format!(
            "this is not the latest folder of this node ({why}): a disk that lost its memory must \
             not vote. Use the latest folder of this node; if it is lost, run `seqd member remove \
             {name}` on another node, empty this folder, start seqd, and run `seqd member add \
             {name} HOST:PORT --wait` and `seqd member promote {name} --wait`"
        ),
    )
}

pub(crate) fn superseded(by: &str) -> Stop {
    Stop::new(
        StopReason::Superseded,
        format!(
            "the cluster of this node was restored into cluster {by}, which has taken its place: \
             this node must never serve again. Retire its folder; to add the machine to the new \
             cluster, give it an empty folder"
        ),
    )
}

/// The stop of a node whose cluster is the later one of two that were made from one cluster. The
/// folder is not marked, because an operator may decide to keep this cluster and retire the other.
pub(crate) fn sibling(own: &str, other: &str, ancestor: &str) -> Stop {
    Stop::new(
        StopReason::ForeignFolder,
        format!(
            "clusters {other} and {own} were both made from cluster {ancestor} and may issue the \
             same numbers, so only one of them may run. This node stops because it belongs to the \
             later one, {own}. To keep {other}, empty this folder and add the machine there; to \
             keep {own}, first stop all nodes of {other} and retire their folders"
        ),
    )
}

pub(crate) fn left_behind(own: LevelRange, level: Level) -> Stop {
    let advice = if level.0 > own.newest {
        "install the newer program again"
    } else {
        "start an older program that supports this level, wait until the level is raised, then \
         start this program again"
    };
    Stop::new(
        StopReason::NewerFormat,
        format!("this program supports levels {own}, the cluster is at {level}: {advice}"),
    )
}

/// The stop of a node whose cluster sends messages that its program cannot read.
pub(crate) fn unreadable(own: LevelRange, what: &str) -> Stop {
    Stop::new(
        StopReason::NewerFormat,
        format!(
            "the cluster sent a message that this program, which supports levels {own}, cannot \
             read ({what}): install the newer program again"
        ),
    )
}
