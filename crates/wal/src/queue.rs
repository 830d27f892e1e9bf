//! Shared by callers and the writer thread: the queue, and the log as callers see it.
//!
//! When a call returns, its entry is readable, or its truncated entries are gone, though neither is
//! durable yet. So the index here is ahead of the disk; the writer has its own of what is durable.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::WalFailure;
use crate::index::{LogIndex, Marks, Slot};
use crate::segment::SegmentNumber;
use crate::stats::WalStats;
use seqd_disk::DiskFile;

/// A callback: gets `Ok` only after `fdatasync`. Callbacks run on the writer thread, in the order of
/// the calls (on the caller's, if the log is closed already). They must be brief and must not wait
/// for the log; one that panics stops the log.
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
    /// Nothing to write; keeps its place in the order of callbacks.
    Nothing,
    /// An invalid call: nothing is written, and its callback gets the reason.
    Refused(String),
}

pub(crate) struct Queued {
    pub(crate) op: Op,
    /// Counted in the queue's bound.
    pub(crate) bytes: usize,
    pub(crate) done: Done,
}

/// What the writer does next.
pub(crate) enum Work {
    /// A batch. Without calls it is a witness: the log was idle for long enough, or closes.
    Write {
        calls: Vec<Queued>,
        committed: Option<Vec<u8>>,
    },
    Close,
}

/// An entry of a written batch: its index, the ticket of its call, its place.
pub(crate) type Placed = (u64, u64, Slot);

/// Behind the lock.
pub(crate) struct State {
    calls: VecDeque<Queued>,
    queued_bytes: usize,
    committed: Option<Vec<u8>>,
    /// The log as the calls so far leave it.
    pub(crate) marks: Marks,
    pub(crate) index: LogIndex,
    /// Entries that are not durable yet, each with the ticket of its call: an index may be
    /// queued again after a truncation while its first bytes are still being written.
    pub(crate) unwritten: BTreeMap<u64, (u64, Bytes)>,
    next_ticket: u64,
    /// Open files of the log, for readers.
    pub(crate) files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    pub(crate) synced: Option<u64>,
    pub(crate) failure: Option<WalFailure>,
    closing: bool,
    /// See [`crate::Wal::accept`].
    accepted: bool,
    pub(crate) stats: WalStats,
}

/// The shared part of a log.
pub(crate) struct Shared {
    state: Mutex<State>,
    wake_writer: Condvar,
    /// Room in the queue, a higher synced index, or a failure.
    progress: Condvar,
    max_queue_bytes: usize,
    clock: Clock,
    /// When the current write began, in nanoseconds of the clock; 0 is none. Outside the lock, which
    /// would have to be taken once more for each batch.
    writing_since: AtomicU64,
}

/// Each call counts for at least this much, so that empty ones cannot pile up without bound.
const CALL_OVERHEAD_BYTES: usize = 64;

/// The most bytes of one call: it becomes one batch, in one segment.
const MAX_CALL_BYTES: usize = 1 << 30;

impl Shared {
    pub(crate) fn new(
        marks: Marks,
        index: LogIndex,
        files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
        max_queue_bytes: usize,
        clock: Clock,
    ) -> Self {
        let synced = marks.last_index();
        let state = State {
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
        };
        Self {
            state: Mutex::new(state),
            wake_writer: Condvar::new(),
            progress: Condvar::new(),
            max_queue_bytes,
            clock,
            writing_since: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Queues a call. Waits for room first, unless the caller is the writer, or there is no thread
    /// that would make room.
    pub(crate) fn call(
        &self,
        bytes: usize,
        writer: Option<ThreadId>,
        done: Done,
        op: impl FnOnce(&mut State) -> Op,
    ) {
        let mut state = self.lock();
        if writer.is_some_and(|writer| thread::current().id() != writer) {
            while state.queued_bytes >= self.max_queue_bytes && state.failure.is_none() {
                state = wait(&self.progress, state);
            }
        }
        if state.closing {
            drop(state);
            return done(Err(closed()));
        }
        let op = match &state.failure {
            Some(_) => Op::Nothing,
            None if bytes > MAX_CALL_BYTES => Op::Refused(format!(
                "{bytes} bytes in one call, {MAX_CALL_BYTES} is the most"
            )),
            None => op(&mut state),
        };
        let bytes = bytes + CALL_OVERHEAD_BYTES;
        state.accepted = true;
        state.queued_bytes += bytes;
        state.calls.push_back(Queued { op, bytes, done });
        self.wake_writer.notify_one();
    }

    pub(crate) fn accept(&self) {
        self.lock().accepted = true;
        self.wake_writer.notify_one();
    }

    pub(crate) fn set_committed(&self, committed: Vec<u8>) {
        self.lock().committed = Some(committed);
    }

    /// Waits for work. `idle_since` is when the last batch was synced, if that batch still lacks
    /// a witness.
    pub(crate) fn next_work(
        &self,
        max_batch_bytes: usize,
        idle_since: Option<Duration>,
        witness_after: Duration,
    ) -> Work {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work(max_batch_bytes, idle_since.is_some()) {
                return work;
            }
            let idle_since = idle_since.filter(|_| state.accepted);
            let left = idle_since.map(|since| (since + witness_after).saturating_sub(self.now()));
            state = match left {
                Some(Duration::ZERO) => {
                    return Work::Write {
                        calls: Vec::new(),
                        committed: state.committed.take(),
                    };
                }
                Some(left) => {
                    let woken = self.wake_writer.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => wait(&self.wake_writer, state),
            };
        }
    }

    /// The next work, without waiting for it.
    pub(crate) fn work(&self, max_batch_bytes: usize, unwitnessed: bool) -> Option<Work> {
        self.lock().work(max_batch_bytes, unwitnessed)
    }

    /// Takes the committed mark for a witness.
    pub(crate) fn take_committed(&self) -> Option<Vec<u8>> {
        self.lock().committed.take()
    }

    /// From here until the batch is durable, or the log failed, [`Self::stalled_for`] counts.
    pub(crate) fn write_begins(&self) {
        // 2^64 nanoseconds are five centuries.
        let now = self.now().as_nanos() as u64;
        self.writing_since.store(now.max(1), Ordering::Relaxed);
    }

    fn write_ended(&self) {
        self.writing_since.store(0, Ordering::Relaxed);
    }

    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        match self.writing_since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(self.now().saturating_sub(Duration::from_nanos(since))),
        }
    }

