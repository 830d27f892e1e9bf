//! What callers and the writer thread share: the queue, and the log as callers see it.
//!
//! A caller sees its own calls at once: an entry is readable, and an entry truncated is gone,
//! when the call returns, though neither is durable yet. So the index here runs ahead of the
//! disk; what is durable is `synced`, and the writer keeps its own books of it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::error::WalFailure;
use crate::index::{LogIndex, Marks, Slot};
use crate::segment::SegmentNumber;
use crate::stats::WalStats;
use seqd_disk::DiskFile;

/// A callback: told `Ok` only after `fdatasync`. Callbacks run on the writer thread, in the order
/// of the calls (on the caller's, if the log is closed already): they must be brief, must not
/// wait for the log, and one that panics ends it.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub index: u64,
    /// Its bytes, which the log does not look into.
    pub bytes: Vec<u8>,
}

/// The bytes of a queued entry, shared by the queue and by readers.
pub(crate) type Bytes = Arc<Vec<u8>>;

/// What one call asked for.
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
    /// Nothing to write: it only keeps its place in the order of callbacks.
    Nothing,
    /// The call made no sense; nothing is written, and its caller is told why.
    Refused(String),
}

/// A call that waits for the disk.
pub(crate) struct Queued {
    pub(crate) op: Op,
    /// What it counts for in the queue's bound.
    pub(crate) bytes: usize,
    pub(crate) done: Done,
}

/// What the writer does next.
pub(crate) enum Work {
    Batch {
        calls: Vec<Queued>,
        committed: Option<Vec<u8>>,
    },
    /// The log was idle for long enough, or closes.
    Witness {
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
    /// Whether the user believes what the open found. Before that no witness is written: a last
    /// segment that was missing still fits when it is put back.
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
    opened: Instant,
    /// When the write that is under way began, in nanoseconds since the open; 0 is none. Not
    /// behind the lock: that would be one more for each batch.
    writing_since: AtomicU64,
}

/// Each call counts for at least this much, so that empty ones cannot pile up without bound.
const CALL_OVERHEAD_BYTES: usize = 64;

/// More than this in one call is a mistake: it would be one batch, in one segment of its own.
const MAX_CALL_BYTES: usize = 1 << 30;

impl Shared {
    pub(crate) fn new(
        marks: Marks,
        index: LogIndex,
        files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
        max_queue_bytes: usize,
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
            opened: Instant::now(),
            writing_since: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call; waits for room first, unless the caller is the writer itself, or there is
    /// no thread that would make room.
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
        idle_since: Option<Instant>,
        witness_after: Duration,
    ) -> Work {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work(max_batch_bytes, idle_since.is_some()) {
                return work;
            }
            let idle_since = idle_since.filter(|_| state.accepted);
            state = match idle_since.map(|since| witness_after.saturating_sub(since.elapsed())) {
                Some(Duration::ZERO) => {
                    return Work::Witness {
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

    /// What there is to do, without waiting for it.
    pub(crate) fn work(&self, max_batch_bytes: usize, unwitnessed: bool) -> Option<Work> {
        self.lock().work(max_batch_bytes, unwitnessed)
    }

    /// Takes the committed mark for a witness.
    pub(crate) fn take_committed(&self) -> Option<Vec<u8>> {
        self.lock().committed.take()
    }

    /// The writer begins to write: until the batch is durable, or the log failed, it is at the
    /// disk's mercy.
    pub(crate) fn write_begins(&self) {
        // 2^64 nanoseconds are five centuries.
        let now = self.opened.elapsed().as_nanos() as u64;
        self.writing_since.store(now.max(1), Ordering::Relaxed);
    }

    fn write_ended(&self) {
        self.writing_since.store(0, Ordering::Relaxed);
    }

    /// For how long the write that is under way has been.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        match self.writing_since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(
                self.opened
                    .elapsed()
                    .saturating_sub(Duration::from_nanos(since)),
            ),
        }
    }

    /// A batch is durable: its entries are on disk from here on, and room is made.
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

    /// The log stops here; the first failure is the one that is told.
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
        let since = Instant::now();
        let mut state = self.lock();
        loop {
            if state.synced.is_some_and(|synced| synced >= index) {
                return Ok(true);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.to_io_error());
            }
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.progress.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// What the writer does next, if it need not wait for it.
    fn work(&mut self, max_batch_bytes: usize, unwitnessed: bool) -> Option<Work> {
        if !self.calls.is_empty() {
            let calls = self.take_calls(max_batch_bytes);
            let committed = self.committed.take();
            return Some(Work::Batch { calls, committed });
        }
        if !self.closing {
            return None;
        }
        let committed = self.committed.take();
        Some(if (unwitnessed && self.accepted) || committed.is_some() {
            Work::Witness { committed }
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

/// What a call on a closed log is told.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")
}
