//! The queued calls, and the log after them. [`super::Shared`] has the lock and the waits.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::sync::Arc;

use crate::error::WalFailure;
use crate::index::{EntrySlot, LogIndex, Marks};
use crate::segment::SegmentNumber;
use crate::stats::WalStats;
use seqd_disk::DiskFile;

/// A callback. It receives `Ok` only after `fdatasync`. Callbacks run on the writer thread in the
/// order of the calls, or on the caller's thread if the log is already closed. They must be brief
/// and must not wait for the log. A callback that panics stops the log.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub index: u64,
    pub bytes: Vec<u8>,
}

/// The bytes of a queued entry, shared by the queue and by readers.
pub(crate) type Bytes = Arc<Vec<u8>>;

pub(crate) enum Op {
    Append {
        ticket: u64,
        entries: Vec<(u64, Bytes)>,
    },
    Vote(Vec<u8>),
    Truncate {
        from: u64,
    },
    Purge {
        upto: u64,
        meta: Vec<u8>,
    },
    /// Nothing to write. The call keeps its place in the order of callbacks.
    Nothing,
    /// An invalid call. Nothing is written, and its callback receives the reason.
    Refused(String),
}

pub(crate) struct Queued {
    pub(crate) op: Op,
    /// The size that counts towards the limit of the queue.
    pub(crate) bytes: usize,
    pub(crate) done: Done,
}

/// The next work of the writer.
pub(crate) enum Work {
    /// A batch. Without calls it is a witness: the log was idle for long enough, or is closing.
    Write {
        calls: Vec<Queued>,
        committed: Option<Vec<u8>>,
    },
    Close,
}

/// An entry of a written batch: its index, the ticket of its call, and its position.
pub(crate) type Placed = (u64, u64, EntrySlot);

/// The state protected by the lock.
pub(crate) struct State {
    pub(super) calls: VecDeque<Queued>,
    pub(super) queued_bytes: usize,
    pub(crate) committed: Option<Vec<u8>>,
    /// The log after all calls so far.
    pub(crate) marks: Marks,
    pub(crate) index: LogIndex,
    /// Entries that are not durable yet, each with the ticket of its call: after a truncation, an
    /// index may be queued again while its first bytes are still being written.
    pub(crate) unwritten: BTreeMap<u64, (u64, Bytes)>,
    next_ticket: u64,
    /// Open files of the log, for readers.
    pub(crate) files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    pub(crate) synced: Option<u64>,
    pub(crate) failure: Option<WalFailure>,
    pub(super) closing: bool,
    /// See [`crate::Wal::accept`].
    pub(super) accepted: bool,
    pub(crate) stats: WalStats,
}

impl State {
    pub(super) fn new(
        marks: Marks,
        index: LogIndex,
        files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    ) -> Self {
        let synced = marks.last_index();
        Self {
            calls: VecDeque::new(),
            queued_bytes: 0,
            committed: None,
            marks,
            index,
            unwritten: BTreeMap::new(),
            next_ticket: 0,
            files,
            synced,
            failure: None,
            closing: false,
            accepted: false,
            stats: WalStats::default(),
        }
    }

    /// Returns the next work, if there is any.
    pub(crate) fn work(&mut self, max_batch_bytes: usize, unwitnessed: bool) -> Option<Work> {
        if !self.calls.is_empty() {
            let calls = self.take_calls(max_batch_bytes);
            let committed = self.committed.take();
            return Some(Work::Write { calls, committed });
        }
        if !self.closing {
            return None;
        }
        let committed = self.committed.take();
        Some(if (unwitnessed && self.accepted) || committed.is_some() {
            let calls = Vec::new();
            Work::Write { calls, committed }
        } else {
            Work::Close
        })
    }

    /// After a failure, returns the queued calls, if there are any.
    pub(crate) fn refused(&mut self) -> Option<Vec<Queued>> {
        self.queued_bytes = 0;
        let calls: Vec<_> = mem::take(&mut self.calls).into();
        (!calls.is_empty()).then_some(calls)
    }

    /// Takes calls up to the limit, but at least one.
    fn take_calls(&mut self, max_batch_bytes: usize) -> Vec<Queued> {
        let mut bytes = 0;
        let fits = self.calls.iter().take_while(|call| {
            let fits = bytes == 0 || bytes + call.bytes <= max_batch_bytes;
            bytes += call.bytes;
            fits
        });
        let count = fits.count();
        self.calls.drain(..count).collect()
    }

    pub(crate) fn append(&mut self, records: Vec<Record>) -> Op {
        let mut next = None;
        for Record { index, .. } in &records {
            let follows = next.is_none_or(|next| next == *index);
            if !follows || (next.is_none() && !self.marks.accepts(*index)) || *index == u64::MAX {
                let next = next.unwrap_or(self.marks.next);
                return Op::Refused(format!("entry {index} does not follow: {next} is next"));
            }
            next = Some(index + 1);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut entries = Vec::with_capacity(records.len());
        for Record { index, bytes } in records {
            let bytes = Arc::new(bytes);
            self.marks.append(index);
            self.index.push(index, EntrySlot::QUEUED);
            self.unwritten.insert(index, (ticket, Arc::clone(&bytes)));
            entries.push((index, bytes));
        }
        Op::Append { ticket, entries }
    }

    pub(crate) fn truncate_after(&mut self, index: Option<u64>) -> Op {
        let from = index
            .map_or(0, |index| index.saturating_add(1))
            .max(self.marks.first);
        if from >= self.marks.next {
            return Op::Nothing;
        }
        self.marks.truncate(from);
        self.index.truncate(from);
        self.unwritten.split_off(&from);
        Op::Truncate { from }
    }

    pub(crate) fn purge(&mut self, upto: u64, meta: Vec<u8>) -> Op {
        if upto == u64::MAX {
            return Op::Refused("a purge up to the last index there can be".into());
        }
        if self
            .marks
            .purged
            .as_ref()
            .is_some_and(|(purged, _)| *purged >= upto)
        {
            return Op::Nothing;
        }
        // The queue never reads the bytes of this mark, only whether and up to which index the log
        // was purged.
        self.marks.purge(upto, Vec::new());
        if upto >= self.index.first() {
            self.index.purge(upto);
        }
        self.unwritten = self.unwritten.split_off(&(upto + 1));
        Op::Purge { upto, meta }
    }
}
