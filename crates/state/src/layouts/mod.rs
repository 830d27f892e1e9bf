//! The layouts of the cluster, as rows.
//!
//! A cluster below [`Level::FRAMES`] has no rows and the six layouts of [`FIRST`], whatever presets
//! a later program has. A level that brings layouts adds their rows in the `apply` that raises it,
//! so every replica has them from the same entry on; from [`Level::LAYOUTS`] on a command creates
//! others. A layout never changes and is never removed: IDs made with it exist. `default` alone
//! changes once, in a cluster that has not made an ID with it: see [`spread_default`].

pub(crate) mod commands;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seqd_idgen::{FirstSequence, Layout, LayoutSpec};
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::level::Level;
use crate::state::State;
use crate::table::{Record, Table};

/// The layout that IDs have where none is named.
pub(crate) const DEFAULT: &str = "default";

const FIRST: [&str; 6] = [
    DEFAULT,
    "twitter",
    "leaf",
    "sonyflake",
    "js53",
    "uid-generator",
];

/// What a cluster below [`Level::FRAMES`] has.
static BEFORE_ROWS: LazyLock<BTreeMap<String, LayoutRecord>> = LazyLock::new(|| {
    let layouts = brought_by(Level::FRAMES).into_iter();
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
        Level::FRAMES => FIRST
            .iter()
            .filter_map(|name| Layout::preset(name))
            .collect(),
        #[cfg(any(test, feature = "test-next-level"))]
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

impl State {
    /// The same state with this layout, and without the first six if it has no rows of layouts yet.
    /// For models, which need one of few ticks: a cluster's layouts come with its level alone.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        let name = layout.name().to_owned();
        self.tables.layouts.put(name, LayoutRecord { layout });
        self
    }
}

impl Table<LayoutRecord> {
    pub(crate) fn named(&self, name: &str) -> Option<&Layout> {
        let record = if self.has_rows() {
            self.get(name)
        } else {
            BEFORE_ROWS.get(name)
        };
        record.map(|record| &record.layout)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Layout> {
        let before = (!self.has_rows()).then(|| BEFORE_ROWS.values());
        let rows = self.iter().map(|(_, record)| record);
        rows.chain(before.into_iter().flatten())
            .map(|record| &record.layout)
    }

    fn has_rows(&self) -> bool {
        self.iter().next().is_some()
    }

    /// Adds the layouts that a level brings. One of the cluster's own that has the name of one of
    /// them stays what it is.
    pub(crate) fn add_those_of(&mut self, level: Level) {
        for layout in brought_by(level) {
            if self.get(layout.name()).is_none() {
                self.put(layout.name().to_owned(), LayoutRecord { layout });
            }
        }
    }

    /// Lets the sequences of `default` begin anywhere in a tick, so that IDs that are made at a low
    /// rate spread over shards by remainder. For a cluster that has made no ID with it.
    pub(crate) fn spread_default(&mut self) {
        let key = DEFAULT.to_owned();
        let spread = self.get(&key).map(|record| LayoutSpec {
            first_sequence: FirstSequence::Spread,
            ..record.layout.spec().clone()
        });
        if let Some(Ok(layout)) = spread.map(Layout::new) {
            self.put(key, LayoutRecord { layout });
        }
    }
}
