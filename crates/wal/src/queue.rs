//! The state that callers and the writer thread share: the queue, and the log as callers see it.
//!
//! When a call returns, its entry is readable, or its truncated entries are removed, although
//! neither is durable yet. This index is therefore ahead of the disk. The writer has its own index
//! of the durable entries.

mod state;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::WalFailure;
use crate::index::{LogIndex, Marks};
use crate::segment::SegmentNumber;
use crate::stats::WalStats;
use seqd_disk::DiskFile;
pub(crate) use state::{Bytes, Op, Placed, Queued, State, Work};
pub use state::{Done, Record};

/// The shared part of a log.
pub(crate) struct Shared {
    state: Mutex<State>,
    wake_writer: Condvar,
    /// Signals space in the queue, a higher synced index, or a failure.
    progress: Condvar,
    max_queue_bytes: usize,
    clock: Clock,
    /// The start of the current write in nanoseconds of the clock, or 0 if there is none. It is
    /// outside the lock, which would otherwise have to be taken again for each batch.
    writing_since: AtomicU64,
    /// For a log without threads: called instead of waking a thread.
    on_queued: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Each call counts at least this much, so that the number of empty calls is limited too.
const CALL_OVERHEAD_BYTES: usize = 64;

/// The largest call: it becomes one batch in one segment.
const MAX_CALL_BYTES: usize = 1 << 30;

impl Shared {
    pub(crate) fn new(
        marks: Marks,
        index: LogIndex,
        files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
        max_queue_bytes: usize,
        clock: Clock,
    ) -> Self {
        Self {
            state: Mutex::new(State::new(marks, index, files)),
            wake_writer: Condvar::new(),
            progress: Condvar::new(),
            max_queue_bytes,
            clock,
            writing_since: AtomicU64::new(0),
            on_queued: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can occur between two related changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Queues a call. Waits for space first, unless the caller is the writer, or there is no thread
    /// that would make space.
    pub(crate) fn call(
        &self,
        bytes: usize,
        writer: Option<ThreadId>,
        done: Done,
        op: impl FnOnce(&mut State) -> Op,
    ) {
        let mut state = self.lock();
        if writer.is_some_and(|writer| thread::current().id() != writer) {
            while !self.is_roomy(&state) {
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
                "{bytes} bytes in one call; the maximum is {MAX_CALL_BYTES}"
            )),
            None => op(&mut state),
        };
        let bytes = bytes + CALL_OVERHEAD_BYTES;
        state.accepted = true;
        state.queued_bytes += bytes;
        state.calls.push_back(Queued { op, bytes, done });
        drop(state);
        self.wake_writer.notify_one();
        if let Some(wake) = self.on_queued.get() {
            wake();
        }
    }

    pub(crate) fn on_queued(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // Set once.
        let _ = self.on_queued.set(wake);
    }

    pub(crate) fn begin_if_queued(&self) -> bool {
        let is_queued = !self.lock().calls.is_empty();
        if is_queued {
            self.write_begins();
        }
        is_queued
    }

    pub(crate) fn has_room(&self) -> bool {
        self.is_roomy(&self.lock())
    }

    /// Returns whether a call would not wait.
    fn is_roomy(&self, state: &State) -> bool {
        state.queued_bytes < self.max_queue_bytes || state.failure.is_some() || state.closing
    }

    pub(crate) fn wait_for_room(&self) {
        let mut state = self.lock();
        while !self.is_roomy(&state) {
            state = wait(&self.progress, state);
        }
    }

    pub(crate) fn accept(&self) {
        self.lock().accepted = true;
        self.wake_writer.notify_one();
    }

    pub(crate) fn set_committed(&self, committed: Vec<u8>) {
        self.lock().committed = Some(committed);
    }

    /// Waits for work. `idle_since` is the time at which the last batch was synced, if that batch
    /// has no witness yet.
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

    /// [`Self::stalled_for`] counts from here until the batch is durable or the log failed.
    pub(crate) fn write_begins(&self) {
        // 2^64 nanoseconds are more than five centuries.
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

    /// Stops the log. Later failures are ignored.
    pub(crate) fn fail(&self, failure: WalFailure) {
        self.write_ended();
        self.lock().failure.get_or_insert(failure);
        self.progress.notify_all();
    }

    /// After a failure, waits for queued calls and returns them, or `None` when the log closes and
    /// none remains.
    pub(crate) fn next_refused(&self) -> Option<Vec<Queued>> {
        let mut state = self.lock();
        while state.calls.is_empty() && !state.closing {
            state = wait(&self.wake_writer, state);
        }
        state.refused()
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

fn wait<'a>(condvar: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condvar.wait(state).unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")
}
