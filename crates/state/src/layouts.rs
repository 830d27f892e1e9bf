//! The layouts of the cluster, as rows.
//!
//! A cluster below [`Level::FRAMES`] has no rows and the six layouts of [`FIRST`], whatever presets
//! a later program has. A level that brings layouts adds their rows in the `apply` that raises it,
//! so every replica has them from the same entry on. A layout never changes and is never removed:
//! IDs made with it exist.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seqd_idgen::Layout;
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::level::Level;
use crate::table::{Record, Table};

const FIRST: [&str; 6] = [
    "default",
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
        Level::NEXT => Layout::new(seqd_idgen::LayoutSpec {
            name: "next".to_owned(),
            // 2026-01-01T00:00:00Z.
            epoch_ms: 1_767_225_600_000,
            tick_ms: 1,
            time_bits: 41,
            datacenter_bits: 0,
            worker_bits: 8,
            sequence_bits: 14,
            order: seqd_idgen::FieldOrder::TickWorkerSequence,
            first_sequence: seqd_idgen::FirstSequence::Zero,
        })
        .into_iter()
        .collect(),
        _ => Vec::new(),
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

    pub(crate) fn add_those_of(&mut self, level: Level) {
        for layout in brought_by(level) {
            self.put(layout.name().to_owned(), LayoutRecord { layout });
        }
    }
}
