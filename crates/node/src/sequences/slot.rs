//! The slot of one sequence on this node: its buffer, the order of its callers, the refill in
//! flight.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prometheus_client::metrics::counter::Counter;
use seqd_idgen::{IndexRange, Progression, RefillRequest, SegmentBuffer, SegmentPolicy, Tail};
use seqd_net::Lock;
use seqd_raft::ProposeError;
use seqd_state::{Epoch, GrantToken, Refusal, SegmentGrant, SegmentSizes, SequenceRefusal};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::staged::Staged;

/// The reason why a request or a refill returned no values. In each case, no values were issued.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NextError {
    #[error("there is no such sequence")]
    NotFound,
    /// The cluster did not answer the refill in time. If it granted a range, that range is a gap.
    #[error("{0}")]
    NoRefill(String),
    /// Too many requests wait, on this node or for the cluster.
    #[error("too many requests are waiting")]
    Overloaded,
    #[error("{0}")]
    Refused(Refusal),
    #[error("this node is stopping")]
    Stopping,
}

impl From<Refusal> for NextError {
    fn from(refusal: Refusal) -> NextError {
        match refusal {
            Refusal::Sequences(SequenceRefusal::SequenceNotFound { .. }) => NextError::NotFound,
            refusal => NextError::Refused(refusal),
        }
    }
}

impl From<ProposeError> for NextError {
    fn from(error: ProposeError) -> NextError {
        match error {
            ProposeError::Stopping => NextError::Stopping,
            ProposeError::Overloaded { .. } | ProposeError::OverloadedBytes { .. } => {
                NextError::Overloaded
            }
            other => NextError::NoRefill(other.to_string()),
        }
    }
}

/// The result of a request's attempt.
#[derive(Debug)]
pub(super) enum TakeResult {
    /// Its indices, and the number of indices discarded for it.
    Ready(Vec<IndexRange>, u64),
    /// Not enough indices yet: a refill is in flight.
    Missing,
    /// Nothing more: the slot is retired, and the sequence may have another slot.
    Retired,
}

/// The unused indices of a closed slot: its tail, and the staged range before it.
pub(super) type Unused = (Tail<GrantToken>, Option<IndexRange>);

/// The slot was used, so it was not closed.
#[derive(Debug)]
pub(super) struct InUse;

#[derive(Debug)]
struct Inner {
    buffer: SegmentBuffer<GrantToken, Epoch>,
    staged: Staged,
    /// The latest kept grant, as granted. Its staged indices can be returned with its token.
    latest: Option<(GrantToken, IndexRange)>,
    /// The epoch of the staged indices.
    epoch: Epoch,
    /// The sizes that the policy of the buffer has.
    sizes: SegmentSizes,
    error: Option<(Instant, NextError)>,
    is_retired: bool,
}

/// The slot of one sequence.
///
/// The caller that holds `turn` is served next, so requests are answered in their order.
#[derive(Debug)]
pub(super) struct SequenceBuffer {
    inner: Lock<Inner>,
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) waiting: AtomicUsize,
    /// True if a request has used it since the last look.
    is_used: AtomicBool,
    /// Counts the issued values.
    pub(super) allocated: Counter,
    /// Incremented after each refill, whatever its result.
    refilled: watch::Sender<u64>,
}

/// A waiting caller. Dropping this, also when the caller is cancelled, decrements the count.
pub(super) struct Waiting<'a>(&'a SequenceBuffer);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SequenceBuffer {
    pub(super) fn new(
        policy: SegmentPolicy,
        sizes: SegmentSizes,
        epoch: Epoch,
        allocated: Counter,
    ) -> SequenceBuffer {
        let buffer = SegmentBuffer::new(policy);
        let inner = Inner {
            buffer,
            staged: Staged::default(),
            latest: None,
            epoch,
            sizes,
            error: None,
            is_retired: false,
        };
        SequenceBuffer {
            inner: Lock::new(inner),
            turn: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            is_used: AtomicBool::new(true),
            allocated,
            refilled: watch::Sender::new(0),
        }
    }