    pub(crate) fn batch_synced(
        &self,
        placed: &[Placed],
        calls: &[Queued],
        synced: Option<u64>,
        count: impl FnOnce(&mut WalStats),
    ) {
        self.write_ended();
        let mut state = self.lock();
        for (index, ticket, slot) in placed {
            if state
                .unwritten
                .get(index)
                .is_some_and(|(queued, _)| queued == ticket)
            {
                state.unwritten.remove(index);
                state.index.place(*index, *slot);
            }
        }
        state.synced = synced;
        state.queued_bytes -= calls.iter().map(|call| call.bytes).sum::<usize>();
        count(&mut state.stats);
        drop(state);
        self.progress.notify_all();
    }

    /// Stops the log; later failures are ignored.
    pub(crate) fn fail(&self, failure: WalFailure) {
        self.write_ended();
        self.lock().failure.get_or_insert(failure);
        self.progress.notify_all();
    }

    /// After a failure: the calls that wait, or `None` when the log closes and none is left.
    pub(crate) fn next_refused(&self) -> Option<Vec<Queued>> {
        let mut state = self.lock();
        while state.calls.is_empty() && !state.closing {
            state = wait(&self.wake_writer, state);
        }
        state.refused()
    }

    /// After a failure: the calls that wait, if there are any.
    pub(crate) fn refused(&self) -> Option<Vec<Queued>> {
        self.lock().refused()
    }

    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake_writer.notify_all();
        self.progress.notify_all();
    }

    pub(crate) fn stats(&self) -> WalStats {
        let state = self.lock();
        WalStats {
            queued_bytes: state.queued_bytes as u64,
            ..state.stats.clone()
        }
    }

    pub(crate) fn wait_synced(&self, index: u64, timeout: Duration) -> io::Result<bool> {
        let since = self.now();
        let mut state = self.lock();
        loop {
            if state.synced.is_some_and(|synced| synced >= index) {
                return Ok(true);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.to_io_error());
            }
            let left = timeout.saturating_sub(self.now().saturating_sub(since));
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.progress.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn work(&mut self, max_batch_bytes: usize, unwitnessed: bool) -> Option<Work> {
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

    fn refused(&mut self) -> Option<Vec<Queued>> {
        self.queued_bytes = 0;
        let calls: Vec<_> = mem::take(&mut self.calls).into();
        (!calls.is_empty()).then_some(calls)
    }

    /// Takes calls up to the bound, at least one.
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
                return Op::Refused(format!("entry {index} does not follow, {next} is the next"));
            }
            next = Some(index + 1);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut entries = Vec::with_capacity(records.len());
        for Record { index, bytes } in records {
            let bytes = Arc::new(bytes);
            self.marks.append(index);
            self.index.push(index, Slot::QUEUED);
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
        // The queue's marks never serve the bytes, only whether there was a purge and up to where.
        self.marks.purge(upto, Vec::new());
        if upto >= self.index.first() {
            self.index.purge(upto);
        }
        self.unwritten = self.unwritten.split_off(&(upto + 1));
        Op::Purge { upto, meta }
    }
}

fn wait<'a>(condvar: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condvar.wait(state).unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")
}
