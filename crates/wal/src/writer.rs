//! The writer: only it writes batches and runs callbacks. It has its own thread, or a
//! [`crate::Pump`] drives it. The rounds are the same.
//!
//! One round takes all queued calls, writes them as one batch with one write, syncs it with one
//! `fdatasync`, and runs the callbacks in order. There is no timer: while one batch is being
//! synced, the next one accumulates. A failure is final; see [`crate::FailedStep::Sync`].

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use seqd_guards::is_out;

use crate::error::{FailedStep, WalFailure};
use crate::format::{BatchBuffer, HEADER_BYTES, Kind};
use crate::index::{EntrySlot, Holdings, Marks};
use crate::preparer::Preparer;
use crate::queue::{Op, Placed, Queued, Shared, Work};
use crate::segment::{SegmentNumber, TailSegment};
use seqd_disk::Disk;

/// The log as of its last synced batch.
pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) segment_bytes: u64,
    pub(crate) max_batch_bytes: usize,
    pub(crate) witness_after: Duration,
    pub(crate) shared: Arc<Shared>,
    pub(crate) preparer: Preparer,
    pub(crate) segment: TailSegment,
    /// The older segments that still exist in ascending order, each with its length.
    pub(crate) older: Vec<(SegmentNumber, u64)>,
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) holdings: Holdings,
    /// The time at which the last batch was synced, if no witness has followed it.
    pub(crate) unwitnessed_since: Option<Duration>,
    pub(crate) buffer: BatchBuffer,
}

impl Writer {
    /// The main function of the thread. It runs until the log closes, or fails and closes.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let result = panic::catch_unwind(AssertUnwindSafe(|| self.write_until_closed()));
        let failure = match result {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure,
            Err(_) => {
                let source = io::Error::other("the writer thread panicked");
                WalFailure::new(FailedStep::Panic, &self.segment.path, &source)
            }
        };
        shared.fail(failure.clone());
        while let Some(calls) = shared.next_refused() {
            refuse(calls, &failure);
        }
    }

    fn write_until_closed(&mut self) -> Result<(), WalFailure> {
        loop {
            let work = self.shared.next_work(
                self.max_batch_bytes,
                self.unwitnessed_since,
                self.witness_after,
            );
            if matches!(work, Work::Close) {
                return Ok(());
            }
            self.round(work)?;
        }
    }

    /// Performs one round. A failure is passed to its callbacks and stops the log.
    pub(crate) fn round(&mut self, work: Work) -> Result<(), WalFailure> {
        let (calls, committed) = match work {
            Work::Close => return Ok(()),
            Work::Write { calls, committed } => (calls, committed),
        };
        if let Err(failure) = self.write(&calls, committed.as_deref()) {
            tracing::error!(%failure, "the log stops");
            self.shared.fail(failure.clone());
            refuse(calls, &failure);
            return Err(failure);
        }
        self.unwitnessed_since = (!calls.is_empty()).then(|| self.shared.now());
        if !calls.is_empty() {
            acknowledge(calls);
            self.drop_dead_segments();
        }
        Ok(())
    }

    /// Writes and syncs one batch.
    fn write(&mut self, calls: &[Queued], committed: Option<&[u8]>) -> Result<(), WalFailure> {
        self.shared.write_begins();
        let tickets = self.encode(calls, committed);
        let len = self.buffer.finished_len() as u64;
        if self.segment.tail + len > self.segment.len {
            self.roll(len)?;
        } else {
            self.prepare_next();
        }

        let batch = self.buffer.finish(self.segment.seed, self.sequence + 1);
        let (file, path) = (&self.segment.file, &self.segment.path);
        file.write_at(batch, self.segment.tail)
            .map_err(|e| WalFailure::new(FailedStep::Write, path, &e))?;
        let started = self.shared.now();
        if !is_out!(BatchSynced) {
            file.sync_data()
                .map_err(|e| WalFailure::new(FailedStep::Sync, path, &e))?;
        }
        let took = self.shared.now().saturating_sub(started);

        let (placed, records) = self.enter(&tickets);
        self.sequence += 1;
        self.segment.tail += len;
        let is_witness = calls.is_empty();
        self.shared
            .batch_synced(&placed, calls, self.marks.last_index(), |stats| {
                stats.observe_sync(took);
                stats.batches += 1;
                stats.witnesses += u64::from(is_witness);
                stats.records += records;
                stats.bytes += len;
            });
        Ok(())
    }

    /// Fills the next segment, from half of this one on, so that an idle log keeps one file. At
    /// three quarters it is complete, in time for the end of this one.
    fn prepare_next(&mut self) {
        let quarter = (self.segment.len / 4).max(1);
        let Some(beyond_half) = self.segment.tail.checked_sub(self.segment.len / 2) else {
            return;
        };
        let len = self.segment_bytes;
        let upto = u128::from(len) * u128::from(beyond_half.min(quarter)) / u128::from(quarter);
        let number = self.segment.number.next();
        self.preparer.prepare(number, len, upto as u64);
    }

    /// Encodes the calls into the buffer. Returns the ticket of each entry, in order.
    fn encode(&mut self, calls: &[Queued], committed: Option<&[u8]>) -> Vec<u64> {
        let mut tickets = Vec::new();
        self.buffer.clear();
        for call in calls {
            match &call.op {
                Op::Append { ticket, entries } => {
                    for (index, bytes) in entries {
                        self.buffer.push(Kind::Entry, *index, bytes);
                        tickets.push(*ticket);
                    }
                }
                Op::Vote(vote) => self.buffer.push(Kind::Vote, 0, vote),
                Op::Truncate { from } => self.buffer.push(Kind::Truncate, *from, &[]),
                Op::Purge { upto, meta } => self.buffer.push(Kind::Purge, *upto, meta),
                Op::Nothing | Op::Refused(_) => {}
            }
        }
        if let Some(committed) = committed {
            self.buffer.push(Kind::Committed, 0, committed);
        }
        tickets
    }

    /// Applies the batch that was just synced, by the rules of an open. Returns the positions of
    /// its entries and the number of its records.
    fn enter(&mut self, tickets: &[u64]) -> (Vec<Placed>, u64) {
        let mut tickets = tickets.iter();
        let mut placed = Vec::with_capacity(tickets.len());
        let mut records = 0;
        for record in self.buffer.records() {
            records += 1;
            if let Err(why) = self.marks.apply(&record) {
                // The queue applies the same rules and rejected such a call.
                unreachable!("a written record is out of order: {why}");
            }
            match record.kind {
                Kind::Entry => {
                    self.holdings.append(self.segment.number, record.index);
                    let slot = EntrySlot::of(self.segment.number, self.segment.tail, &record);
                    placed.extend(tickets.next().map(|ticket| (record.index, *ticket, slot)));
                }
                Kind::Truncate => self.holdings.truncate(record.index),
                Kind::Purge => self.holdings.purge(record.index),
                Kind::Vote | Kind::Committed | Kind::Extent => {}
            }
        }
        (placed, records)
    }

    /// Begins the next segment, with space for a batch of `batch_len`.
    fn roll(&mut self, batch_len: u64) -> Result<(), WalFailure> {
        let number = self.segment.number.next();
        let mut opening = BatchBuffer::default();
        encode_opening(&mut opening, &self.marks);
        let need = HEADER_BYTES as u64 + opening.finished_len() as u64 + batch_len;
        let prepared = self.preparer.take(number, self.segment_bytes.max(need))?;
        let opening = opening.finish(prepared.seed, self.sequence + 1);
        let segment = prepared.publish(&*self.disk, &self.dir, opening)?;
        self.sequence += 1;
        let old = mem::replace(&mut self.segment, segment);
        self.older.push((old.number, old.len));
        let mut state = self.shared.lock();
        state
            .files
            .insert(self.segment.number, Arc::clone(&self.segment.file));
        state.stats.fsyncs += 1;
        drop(state);
        self.count_segments();
        Ok(())
    }

    /// Removes the segments before the first segment with a live entry. The current segment stays:
    /// its synced opening repeats the vote and the purge mark of the removed ones.
    pub(crate) fn drop_dead_segments(&mut self) {
        let keep_from = self.holdings.oldest().unwrap_or(self.segment.number);
        let dead = self
            .older
            .partition_point(|(number, _)| *number < keep_from);
        if dead > 0 {
            let numbers: Vec<_> = self.older.drain(..dead).map(|(number, _)| number).collect();
            let mut state = self.shared.lock();
            for number in &numbers {
                state.files.remove(number);
            }
            drop(state);
            self.preparer.remove(numbers);
        }
        self.count_segments();
    }

    fn count_segments(&self) {
        let mut state = self.shared.lock();
        state.stats.segments = self.older.len() as u64 + 1;
        state.stats.disk_bytes =
            self.segment.len + self.older.iter().map(|(_, len)| len).sum::<u64>();
    }
}

