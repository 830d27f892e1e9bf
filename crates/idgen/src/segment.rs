//! The double buffer of one segment sequence on one node: returns indexes from ranges that the
//! cluster has granted, in order, and requests the next range before the current one is used up.
//!
//! The idea and the numbers come from Leaf (Meituan): the next segment is fetched when a tenth of
//! the current one is used, and the size follows the load. The buffer counts indexes; a
//! [`Progression`](crate::Progression) maps them to values. It proposes nothing and waits for
//! nothing: a refill is requested in a return value, and its outcome is reported by a later call.

use std::time::Duration;

use seqd_guards::is_out;

/// Consecutive indexes of a sequence. `first + count` always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexRange {
    /// The first index.
    pub first: u64,
    /// The number of indexes.
    pub count: u64,
}

impl IndexRange {
    /// Returns the index after the last one, saturated at 2^64-1.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// The bounds for the size of a segment, and the time that a segment should last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPolicy {
    min: u64,
    max: u64,
    target: Duration,
}

/// The reason why the bounds are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a segment's bounds are 1 <= min <= max; got min {min}, max {max}")]
pub struct SegmentPolicyError {
    /// The requested smallest size.
    pub min: u64,
    /// The requested largest size.
    pub max: u64,
}

impl SegmentPolicy {
    /// Sizes from `min`, which is the initial size, to `max`. A segment should last `target`.
    pub fn new(min: u64, max: u64, target: Duration) -> Result<Self, SegmentPolicyError> {
        if min == 0 || min > max {
            return Err(SegmentPolicyError { min, max });
        }
        Ok(Self { min, max, target })
    }

    /// Returns the next size after a segment of `size` has lasted `lasted`: twice the size if it
    /// was shorter than the target, the same size up to twice the target, and otherwise half. This
    /// is Leaf's rule.
    fn adapt(&self, size: u64, lasted: Duration) -> u64 {
        let wanted = if lasted < self.target {
            size.saturating_mul(2)
        } else if lasted < self.target.saturating_mul(2) {
            size
        } else {
            size / 2
        };
        wanted.clamp(self.min, self.max)
    }
}

/// A refill to propose. The caller reports its outcome exactly once, by `granted` or
/// `refill_failed`. Until then the buffer requests no other refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillRequest<T> {
    /// The number of indexes to request.
    pub size: u64,
    /// The token of the latest grant that this buffer holds or has used up. It proves that the new
    /// grant continues the run.
    pub after: Option<T>,
}

/// The result of a request for indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take<T> {
    /// The indexes, in increasing order. Each range lies within one grant and therefore within one
    /// pass.
    pub ranges: Vec<IndexRange>,
    /// The number of missing indexes. Request them again after the outcome of the refill is
    /// reported.
    pub missing: u64,
    /// A refill to propose.
    pub refill: Option<RefillRequest<T>>,
}

/// The handling of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The grant is in the buffer.
    Kept,
    /// The grant was discarded: the buffer is closed or full, or the grant is from an older epoch
    /// or out of order. The range stays unused unless the caller returns it.
    Dropped,
}

/// The unused run that can be returned after a `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail<T> {
    /// The token of the latest grant. A tail is accepted only with this token.
    pub token: T,
    /// All contiguous unused indexes that end with that grant.
    pub range: IndexRange,
    /// The part that belongs to the latest grant itself. If the cluster's record began a new run
    /// with that grant, although the indexes are contiguous, only this part is accepted.
    pub latest: IndexRange,
}

#[derive(Clone, Copy, Debug)]
struct Segment<T, E> {
    token: T,
    epoch: E,
    /// The indexes that have not been returned yet.
    unused: IndexRange,
    /// The granted size.
    granted: u64,
    /// The requested size. A grant may be smaller at the end of a pass.
    asked: u64,
    /// The time when its first index was returned.
    opened: Option<Duration>,
}

impl<T, E> Segment<T, E> {
    /// Returns whether the next segment should be fetched.
    fn is_tenth_used(&self) -> bool {
        (self.granted - self.unused.count).saturating_mul(10) >= self.granted
    }
}

/// The latest grant that was kept, even if it is used up.
#[derive(Clone, Copy, Debug)]
struct Latest<T, E> {
    token: T,
    epoch: E,
}

/// The double buffer. `T` is the type of grant tokens, `E` of epochs.
///
/// Invariants:
/// 1. Every returned index is greater than all indexes returned before. No index is returned twice,
///    whatever is granted, lost, late or repeated.
/// 2. After `close` no index is returned, and the tail that `close` returns contains no index that
///    was returned before.
/// 3. No index of an epoch below the highest one seen is returned.
/// 4. At most one refill is in flight.
#[derive(Debug)]
pub struct SegmentBuffer<T, E> {
    policy: SegmentPolicy,
    current: Option<Segment<T, E>>,
    /// Never present without `current`.
    next: Option<Segment<T, E>>,
    latest: Option<Latest<T, E>>,
    /// The size of the refill in flight.
    in_flight: Option<u64>,
    /// The size of the next refill.
    size: u64,
    /// The end of the highest range ever kept.
    high: u64,
    epoch: Option<E>,
    closed: bool,
}

