//! The double buffer of one segment sequence on one node: ranges of indexes that the cluster has
//! granted, handed out in order, with the next range fetched before the current one is used up.
//!
//! The idea and the numbers are Leaf's (Meituan): fetch the next segment when a tenth of the
//! current one is used, and let the size follow the load. What is counted here are indexes; the
//! values at them are a [`Progression`](crate::Progression)'s. It proposes nothing and waits for
//! nothing: a refill is requested in a result, and its outcome is reported by a later call.

use std::time::Duration;

use seqd_guards::is_out;

/// Consecutive indexes of a sequence. `first + count` always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexRange {
    /// The first index.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl IndexRange {
    /// The index behind the last one; 2^64-1 for a range that would pass it.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// Bounds for the size of a segment, and how long one should last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPolicy {
    min: u64,
    max: u64,
    target: Duration,
}

/// Why bounds are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a segment's bounds are 1 <= min <= max; got min {min}, max {max}")]
pub struct SegmentPolicyError {
    /// The least size as asked.
    pub min: u64,
    /// The greatest size as asked.
    pub max: u64,
}

impl SegmentPolicy {
    /// Sizes from `min`, which is the first one, to `max`; a segment should last `target`.
    pub fn new(min: u64, max: u64, target: Duration) -> Result<Self, SegmentPolicyError> {
        if min == 0 || min > max {
            return Err(SegmentPolicyError { min, max });
        }
        Ok(Self { min, max, target })
    }

    /// The size to ask for after a segment of `size` has lasted `lasted`: twice as much if that
    /// was too short, the same up to twice the target, else half. Leaf's rule.
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

/// A refill to be proposed. The caller reports its outcome exactly once, by `granted` or
/// `refill_failed`; until then the buffer asks for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillRequest<T> {
    /// How many indexes to ask for.
    pub size: u64,
    /// The token of the latest grant that this buffer holds or has used up, as proof that the new
    /// one goes on from it.
    pub after: Option<T>,
}

/// What a request for indexes gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take<T> {
    /// The indexes, in increasing order. Each range lies within one grant, so within one pass.
    pub ranges: Vec<IndexRange>,
    /// How many are missing. Ask for them again when the refill's outcome is known.
    pub missing: u64,
    /// A refill to propose.
    pub refill: Option<RefillRequest<T>>,
}

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// It is in the buffer.
    Kept,
    /// It was thrown away: the buffer is closed or full, or the grant is of an older epoch or out
    /// of order. The range stays unused unless the caller gives it back.
    Dropped,
}

/// The unused run that can be given back after a `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail<T> {
    /// The token of the latest grant, with which alone a tail is taken back.
    pub token: T,
    /// All unused indexes that lie together and end with that grant.
    pub range: IndexRange,
    /// The part of them that is of that grant itself. Where the cluster's record began a new run
    /// with it, although the indexes lie together, only this part is taken back.
    pub latest: IndexRange,
}

#[derive(Clone, Copy, Debug)]
struct Segment<T, E> {
    token: T,
    epoch: E,
    /// What is not handed out yet.
    unused: IndexRange,
    /// As granted.
    granted: u64,
    /// The requested size; a grant may be shorter at the end of a pass.
    asked: u64,
    /// When the first index of it was handed out.
    opened: Option<Duration>,
}

impl<T, E> Segment<T, E> {
    /// Whether it is time to fetch the next one.
    fn is_tenth_used(&self) -> bool {
        (self.granted - self.unused.count).saturating_mul(10) >= self.granted
    }
}

/// The latest grant that was kept, though perhaps used up.
#[derive(Clone, Copy, Debug)]
struct Latest<T, E> {
    token: T,
    epoch: E,
}

/// The double buffer. `T` is the type of grant tokens, `E` of epochs.
///
/// Invariants:
/// 1. Every index handed out is greater than all that were handed out before. So none comes twice,
///    whatever is granted, lost, late or repeated.
/// 2. After `close` nothing is handed out; what it returned was never handed out.
/// 3. Nothing of an epoch below the highest one seen is handed out.
/// 4. At most one refill is in flight.
#[derive(Debug)]
pub struct SegmentBuffer<T, E> {
    policy: SegmentPolicy,
    current: Option<Segment<T, E>>,
    /// Never there without `current`.
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

    /// Takes `count` indexes, or as many as there are. `now` is monotonic time since any fixed
    /// moment. A closed buffer gives nothing and asks for nothing.
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

    /// A refill's answer has arrived.
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

    /// A refill came to nothing, or its outcome is not known. The next `take` that needs one asks
    /// for another.
    pub fn refill_failed(&mut self) {
        self.in_flight = None;
    }

    /// Throws away what was granted in an epoch below this one, and a late reply of one too.
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

    /// Ends the buffer for good and empties it. What can be given back; `None` if nothing is
    /// unused. The buffer is empty *before* the return is proposed, so its answer does not matter.
    pub fn close(&mut self) -> Option<Tail<T>> {
        self.closed = true;
        let current = self
            .current
            .take()
            .filter(|segment| segment.unused.count > 0);
        let next = self.next.take();
        let latest = next.or(current)?;
        // A range before it that it does not continue is another run; only the latest token
        // gives back.
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

    /// Takes other bounds; a refill in flight keeps its size.
    pub fn set_policy(&mut self, policy: SegmentPolicy) {
        self.policy = policy;
        self.size = self.size.clamp(policy.min, policy.max);
    }

    /// How many indexes it holds.
    pub fn available(&self) -> u64 {
        [&self.current, &self.next]
            .into_iter()
            .flatten()
            .map(|segment| segment.unused.count)
            .sum()
    }

    /// Whether a refill's outcome is awaited.
    pub fn is_refill_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The size that the next refill asks for, unless more than that is missing.
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