    /// Counts a caller as waiting; `None` if `limit` callers already wait.
    pub(super) fn enter(&self, limit: usize) -> Option<Waiting<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self);
        (before < limit).then_some(waiting)
    }

    pub(super) fn note_use(&self) {
        // Read first, because all callers share the cache line.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether no request has used it since the last call.
    fn was_unused(&self) -> bool {
        !self.is_used.swap(false, Ordering::Relaxed) && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Receives the ends of refills. Subscribe before checking for values.
    pub(super) fn refills(&self) -> watch::Receiver<u64> {
        self.refilled.subscribe()
    }

    /// Discards the indices of an epoch below the applied one. Returns their number.
    pub(super) fn observe_epoch(&self, epoch: Epoch) -> u64 {
        self.inner.lock().observe_epoch(epoch)
    }

    /// Like [`SequenceBuffer::observe_epoch`]. Also applies the segment sizes of the definition,
    /// which differ if the sequence was changed or re-created.
    pub(super) fn observe(
        &self,
        epoch: Epoch,
        sizes: SegmentSizes,
        policy: fn(&SegmentSizes) -> SegmentPolicy,
    ) -> u64 {
        let mut inner = self.inner.lock();
        if inner.sizes != sizes {
            inner.sizes = sizes;
            inner.buffer.set_policy(policy(&sizes));
        }
        inner.observe_epoch(epoch)
    }

    /// Ends the slot of a deleted sequence: it stays empty, and its waiting callers look the
    /// sequence up again. Returns the number of discarded indices.
    pub(super) fn retire(&self) -> u64 {
        let abandoned = {
            let mut inner = self.inner.lock();
            inner.is_retired = true;
            inner.latest = None;
            let left = inner.buffer.available();
            inner.buffer.close();
            left + inner.staged.clear()
        };
        self.refilled.send_modify(|count| *count += 1);
        abandoned
    }

    /// Takes `count` indices if the slot has them, in one run if `together`. Also returns the
    /// refill to propose, if one is due.
    pub(super) fn take(
        &self,
        count: u64,
        together: bool,
        progression: &Progression,
        now: std::time::Duration,
    ) -> (TakeResult, Option<RefillRequest<GrantToken>>) {
        let mut inner = self.inner.lock();
        if inner.is_retired {
            return (TakeResult::Retired, None);
        }
        let mut refill = None;
        loop {
            if let Some(found) = inner.take_staged(count, together) {
                return (found, refill);
            }
            let missing = if together {
                count
            } else {
                count.saturating_sub(inner.staged.count())
            };
            let taken = inner.buffer.take(missing, now);
            refill = refill.or(taken.refill);
            if taken.ranges.is_empty() {
                return (TakeResult::Missing, refill);
            }
            for range in taken.ranges {
                inner.staged.push(range, progression);
            }
        }
    }

    /// Keeps a granted range. Returns the number of indices discarded with it.
    pub(super) fn granted(&self, grant: &SegmentGrant) -> u64 {
        let range = IndexRange {
            first: grant.first_index,
            count: grant.count,
        };
        let abandoned = {
            let mut inner = self.inner.lock();
            inner.error = None;
            let mut abandoned = 0;
            if grant.epoch > inner.epoch {
                inner.epoch = grant.epoch;
                abandoned = inner.staged.clear();
            }
            match inner.buffer.granted(grant.token, grant.epoch, range) {
                seqd_idgen::Granted::Kept => {
                    inner.latest = Some((grant.token, range));
                    abandoned
                }
                seqd_idgen::Granted::Dropped => abandoned + grant.count,
            }
        };
        self.refilled.send_modify(|count| *count += 1);
        abandoned
    }

    pub(super) fn failed(&self, error: NextError) {
        {
            let mut inner = self.inner.lock();
            inner.buffer.refill_failed();
            inner.error = Some((Instant::now(), error));
        }
        self.refilled.send_modify(|count| *count += 1);
    }

    /// Records that a due refill is not proposed because the last one has just failed.
    pub(super) fn put_off(&self) {
        self.inner.lock().buffer.refill_failed();
    }

    /// Returns whether the sequence must be looked up again.
    pub(super) fn is_retired(&self) -> bool {
        self.inner.lock().is_retired
    }

    /// Clears the error, so that the next caller without values proposes a refill again.
    pub(super) fn forget_error(&self) {
        self.inner.lock().error = None;
    }

    /// The error of the last refill, and its time.
    pub(super) fn error(&self) -> Option<(Instant, NextError)> {
        self.inner.lock().error.clone()
    }

    /// The number of remaining indices, staged and in the buffer, for messages.
    pub(super) fn left(&self) -> u64 {
        let inner = self.inner.lock();
        inner.staged.count() + inner.buffer.available()
    }

    pub(super) async fn settle(&self, deadline: Instant) {
        let mut refills = self.refills();
        while self.inner.lock().buffer.is_refill_in_flight() {
            if timeout_at(deadline, refills.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Ends the slot permanently: its waiting callers look the sequence up again. Returns what can
    /// be given back.
    pub(super) fn close(&self) -> Option<Unused> {
        let unused = self.inner.lock().close();
        self.refilled.send_modify(|count| *count += 1);
        unused
    }

    /// Closes the slot if no request has used it since the last call. A slot with a refill in
    /// flight counts as used: the grant would supersede what is given back.
    pub(super) fn close_if_unused(&self) -> Result<Option<Unused>, InUse> {
        if !self.was_unused() {
            return Err(InUse);
        }
        let mut inner = self.inner.lock();
        if inner.buffer.is_refill_in_flight() {
            return Err(InUse);
        }
        let unused = inner.close();
        drop(inner);
        self.refilled.send_modify(|count| *count += 1);
        Ok(unused)
    }
}

impl Inner {
    fn close(&mut self) -> Option<Unused> {
        let found = match self.buffer.close() {
            Some(tail) => Some((tail, self.staged.ending_at(tail.range.first))),
            None => self.staged_tail().map(|tail| (tail, None)),
        };
        self.latest = None;
        self.staged.clear();
        self.is_retired = true;
        found
    }

    fn observe_epoch(&mut self, epoch: Epoch) -> u64 {
        if epoch <= self.epoch {
            return 0;
        }
        self.epoch = epoch;
        self.latest = None;
        let before = self.buffer.available();
        self.buffer.discard_below_epoch(epoch);
        before - self.buffer.available() + self.staged.clear()
    }

    /// The tail, if everything unused of the latest grant has left the buffer.
    fn staged_tail(&self) -> Option<Tail<GrantToken>> {
        let (token, granted) = self.latest?;
        let range = self.staged.ending_at(granted.end())?;
        let first = range.first.max(granted.first);
        let count = range.end() - first;
        Some(Tail {
            token,
            range,
            latest: IndexRange { first, count },
        })
    }

    fn take_staged(&mut self, count: u64, together: bool) -> Option<TakeResult> {
        if together {
            let (range, abandoned) = self.staged.take_together(count)?;
            return Some(TakeResult::Ready(vec![range], abandoned));
        }
        self.staged
            .take(count)
            .map(|ranges| TakeResult::Ready(ranges, 0))
    }
}