impl<T: Copy, E: Copy + Ord> SegmentBuffer<T, E> {
    /// An empty buffer.
    pub fn new(policy: SegmentPolicy) -> Self {
        Self {
            policy,
            current: None,
            next: None,
            latest: None,
            in_flight: None,
            size: policy.min,
            high: 0,
            epoch: None,
            closed: false,
        }
    }

    /// Takes `count` indexes, or as many as are available. `now` is the monotonic time since any
    /// fixed moment. A closed buffer returns no index and requests no refill.
    pub fn take(&mut self, count: u64, now: Duration) -> Take<T> {
        let mut ranges = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let Some(range) = self.take_from_current(missing, now) else {
                break;
            };
            missing -= range.count;
            ranges.push(range);
        }
        Take {
            ranges,
            missing,
            refill: self.refill(missing),
        }
    }

    /// Reports the granted range of a refill.
    pub fn granted(&mut self, token: T, epoch: E, range: IndexRange) -> Granted {
        let asked = self.in_flight.take().unwrap_or(range.count);
        let fits = range.count > 0 && range.first.checked_add(range.count).is_some();
        let is_closed = self.closed && !is_out!(ClosedKeepsNothing);
        let is_late = range.first < self.high && !is_out!(GrantsRise);
        if is_closed || !fits || is_late || self.is_stale(epoch) {
            return Granted::Dropped;
        }
        self.discard_below_epoch(epoch);
        let slot = match (&self.current, &self.next) {
            (None, _) => &mut self.current,
            (Some(_), None) => &mut self.next,
            (Some(_), Some(_)) => return Granted::Dropped,
        };
        let granted = range.count;
        *slot = Some(Segment {
            token,
            epoch,
            unused: range,
            granted,
            asked,
            opened: None,
        });
        self.latest = Some(Latest { token, epoch });
        self.high = range.end();
        Granted::Kept
    }

    /// Reports that a refill failed or that its outcome is unknown. The next `take` that needs a
    /// refill requests another.
    pub fn refill_failed(&mut self) {
        self.in_flight = None;
    }

    /// Discards everything granted in an epoch below this one, including grants that arrive later.
    pub fn discard_below_epoch(&mut self, epoch: E) {
        if self.is_stale(epoch) {
            return;
        }
        self.epoch = Some(epoch);
        self.latest.take_if(|latest| latest.epoch < epoch);
        self.next.take_if(|segment| segment.epoch < epoch);
        self.current.take_if(|segment| segment.epoch < epoch);
        if self.current.is_none() {
            self.current = self.next.take();
        }
    }

    /// Permanently closes and empties the buffer. Returns the tail that can be returned to the
    /// cluster, or `None` if nothing is unused. The buffer is empty *before* the return is
    /// proposed, so the outcome of the proposal does not matter.
    pub fn close(&mut self) -> Option<Tail<T>> {
        self.closed = true;
        let current = self
            .current
            .take()
            .filter(|segment| segment.unused.count > 0);
        let next = self.next.take();
        let latest = next.or(current)?;
        // A current range that the next one does not continue belongs to another run. Only the
        // latest token is accepted.
        let first = match current {
            Some(current) if current.unused.end() == latest.unused.first => current.unused.first,
            _ => latest.unused.first,
        };
        let range = IndexRange {
            first,
            count: latest.unused.end() - first,
        };
        Some(Tail {
            token: latest.token,
            range,
            latest: latest.unused,
        })
    }

    /// Sets other bounds. A refill in flight keeps its size.
    pub fn set_policy(&mut self, policy: SegmentPolicy) {
        self.policy = policy;
        self.size = self.size.clamp(policy.min, policy.max);
    }

    /// Returns the number of available indexes.
    pub fn available(&self) -> u64 {
        [&self.current, &self.next]
            .into_iter()
            .flatten()
            .map(|segment| segment.unused.count)
            .sum()
    }

    /// Returns whether a refill is in flight.
    pub fn is_refill_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns the size of the next refill, unless more indexes are missing.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn is_stale(&self, epoch: E) -> bool {
        self.epoch.is_some_and(|highest| epoch < highest) && !is_out!(EpochCompared)
    }

    fn take_from_current(&mut self, count: u64, now: Duration) -> Option<IndexRange> {
        let segment = self.current.as_mut()?;
        let opened = *segment.opened.get_or_insert(now);
        let count = count.min(segment.unused.count);
        let range = IndexRange {
            first: segment.unused.first,
            count,
        };
        segment.unused = IndexRange {
            first: range.end(),
            count: segment.unused.count - count,
        };
        if segment.unused.count == 0 {
            self.size = self.policy.adapt(segment.asked, now.saturating_sub(opened));
            self.current = self.next.take();
        }
        Some(range)
    }

    fn refill(&mut self, missing: u64) -> Option<RefillRequest<T>> {
        let needed =
            self.next.is_none() && self.current.as_ref().is_none_or(Segment::is_tenth_used);
        let is_asking = self.in_flight.is_some() && !is_out!(OneRefill);
        if self.closed || is_asking || !needed {
            return None;
        }
        let size = self.size.max(missing).min(self.policy.max);
        self.in_flight = Some(size);
        Some(RefillRequest {
            size,
            after: self.latest.map(|latest| latest.token),
        })
    }
}
