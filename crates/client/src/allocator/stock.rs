//! The values in memory: the current segment, the next one, and the callers that wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use seqd_api::{Grant, GrantRequest};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::error::AllocateError;
use super::lane::{Draw, Lane, Values};
use super::options::AllocatorOptions;
use super::{AllocatorStatus, Closed};
use crate::error::Error;

/// A segment and the grant that names it.
#[derive(Clone, Copy, Debug)]
struct HeldSegment {
    grant: u128,
    values: Values,
}

/// The segments that are not in the lane, protected by a lock.
#[derive(Debug)]
struct Shelf {
    current: Option<HeldSegment>,
    /// The time when the current segment was installed.
    opened: Instant,
    next: Option<HeldSegment>,
    /// The latest grant that was kept, and its last value.
    latest: Option<(u128, i64)>,
    is_closed: bool,
}

/// The values that can be returned at a close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// The grant to name. `None` if nothing is unused.
    pub(super) grant: Option<u128>,
    /// The unused values that end with that grant, and how many of them belong to it.
    pub(super) unused: u64,
    pub(super) of_grant: u64,
    /// Unused values of another run, which are lost.
    pub(super) lost: u64,
}

/// The outcome of the last request for a segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) error: Option<AllocateError>,
    /// `true` if a wait does not help.
    pub(super) is_permanent: bool,
}

#[derive(Debug)]
pub(super) struct Stock {
    lane: Lane<AtomicU64>,
    shelf: Mutex<Shelf>,
    options: AllocatorOptions,
    made_in: forkguard::Guard,
    /// The largest number of values that a waiting caller still needs.
    missing: AtomicU64,
    abandoned: AtomicU64,
    /// Wakes the keeper: a tenth of the segment is used, or a caller waits.
    pub(super) wake: Notify,
    pub(super) outcome: watch::Sender<Outcome>,
    /// The deadline for the return of unused values. `None` until the allocator is closing.
    pub(super) closing: watch::Sender<Option<Instant>>,
    pub(super) closed: watch::Sender<Option<Closed>>,
}

impl Stock {
    pub(super) fn new(options: AllocatorOptions) -> Self {
        Self {
            lane: Lane::new(),
            shelf: Mutex::new(Shelf {
                current: None,
                opened: Instant::now(),
                next: None,
                latest: None,
                is_closed: false,
            }),
            options,
            made_in: forkguard::new(),
            missing: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            wake: Notify::new(),
            outcome: watch::Sender::default(),
            closing: watch::Sender::default(),
            closed: watch::Sender::default(),
        }
    }

