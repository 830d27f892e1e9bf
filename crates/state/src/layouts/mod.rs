//! The layouts of the cluster, as rows.
//!
//! A level that brings layouts adds their rows: the first in the founding, each other in the `apply`
//! that raises it, so every replica has them from the same entry on. A command creates others. A
//! layout never changes and is never removed: IDs made with it exist.

pub(crate) mod commands;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seqd_idgen::{FirstSequence, Layout, LayoutSpec};
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::level::Level;
use crate::table::{Record, Table};

/// The layout that IDs have where none is named.
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

/// What a state that is not founded shows, so that a node can describe its layouts before it has one.
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

impl Versioned for LayoutRecord {
    const KIND: u8 = 18;
    const VERSION: u8 = 1;
}

impl Record for LayoutRecord {
    type Key = String;
    const PREFIX: u8 = b'l';

    fn write_key(key: &String, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key.as_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<String> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

/// The layouts that a level adds.
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

/// A preset as a new cluster gets it: the sequences of `default` begin anywhere in a tick, so that
/// IDs that are made at a low rate spread over shards by remainder.
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

    /// Adds the layouts that a level brings. One of the cluster's own that has the name of one of
    /// them stays what it is.
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
