//! The starts of peers that have introduced themselves to this process.
//!
//! A start introduces itself with a hello, which contains the position that it began with. Until
//! then this node accepts neither requests nor responses from it. A peer with a record of a higher
//! position therefore detects a folder that has lost data at the first contact, whenever that
//! occurs.

use std::collections::BTreeMap;
use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

use crate::levels::LevelRange;
use crate::table::{Row, Stale, Start, SyncedPosition, Table};

/// The largest number of stored introductions, equal to the number of rows of the table.
const INTRODUCED: usize = 256;

/// The pause between two hellos to a peer that refused a message: many calls may be refused at the
/// same time, and one hello is enough for all of them.
const HELLO_AGAIN: Duration = Duration::from_millis(200);

/// The reason why the messages of a start are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartRefusal {
    /// The start must not take part.
    Stale(Stale),
    /// The start has not sent a hello to this process, or must send it again.
    Unintroduced,
}

#[derive(Debug, Default)]
pub struct Peers {
    inner: Lock<Inner>,
    /// `true` if the file `peers` is closed. It is locked while the file is written.
    pub file_closed: Lock<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    table: Table,
    introduced: BTreeMap<u64, Introduced>,
    asked: BTreeMap<u64, Instant>,
}

/// A start that sent a hello, its first position, and the levels that its program supports.
#[derive(Clone, Copy, Debug)]
struct Introduced {
    start: Start,
    began: SyncedPosition,
    levels: LevelRange,
}

impl Peers {
    pub fn new(table: Table) -> Self {
        let inner = Inner {
            table,
            ..Inner::default()
        };
        Self {
            inner: Lock::new(inner),
            file_closed: Lock::default(),
        }
    }

    /// Checks the position that a start began with. If the start may take part, it is introduced.
    pub fn meet(
        &self,
        node: u64,
        start: Start,
        began: SyncedPosition,
        levels: LevelRange,
    ) -> Result<(), Stale> {
        let mut inner = self.inner.lock();
        inner.table.judge(node, start, began)?;
        inner.table.note_start(node, start);
        if inner.introduced.len() < INTRODUCED || inner.introduced.contains_key(&node) {
            let introduced = Introduced {
                start,
                began,
                levels,
            };
            inner.introduced.insert(node, introduced);
        }
        Ok(())
    }

    /// Returns the levels that the program of a node's latest introduced start supports.
    pub fn levels(&self, node: u64) -> Option<LevelRange> {
        self.introduced(node).map(|known| known.levels)
    }

    /// Returns a node's latest introduced start.
    pub fn start_of(&self, node: u64) -> Option<Start> {
        self.introduced(node).map(|known| known.start)
    }

    fn introduced(&self, node: u64) -> Option<Introduced> {
        self.inner.lock().introduced.get(&node).copied()
    }

    /// Returns an error if messages of this start are refused. Records made since its hello are
    /// taken into account.
    pub fn check(&self, node: u64, start: Start) -> Result<(), StartRefusal> {
        let inner = self.inner.lock();
        inner
            .table
            .is_latest(node, start)
            .map_err(StartRefusal::Stale)?;
        match inner.introduced.get(&node) {
            Some(known)
                if known.start == start && inner.table.judge(node, start, known.began).is_ok() =>
            {
                Ok(())
            }
            _ => Err(StartRefusal::Unintroduced),
        }
    }

    /// Records the position that a start reported as synced.
    pub fn record(&self, node: u64, start: Start, synced: SyncedPosition) {
        self.inner.lock().table.record(node, start, synced);
    }

    /// Merges the rows of a peer's table about nodes other than `own`.
    pub fn merge(&self, own: u64, rows: Vec<Row>) {
        let others = rows.into_iter().filter(|(node, _)| *node != own);
        self.inner.lock().table.merge(others);
    }

    /// Returns all rows of this node's table, and its version.
    pub fn rows(&self) -> (Vec<Row>, u64) {
        let inner = self.inner.lock();
        (inner.table.rows(), inner.table.version())
    }

    pub fn version(&self) -> u64 {
        self.inner.lock().table.version()
    }

    /// Removes the nodes that were permanently removed from the cluster.
    pub fn retain(&self, mut keeps: impl FnMut(u64) -> bool) {
        let mut inner = self.inner.lock();
        inner.table.retain(&mut keeps);
        inner.introduced.retain(|node, _| keeps(*node));
        inner.asked.retain(|node, _| keeps(*node));
    }

    /// Returns whether a hello to a peer that refused a message is due, and records it as sent.
    pub fn hello_is_due(&self, node: u64) -> bool {
        let mut inner = self.inner.lock();
        let now = Instant::now();
        let waits = |asked: &Instant| now.duration_since(*asked) < HELLO_AGAIN;
        if inner.asked.get(&node).is_some_and(waits) {
            return false;
        }
        inner.asked.insert(node, now);
        true
    }
}