/// Encodes the opening of a segment: everything that the log holds in addition to its entries.
pub(crate) fn encode_opening(buffer: &mut BatchBuffer, marks: &Marks) {
    buffer.clear();
    buffer.push(Kind::Extent, marks.first, &marks.next.to_le_bytes());
    if let Some(vote) = &marks.vote
        && !is_out!(OpeningHoldsVote)
    {
        buffer.push(Kind::Vote, 0, vote);
    }
    if let Some(committed) = &marks.committed {
        buffer.push(Kind::Committed, 0, committed);
    }
    if let Some((upto, meta)) = &marks.purged {
        buffer.push(Kind::Purge, *upto, meta);
    }
}

/// A callback that panics must not prevent the others from receiving the result. Its panic is
/// resumed after them.
fn acknowledge(calls: Vec<Queued>) {
    let mut panicked = None;
    for call in calls {
        let result = match call.op {
            Op::Refused(why) => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
            _ => Ok(()),
        };
        let called = panic::catch_unwind(AssertUnwindSafe(|| (call.done)(result)));
        panicked = panicked.or(called.err());
    }
    if let Some(payload) = panicked {
        panic::resume_unwind(payload);
    }
}

/// A callback that panics must not prevent the others from receiving the error.
pub(crate) fn refuse(calls: Vec<Queued>, failure: &WalFailure) {
    for call in calls {
        let error = failure.to_io_error();
        let called = panic::catch_unwind(AssertUnwindSafe(|| (call.done)(Err(error))));
        if called.is_err() {
            tracing::error!("a callback panicked on the failure of the log");
        }
    }
}