    /// Returns whether this process is a fork of the process that created the stock. A fork has a
    /// copy of the values, so it must not draw any.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.made_in.clone().detected_fork()
    }

    /// Draws one value from memory. `None` if there is none at the moment.
    #[inline]
    pub(super) fn draw_one(&self) -> Result<Option<i64>, AllocateError> {
        if self.is_forked() {
            return Err(AllocateError::Forked);
        }
        match self.lane.draw_one() {
            Some((value, false)) => Ok(Some(value)),
            Some((value, true)) => {
                self.wake.notify_one();
                Ok(Some(value))
            }
            None => Ok(self.draw_from_next(1)?.map(|values| values.first)),
        }
    }

    /// Draws up to `count` values from memory. `None` if there are none at the moment.
    #[inline]
    pub(super) fn draw(&self, count: u32) -> Result<Option<Values>, AllocateError> {
        if self.is_forked() {
            return Err(AllocateError::Forked);
        }
        match self.lane.draw(count) {
            Some(Draw { values, is_due }) => {
                if is_due {
                    self.wake.notify_one();
                }
                Ok(Some(values))
            }
            None => self.draw_from_next(count),
        }
    }

    /// Makes the next segment the current one, and draws from it.
    #[cold]
    fn draw_from_next(&self, count: u32) -> Result<Option<Values>, AllocateError> {
        let mut shelf = self.shelf();
        self.lane
            .settle(shelf.current.map_or(0, |held| held.values.count));
        if shelf.is_closed {
            return Err(AllocateError::Closed);
        }
        // Another thread may have replaced the segment.
        let mut drawn = self.lane.draw(count);
        if drawn.is_none()
            && let Some(next) = shelf.next.take()
        {
            self.install(&mut shelf, next);
            drawn = self.lane.draw(count);
        }
        drop(shelf);
        if drawn.is_none_or(|drawn| drawn.is_due) {
            self.wake.notify_one();
        }
        Ok(drawn.map(|drawn| drawn.values))
    }

    fn install(&self, shelf: &mut Shelf, next: HeldSegment) {
        let former = shelf.current.map_or(0, |held| held.values.count);
        let tenth = next.values.count.div_ceil(10) - 1;
        self.lane.install(next.values, tenth, former);
        shelf.current = Some(next);
        shelf.opened = Instant::now();
    }

    /// Draws up to `count` values, and waits for them until the deadline.
    pub(super) async fn draw_by(
        &self,
        count: u32,
        deadline: Instant,
    ) -> Result<Values, AllocateError> {
        loop {
            // Subscribed before the draw, so that no outcome is missed.
            let mut outcomes = self.outcome.subscribe();
            outcomes.mark_unchanged();
            if let Some(values) = self.draw(count)? {
                return Ok(values);
            }
            let last = outcomes.borrow().clone();
            if last.is_permanent
                && let Some(error) = last.error
            {
                return Err(error);
            }
            self.missing.fetch_max(count.into(), Ordering::Relaxed);
            self.wake.notify_one();
            if !matches!(timeout_at(deadline, outcomes.changed()).await, Ok(Ok(()))) {
                let error = self.outcome.borrow().error.clone();
                return Err(error.unwrap_or(AllocateError::Unavailable { why: None }));
            }
        }
    }

    /// Returns the request for a segment, if one should be fetched.
    pub(super) fn refill(&self) -> Option<GrantRequest> {
        let shelf = self.shelf();
        if shelf.is_closed || shelf.next.is_some() {
            return None;
        }
        let missing = self.missing.swap(0, Ordering::Relaxed);
        let size = match &shelf.current {
            None => self
                .options
                .size(self.options.min, 0, shelf.opened.elapsed(), missing),
            Some(held) => {
                let count = held.values.count;
                let used = self.lane.drawn(count);
                if used.saturating_mul(10) < count {
                    return None;
                }
                self.options
                    .size(count, used, shelf.opened.elapsed(), missing)
            }
        };
        Some(GrantRequest {
            size: Some(size),
            after: shelf
                .latest
                .map(|(grant, _)| grant)
                .filter(|grant| *grant != NO_GRANT),
        })
    }

    /// Keeps a granted segment and wakes the callers that wait.
    pub(super) fn granted(&self, grant: &Grant) -> Result<(), AllocateError> {
        let values = checked(grant)?;
        let mut shelf = self.shelf();
        if let Some((_, before)) = shelf.latest {
            let is_beyond = if values.increment > 0 {
                values.first > before
            } else {
                values.first < before
            };
            if !is_beyond {
                self.abandoned.fetch_add(values.count, Ordering::Relaxed);
                return Err(AllocateError::OutOfOrder {
                    first: grant.first,
                    last: grant.last,
                    before,
                    hint: "a sequence that cycles repeats its values and has no allocator",
                });
            }
        }
        shelf.latest = Some((grant.grant, grant.last));
        shelf.next = Some(HeldSegment {
            grant: grant.grant,
            values,
        });
        drop(shelf);
        self.outcome.send_replace(Outcome::default());
        Ok(())
    }

    /// Reports a failed request to the callers that wait.
    pub(super) fn failed(&self, error: AllocateError, is_permanent: bool) {
        self.outcome.send_replace(Outcome {
            error: Some(error),
            is_permanent,
        });
    }

    /// Counts a segment of this size that may have been granted and is never used.
    pub(super) fn abandon(&self, size: u64) {
        self.abandoned.fetch_add(size, Ordering::Relaxed);
    }

    /// Discards the latest grant, which the cluster does not accept as the predecessor of another.
    /// Returns whether there was a grant to discard.
    pub(super) fn forget_grant(&self) -> bool {
        let mut shelf = self.shelf();
        let Some((grant, _)) = &mut shelf.latest else {
            return false;
        };
        let is_new = *grant != NO_GRANT;
        *grant = NO_GRANT;
        is_new
    }

    /// Permanently stops draws, and returns the values that were not drawn.
    pub(super) fn seal(&self) -> Tail {
        let mut shelf = self.shelf();
        shelf.is_closed = true;
        let current = shelf.current.take();
        let count = current.map_or(0, |held| held.values.count);
        let drawn = self.lane.install(Values::NONE, 0, count);
        let next = shelf.next.take();
        drop(shelf);
        // Wakes the callers that wait, so that they fail.
        self.outcome.send_modify(|_| ());
        tail(current.map(|held| (held, count - drawn)), next)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Begins to close, unless that has begun.
    pub(super) fn begin_to_close(&self, deadline: Instant) {
        self.closing.send_if_modified(|until| {
            let is_first = until.is_none();
            *until = until.or(Some(deadline));
            is_first
        });
    }

    /// Waits until the allocator is closing, and returns the deadline for the return of values.
    pub(super) async fn until_closing(&self) -> Instant {
        let mut closing = self.closing.subscribe();
        match closing.wait_for(Option::is_some).await {
            Ok(until) => until.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    pub(super) fn status(&self) -> AllocatorStatus {
        let shelf = self.shelf();
        let current = shelf.current.map_or(0, |held| {
            held.values.count - self.lane.drawn(held.values.count)
        });
        let next = shelf.next.map_or(0, |held| held.values.count);
        drop(shelf);
        AllocatorStatus {
            available: current + next,
            abandoned: self.abandoned.load(Ordering::Relaxed),
            error: self.outcome.borrow().error.clone(),
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No grant of a cluster has this name: it would not pass the check of its seal.
const NO_GRANT: u128 = 0;

fn checked(grant: &Grant) -> Result<Values, AllocateError> {
    let values = Values {
        first: grant.first,
        increment: grant.increment,
        count: grant.count,
    };
    let is_sized = (1..=GrantRequest::MAX_SIZE).contains(&values.count) && values.increment != 0;
    let steps = i128::from(values.increment) * (i128::from(values.count) - 1);
    if is_sized && i128::from(grant.first) + steps == i128::from(grant.last) {
        return Ok(values);
    }
    let reason = format!(
        "a segment from {} to {} with increment {} does not have {} values",
        grant.first, grant.last, grant.increment, grant.count
    );
    Err(AllocateError::Refused(Box::new(Error::BadAnswer {
        endpoint: "the cluster".to_owned(),
        status: 200,
        reason,
    })))
}

/// The values to return: those of the next segment, and those of the current one if they precede
/// it directly.
fn tail(current: Option<(HeldSegment, u64)>, next: Option<HeldSegment>) -> Tail {
    let current = current.filter(|(_, unused)| *unused > 0);
    match (current, next) {
        (None, None) => Tail::default(),
        (Some((held, unused)), None) => Tail {
            grant: Some(held.grant),
            unused,
            of_grant: unused,
            lost: 0,
        },
        (current, Some(next)) => {
            let of_grant = next.values.count;
            let before = current.map_or(0, |(_, unused)| unused);
            let is_adjacent = current.is_some_and(|(held, _)| {
                held.values.last().checked_add(held.values.increment) == Some(next.values.first)
            });
            let (unused, lost) = if is_adjacent {
                (before + of_grant, 0)
            } else {
                (of_grant, before)
            };
            Tail {
                grant: Some(next.grant),
                unused,
                of_grant,
                lost,
            }
        }
    }
}
