//! The peers' starts, as this process knows them.
//!
//! A start introduces itself by a hello that shows what it began with. Until then nothing else is
//! taken from it, neither a request nor a reply: so a folder that lost its memory is found by each
//! peer that knows more, at the first contact, whenever that comes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::levels::LevelRange;
use crate::table::{Row, Stale, Start, SyncedPosition, Table};

/// Introductions that are kept; as many as the table has rows.
const INTRODUCED: usize = 256;

/// Pause between two hellos to one peer that did not take a message: many calls may be refused at
/// once, and one hello is enough for all of them.
const HELLO_AGAIN: Duration = Duration::from_millis(200);

/// Why the messages of a start are not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartRefusal {
    /// It must not take part.
    Stale(Stale),
    /// It has not sent a hello to this process, or must send it again.
    Unintroduced,
}

#[derive(Debug, Default)]
pub struct Peers {
    inner: Mutex<Inner>,
    /// Whether the file `peers` is closed; locked while it is written.
    pub file_closed: Mutex<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    table: Table,
    introduced: BTreeMap<u64, Introduced>,
    asked: BTreeMap<u64, Instant>,
}

/// A start that sent a hello, what it began with, and the levels that its program supports.
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
            inner: Mutex::new(inner),
            file_closed: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a start by what it began with; one that may take part is introduced from here on.
    pub fn meet(
        &self,
        node: u64,
        start: Start,
        began: SyncedPosition,
        levels: LevelRange,
    ) -> Result<(), Stale> {
        let mut inner = self.lock();
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

    /// The levels that the program of a node's latest introduced start supports.
    pub fn levels(&self, node: u64) -> Option<LevelRange> {
        self.lock().introduced.get(&node).map(|known| known.levels)
    }

    /// A node's latest introduced start.
    pub fn start_of(&self, node: u64) -> Option<Start> {
        self.lock().introduced.get(&node).map(|known| known.start)
    }

    /// Whether a message of this start is taken. What was learnt since its hello counts.
    pub fn check(&self, node: u64, start: Start) -> Result<(), StartRefusal> {
        let inner = self.lock();
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

    /// Records what a start reported as synced.
    pub fn record(&self, node: u64, start: Start, synced: SyncedPosition) {
        self.lock().table.record(node, start, synced);
    }

    /// Takes in what a peer's table holds of nodes other than `own`.
    pub fn merge(&self, own: u64, rows: Vec<Row>) {
        let others = rows.into_iter().filter(|(node, _)| *node != own);
        self.lock().table.merge(others);
    }

    /// All that this node's table holds, and its version.
    pub fn rows(&self) -> (Vec<Row>, u64) {
        let inner = self.lock();
        (inner.table.rows(), inner.table.version())
    }

    pub fn version(&self) -> u64 {
        self.lock().table.version()
    }

    /// Forgets nodes that are gone for good.
    pub fn retain(&self, mut keeps: impl FnMut(u64) -> bool) {
        let mut inner = self.lock();
        inner.table.retain(&mut keeps);
        inner.introduced.retain(|node, _| keeps(*node));
        inner.asked.retain(|node, _| keeps(*node));
    }

    /// Whether it is time to send a hello to a peer that did not take a message; records it as
    /// sent.
    pub fn hello_is_due(&self, node: u64) -> bool {
        let mut inner = self.lock();
        let now = Instant::now();
        let waits = |asked: &Instant| now.duration_since(*asked) < HELLO_AGAIN;
        if inner.asked.get(&node).is_some_and(waits) {
            return false;
        }
        inner.asked.insert(node, now);
        true
    }
}
