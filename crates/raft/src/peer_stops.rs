//! The stop reasons that result from peers' answers or messages.

use seqd_peers::levels::LevelRange;
use seqd_state::Level;

use crate::handle::{Stop, StopReason};

pub(crate) fn removed(name: &str) -> Stop {
    Stop::new(
        StopReason::NodeRemoved,
        format!(
            "this node was removed from the cluster and its folder is of no further use; to bring \
             the machine back, empty the folder, start seqd, and run `seqd member add {name} \
             HOST:PORT`"
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
             {name} HOST:PORT`"
        ),
    )
}

pub(crate) fn superseded(by: &str) -> Stop {
    Stop::new(
        StopReason::Superseded,
        format!(
            "the cluster of this node was restored into cluster {by}, which has taken its place: \
             this node must never serve again. Retire its folder; to bring the machine into the \
             new cluster, give it an empty one"
        ),
    )
}

pub(crate) fn left_behind(own: LevelRange, level: Level) -> Stop {
    let advice = if level.0 > own.newest {
        "put the newer program back"
    } else {
        "start an older program that supports it, have the level raised, then come back to this one"
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
            "the cluster sends what this program, which supports levels {own}, cannot read ({what}): \
             put the newer program back"
        ),
    )
}
