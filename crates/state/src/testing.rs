//! A founded state and entries, for the unit tests of several files.

use seqd_idgen::WallMs;

use crate::cluster::commands::{ClusterCommand, Found};
use crate::domains::Command;
use crate::entry::Entry;
use crate::newtypes::{ClusterMs, NodeId};
use crate::restore::Restoration;
use crate::stamp::Stamp;
use crate::state::State;

/// An entry whose two clocks are both at `at`.
pub(crate) fn entry(at: u64, commands: Vec<Command>) -> Entry {
    let stamp = Stamp {
        wall_ms: WallMs(at),
        cluster_ms: ClusterMs(at),
    };
    Entry { stamp, commands }
}

pub(crate) fn founded() -> State {
    let mut state = State::new();
    let found = ClusterCommand::Found(Found {
        cluster_id: "c".to_owned(),
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        founders: [1, 2].map(|id| (NodeId(id), format!("n{id}"))).into(),
    });
    state.apply(&entry(0, vec![found.into()]), None);
    state
}

/// Converts the state to that of another cluster, as a restore from a backup does.
pub(crate) fn restore(state: &mut State) {
    let restoration = Restoration {
        cluster_id: "c2".to_owned(),
        founder: "n1".to_owned(),
        ancestors: Vec::new(),
        floors: [].into(),
        margin: None,
        written: None,
    };
    state.restore(&restoration).unwrap();
}
