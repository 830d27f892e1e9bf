//! The table of positions that each other node has acknowledged. It detects a disk that has lost
//! data.
//!
//! A node must not return with less than it has acknowledged. Its peers record this in their
//! tables: for each node the highest (vote, last log ID) that the node reported as synced, by
//! acknowledging it or, as the leader, by sending it.
//!
//! Invariants of [`Table`]:
//! - Only synced positions are reported and recorded. A start on an intact disk therefore has at
//!   least the positions that were recorded of the earlier starts.
//! - The record of a node never decreases, and a merge keeps everything of both tables.
//! - A start is not compared with its own acknowledgements, but all later starts are. It is
//!   compared with the acknowledgements of earlier starts for as long as it runs.

use std::collections::BTreeMap;
use std::fmt;

use seqd_guards::is_out;

pub use seqd_store::records::{PeerRecord, Start, SyncedPosition};

/// More than the members of a cluster. It limits the table, whatever peers send.
const NODES: usize = 256;

/// The record of a node, with the node's ID, as tables are stored and sent.
pub type Row = (u64, PeerRecord);

/// The reason why a start must not take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// A later start of this node was seen.
    Later { seen: u64, this: u64 },
    /// Another start with the same number was seen: another copy of the folder runs, or ran.
    Twin { boot: u64 },
    /// The node has acknowledged more than this start has.
    Less {
        acknowledged: SyncedPosition,
        has: SyncedPosition,
    },
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later { seen, this } => {
                write!(
                    f,
                    "start {seen} of the folder was seen, and this is start {this}"
                )
            }
            Self::Twin { boot } => write!(
                f,
                "another start {boot} of the folder was seen: two processes were started with \
                 copies of it"
            ),
            Self::Less { acknowledged, has } => write!(
                f,
                "it has acknowledged {acknowledged}, and this folder was started with {has}"
            ),
        }
    }
}

/// The positions that other nodes have acknowledged, as far as this node has recorded them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    records: BTreeMap<u64, PeerRecord>,
    /// Incremented by every change.
    version: u64,
}

impl Table {
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut table = Self::default();
        table.merge(rows);
        table
    }

    pub fn rows(&self) -> Vec<Row> {
        self.records
            .iter()
            .map(|(node, record)| (*node, *record))
            .collect()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns an error if a start of a node that begins with `has` must not take part.
    pub fn judge(&self, node: u64, start: Start, has: SyncedPosition) -> Result<(), Stale> {
        let Some(record) = self.records.get(&node) else {
            return Ok(());
        };
        self.is_latest(node, start)?;
        let acknowledged = if start == record.start {
            record.before
        } else {
            record.before.max(record.synced)
        };
        if has < acknowledged && !is_out!(AcknowledgedKept) {
            return Err(Stale::Less { acknowledged, has });
        }
        Ok(())
    }

    /// Returns an error if a later start of a node was seen, or a twin of this one.
    pub fn is_latest(&self, node: u64, start: Start) -> Result<(), Stale> {
        match self.records.get(&node) {
            Some(record) if record.start.boot > start.boot => Err(Stale::Later {
                seen: record.start.boot,
                this: start.boot,
            }),
            Some(record)
                if record.start.boot == start.boot
                    && record.start != start
                    && !is_out!(TwinRefused) =>
            {
                Err(Stale::Twin { boot: start.boot })
            }
            _ => Ok(()),
        }
    }

    /// Records a start that may take part.
    pub fn note_start(&mut self, node: u64, start: Start) {
        self.record(node, start, SyncedPosition::default());
    }

    /// Records the position that a start reported as synced.
    pub fn record(&mut self, node: u64, start: Start, synced: SyncedPosition) {
        let before = SyncedPosition::default();
        let record = PeerRecord {
            start,
            synced,
            before,
        };
        self.merge([(node, record)]);
    }

    pub fn merge(&mut self, rows: impl IntoIterator<Item = Row>) {
        for (node, theirs) in rows {
            let Some(own) = self.records.get_mut(&node) else {
                if self.records.len() < NODES {
                    self.records.insert(node, theirs);
                    self.version += 1;
                }
                continue;
            };
            let merged = merged(own, &theirs);
            if *own != merged {
                *own = merged;
                self.version += 1;
            }
        }
    }

    /// Removes the nodes that were permanently removed from the cluster.
    pub fn retain(&mut self, mut keeps: impl FnMut(u64) -> bool) {
        let before = self.records.len();
        self.records.retain(|node, _| keeps(*node));
        self.version += u64::from(self.records.len() != before);
    }
}

fn merged(one: &PeerRecord, other: &PeerRecord) -> PeerRecord {
    let (earlier, later) = if one.start.boot <= other.start.boot {
        (one, other)
    } else {
        (other, one)
    };
    let before = earlier.before.max(later.before);
    if earlier.start.boot < later.start.boot {
        return PeerRecord {
            start: later.start,
            synced: later.synced,
            before: before.max(earlier.synced),
        };
    }
    // Of two twins the first one is kept. Later starts must have everything that either twin
    // acknowledged.
    PeerRecord {
        start: one.start,
        synced: one.synced.max(other.synced),
        before,
    }
}

#[cfg(test)]
mod tests;
