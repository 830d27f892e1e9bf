//! The settings of the cluster, its clock, and its counter.

use seqd_idgen::Layout;
use serde::{Deserialize, Serialize};

use super::commands::{MAX_PEER_SKEW_MS, MAX_WINDOW_MS};
use crate::newtypes::{ClusterMs, NodeId};
use crate::table::{Table, record};

/// The minimum length of a window, in ticks of the layout. Otherwise a layout with long ticks would
/// leave its holder hardly any tick to mint.
pub(crate) const MIN_WINDOW_TICKS: u64 = 3;

/// Written by the founding command and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub cluster_id: String,
    /// The lifetime of a lease without an extend, in milliseconds.
    pub window_ms: u64,
    /// The maximum difference between the clocks of two members, in milliseconds.
    pub max_peer_skew_ms: u64,
    pub founders: Vec<(NodeId, String)>,
}

impl Settings {
    /// Returns whether the settings are small enough for time arithmetic. No cluster is founded
    /// with larger ones, but a file made by hand may have any values.
    fn are_bounded(&self) -> bool {
        self.window_ms <= MAX_WINDOW_MS && self.max_peer_skew_ms <= MAX_PEER_SKEW_MS
    }

    /// Returns the window for `layout`: the agreed window, but never less than three ticks of the
    /// layout.
    #[must_use]
    pub fn window_ms_for(&self, layout: &Layout) -> u64 {
        self.window_ms
            .max(MIN_WINDOW_TICKS * u64::from(layout.spec().tick_ms))
    }

    /// Returns the distance by which a fence of `layout` may be ahead of the entry's wall clock, in
    /// milliseconds.
    #[must_use]
    pub fn fence_reach_ms(&self, layout: &Layout) -> u64 {
        self.window_ms_for(layout) + 2 * self.max_peer_skew_ms
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Clock {
    /// The wall clock of the last entry, in Unix milliseconds.
    pub(crate) wall_ms: u64,
    /// The highest cluster time of any entry.
    pub(crate) cluster_ms: ClusterMs,
}

/// The counter from which tokens, lease IDs and added nodes' IDs are drawn.
///
/// The log index is not used, because two grants may share an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counter {
    pub(crate) last: u64,
}

record!(Settings, kind 10, version 1, prefix b'a', key (), sound Settings::are_bounded);
record!(Clock, kind 11, version 1, prefix b'b', key ());
record!(Counter, kind 12, version 1, prefix b'c', key ());

/// Draws the next number of the counter. In practice 2^64 draws are never used up.
pub(crate) fn draw(counter: &mut Table<Counter>) -> u64 {
    let counter = counter.entry((), Counter::default);
    counter.last = counter.last.saturating_add(1);
    counter.last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::row::RowError;
    use crate::state::State;

    #[test]
    fn settings_that_no_cluster_was_founded_with_are_unsound() {
        let loaded = |window_ms, max_peer_skew_ms| {
            let settings = Settings {
                cluster_id: "c".to_owned(),
                window_ms,
                max_peer_skew_ms,
                founders: vec![(NodeId(1), "n1".to_owned())],
            };
            State::from_rows([(vec![b'a'], codec::encode(&settings).unwrap())])
        };
        assert!(loaded(MAX_WINDOW_MS, MAX_PEER_SKEW_MS).is_ok());
        for (window_ms, skew_ms) in [(u64::MAX, 0), (1, u64::MAX)] {
            let refused = loaded(window_ms, skew_ms).err();
            assert!(
                matches!(refused, Some(RowError::Unsound { .. })),
                "{refused:?}"
            );
        }
    }
}
