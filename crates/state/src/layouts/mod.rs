//! The layouts of the cluster, as rows.
//!
//! A level introduces layouts by adding their rows. Founding adds the layouts of the first level,
//! and the `apply` that raises the level adds those of the others, so every replica has them from
//! the same entry on. A command creates further layouts. A layout never changes and is never
//! removed, because IDs made with it exist.

pub(crate) mod commands;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seqd_idgen::{FirstSequence, Layout, LayoutSpec};
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::table::{Table, record};

/// The layout of IDs for which no layout is named.
pub(crate) const DEFAULT: &str = "default";

/// The presets of the first level.
const PRESETS: [&str; 6] = [
    DEFAULT,
    "twitter",
    "leaf",
    "sonyflake",
    "js53",
    "uid-generator",
];

/// The layouts of a state that is not founded yet, so that a node can describe its layouts before
/// it has a founded state.
static BEFORE_FOUNDING: LazyLock<BTreeMap<String, LayoutRecord>> = LazyLock::new(|| {
    let layouts = brought_by(Level::FIRST).into_iter();
    layouts
        .map(|layout| (layout.name().to_owned(), LayoutRecord { layout }))
        .collect()
});

/// A layout. Its name is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayoutRecord {
    #[serde(with = "crate::foreign::layout")]
    pub(crate) layout: Layout,
}

record!(LayoutRecord, kind 18, version 1, prefix b'l', key String);

/// The layouts that a level introduces.
fn brought_by(level: Level) -> Vec<Layout> {
    match level {
        Level::FIRST => PRESETS.iter().filter_map(|name| preset(name)).collect(),
        #[cfg(feature = "test-next-level")]
        Level::NEXT => Layout::new(LayoutSpec {
            name: "next".to_owned(),
            // 2026-01-01T00:00:00Z.
            epoch_ms: 1_767_225_600_000,
            tick_ms: 1,
            time_bits: 41,
            datacenter_bits: 0,
            worker_bits: 8,
            sequence_bits: 14,
            order: seqd_idgen::FieldOrder::TickWorkerSequence,
            first_sequence: FirstSequence::Zero,
        })
        .into_iter()
        .collect(),
        _ => Vec::new(),
    }
}

/// Returns a preset as a new cluster gets it. The first sequence number of a tick is spread in
/// `default`, so that IDs minted at a low rate are distributed evenly over shards chosen by
/// remainder.
fn preset(name: &str) -> Option<Layout> {
    let layout = Layout::preset(name)?;
    if name != DEFAULT {
        return Some(layout);
    }
    let spread = LayoutSpec {
        first_sequence: FirstSequence::Spread,
        ..layout.spec().clone()
    };
    Layout::new(spread).ok()
}

impl Table<LayoutRecord> {
    pub(crate) fn named(&self, name: &str) -> Option<&Layout> {
        let record = if self.has_rows() {
            self.get(name)
        } else {
            BEFORE_FOUNDING.get(name)
        };
        record.map(|record| &record.layout)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Layout> {
        let before = (!self.has_rows()).then(|| BEFORE_FOUNDING.values());
        let rows = self.iter().map(|(_, record)| record);
        rows.chain(before.into_iter().flatten())
            .map(|record| &record.layout)
    }

    fn has_rows(&self) -> bool {
        self.iter().next().is_some()
    }

    pub(crate) fn add(&mut self, layout: Layout) {
        self.put(layout.name().to_owned(), LayoutRecord { layout });
    }

    /// Adds the layouts that a level introduces. A layout of the cluster with the same name stays
    /// unchanged.
    pub(crate) fn add_those_of(&mut self, level: Level) {
        for layout in brought_by(level) {
            if self.get(layout.name()).is_none() {
                self.add(layout);
            }
        }
    }
}

#[cfg(all(test, feature = "test-next-level"))]
mod tests {
    use crate::cluster::commands::ClusterCommand;
    use crate::level::{Level, LogPosition};
    use crate::state::State;
    use crate::testing::{entry, founded};

    #[test]
    fn a_level_brings_its_layout_and_one_below_does_not_have_it() {
        let mut state = founded();
        assert_eq!(state.layout("next"), None);
        let membership = LogPosition { term: 1, index: 0 };
        let to = Level::NEXT;
        let raise = ClusterCommand::RaiseLevel { to, membership };
        state.apply(&entry(1, vec![raise.into()]), Some(membership));
        let layout = state.layout("next").unwrap();
        assert_eq!((layout.workers(), layout.sequences()), (1 << 8, 1 << 14));
        assert_eq!(state.layouts().count(), 7);
        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.layout("next"), Some(layout));
    }
}
