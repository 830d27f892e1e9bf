//! The segment service: `next` for segment sequences, from this node's buffers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_idgen::{IndexRange, Progression, RefillRequest, SegmentPolicy};
use seqd_net::Lock;
use seqd_state::{
    Command, Epoch, GrantToken, Outcome, Refusal, Revision, SegmentSizes, SequenceCommand,
    SequenceName, SequenceOutcome, SequenceRecord, SequenceRefusal, State, ValueRange,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::slot::{NextError, SequenceBuffer, TakeResult, Unused};
use crate::codes::{OTHER_OUTCOME, words};
use crate::metrics::Metrics;
use crate::replica::{Replica, peek, propose_one};

/// The most callers that may wait for one sequence. Each occupies a connection, and a refill serves
/// thousands of them, so more callers mean that refills do not arrive.
const MAX_WAITING: usize = 4096;

/// The timeout of a refill, after which the next may be proposed.
const ANSWER: Duration = Duration::from_secs(3);

/// For this long after a failed refill, none is proposed ahead of need.
const PUT_OFF: Duration = Duration::from_millis(200);

/// For this long after a failed refill, callers that find no values get its error at once.
const REPEAT_ERROR: Duration = Duration::from_millis(50);

/// The most tails returned in one log entry. A thousand apply in well under a millisecond.
const TAILS_PER_ENTRY: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) ranges: Vec<ValueRange>,
    /// The distance from one value to the next.
    pub(crate) increment: i64,
}

/// The fields of a record that a request needs.
#[derive(Clone, Copy, Debug)]
struct Defined {
    epoch: Epoch,
    progression: Progression,
    sizes: SegmentSizes,
}

impl Defined {
    fn of(record: &SequenceRecord) -> Self {
        Self {
            epoch: record.epoch,
            progression: record.definition.progression,
            sizes: record.definition.segment,
        }
    }
}

pub(crate) struct SegmentBuffers {
    replica: Arc<dyn Replica>,
    metrics: Arc<Metrics>,
    slots: Lock<HashMap<SequenceName, Arc<SequenceBuffer>>>,
    started: Instant,
    stopping: AtomicBool,
}

impl SegmentBuffers {
    pub(crate) fn new(replica: Arc<dyn Replica>, metrics: Arc<Metrics>) -> SegmentBuffers {
        SegmentBuffers {
            replica,
            metrics,
            slots: Lock::default(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Issues `count` values, in one range if `contiguous`, or none.
    pub(crate) async fn next(
        self: &Arc<Self>,
        name: &SequenceName,
        count: u64,
        contiguous: bool,
        deadline: Instant,
    ) -> Result<Served, NextError> {
        loop {
            let (slot, defined) = self.defined_slot(name)?;
            let served = self.next_from(&slot, defined, name, count, contiguous, deadline);
            if let Some(served) = served.await? {
                return Ok(served);
            }
        }
    }

    /// Like [`SegmentBuffers::next`]. Returns `None` if the slot is retired; the next lookup then
    /// does not find it.
    async fn next_from(
        self: &Arc<Self>,
        slot: &Arc<SequenceBuffer>,
        defined: Defined,
        name: &SequenceName,
        count: u64,
        contiguous: bool,
        deadline: Instant,
    ) -> Result<Option<Served>, NextError> {
        slot.note_use();
        let _waiting = slot.enter(MAX_WAITING).ok_or(NextError::Overloaded)?;
        let mut known = Some(defined);
        let _turn = match slot.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                known = None;
                let turn = timeout_at(deadline, slot.turn.lock()).await;
                turn.map_err(|_| no_refill(slot))?
            }
        };
        // Subscribed to only if the caller must wait.
        let mut refills = None;
        let mut looked_at = None;
        loop {
            if let Some(refills) = &mut refills {
                watch::Receiver::borrow_and_update(refills);
            }
            // Looked up after each wait, since an advance may have voided the granted range.
            let known = known.take().or_else(|| self.defined(name));
            let defined = known.ok_or(NextError::NotFound)?;
            let progression = defined.progression;
            let voided = slot.observe(defined.epoch, defined.sizes, policy);
            self.metrics.abandoned(voided);
            if self.stopping.load(Ordering::Acquire) {
                return Err(NextError::Stopping);
            }
            let now = self.started.elapsed();
            let (found, refill) = slot.take(count, contiguous, &progression, now);
            let is_missing = matches!(found, TakeResult::Missing);
            if let Some(refill) = refill
                && let Err(error) = self.refill(name, slot, refill, count, is_missing)
            {
                let looked = self.still_true(name, slot, error, &mut looked_at, deadline);
                looked.await?;
                continue;
            }
            match found {
                TakeResult::Ready(ranges, abandoned) => {
                    self.metrics.abandoned(abandoned);
                    slot.allocated.inc_by(count);
                    let served = match values(&ranges, &progression) {
                        Some(served) => served,
                        None => self.values_beyond(name, slot, &ranges, deadline).await?,
                    };
                    return Ok(Some(served));
                }
                TakeResult::Retired => return Ok(None),
                TakeResult::Missing => {}
            }
            let Some(refills) = &mut refills else {
                refills = Some(slot.refills());
                continue;
            };
            match timeout_at(deadline, refills.changed()).await {
                Err(_) => return Err(no_refill(slot)),
                Ok(_) if slot.is_retired() => return Ok(None),
                Ok(_) => {
                    if let Err(error) = give_up_on_error(name, slot, count) {
                        let looked = self.still_true(name, slot, error, &mut looked_at, deadline);
                        looked.await?;
                    }
                }
            }
        }
    }

    /// Returns the error of a refill if it still applies to a caller that may have arrived after
    /// the refill was proposed: an exhausted sequence continues after its end has moved.
    /// `looked_at` is the definition that an earlier call has read.
    async fn still_true(
        &self,
        name: &SequenceName,
        slot: &SequenceBuffer,
        error: NextError,
        looked_at: &mut Option<Revision>,
        deadline: Instant,
    ) -> Result<(), NextError> {
        let is_exhausted = matches!(
            &error,
            NextError::Refused(Refusal::Sequences(
                SequenceRefusal::SequenceExhausted { .. }
            ))
        );
        if !is_exhausted || self.replica.read(deadline).await.is_err() {
            return Err(error);
        }
        let record = peek(self.replica.as_ref(), |state| {
            let record = state.sequence(name)?;
            Some((record.remaining() == Some(0), record.revision))
        });
        let (is_empty, revision) = record.flatten().ok_or(NextError::NotFound)?;
        if is_empty || *looked_at == Some(revision) {
            return Err(error);
        }
        *looked_at = Some(revision);
        slot.forget_error();
        Ok(())
    }

    /// The values of ranges beyond the end that this node has applied: the leader granted them
    /// after the end had moved, and this node has not applied that change yet.
    async fn values_beyond(
        &self,
        name: &SequenceName,
        slot: &SequenceBuffer,
        ranges: &[IndexRange],
        deadline: Instant,
    ) -> Result<Served, NextError> {
        let read = self.replica.read(deadline).await;
        read.map_err(|_| no_refill(slot))?;
        let defined = self.defined(name).ok_or(NextError::NotFound)?;
        values(ranges, &defined.progression).ok_or(NextError::NotFound)
    }

    /// Discards the buffered ranges of an epoch below `epoch`, before this node applies the log
    /// entry.
    pub(crate) fn discard(&self, name: &SequenceName, epoch: Epoch) {
        let slots = self.slots.lock();
        if let Some(slot) = slots.get(name) {
            self.metrics.abandoned(slot.observe_epoch(epoch));
        }
    }

    /// Empties all buffers and returns their tails. First waits for refills in flight, because a
    /// grant would supersede the returned tail.
    pub(crate) async fn stop(&self, deadline: Instant) {
        self.stopping.store(true, Ordering::Release);
        let slots = std::mem::take(&mut *self.slots.lock());
        let mut tails = Vec::new();
        for (name, slot) in slots {
            slot.settle(deadline).await;
            tails.extend(slot.close().map(|unused| tail_of(name, unused)));
        }
        give_back(self.replica.as_ref(), tails, deadline).await;
    }

    /// Empties the buffers that were not used since the last call, and returns their tails. The
    /// next request for such a sequence begins another buffer.
    pub(crate) async fn return_unused(&self, deadline: Instant) {
        let mut tails = Vec::new();
        // Closed before another buffer can begin, so that the values of this node increase.
        self.slots.lock().retain(|name, slot| {
            let Ok(unused) = slot.close_if_unused() else {
                return true;
            };
            tails.extend(unused.map(|unused| tail_of(name.clone(), unused)));
            false
        });
        let replica = Arc::clone(&self.replica);
        // A task of its own, because a stop cancels this call after the buffers are empty.
        let returned =
            tokio::spawn(async move { give_back(replica.as_ref(), tails, deadline).await });
        let _ = returned.await;
    }

    fn defined(&self, name: &SequenceName) -> Option<Defined> {
        let look = |state: &State| state.sequence(name).map(Defined::of);
        peek(self.replica.as_ref(), look).flatten()
    }

    #[cfg(test)]
    pub(super) fn slot(&self, name: &SequenceName) -> Result<Arc<SequenceBuffer>, NextError> {
        self.defined_slot(name).map(|(slot, _)| slot)
    }

    /// The slot of a sequence, and its definition.
    fn defined_slot(
        &self,
        name: &SequenceName,
    ) -> Result<(Arc<SequenceBuffer>, Defined), NextError> {
        let defined = self.defined(name);
        let mut slots = self.slots.lock();
        // Looked up again under the lock, so that the slot of a re-created sequence is not retired.
        let Some(defined) = defined.or_else(|| self.defined(name)) else {
            // A deleted sequence leaves no state on this node, and no waiting callers.
            if let Some(slot) = slots.remove(name) {
                self.metrics.abandoned(slot.retire());
            }
            return Err(NextError::NotFound);
        };
        if let Some(slot) = slots.get(name) {
            return Ok((Arc::clone(slot), defined));
        }
        let Defined { epoch, sizes, .. } = defined;
        let allocated = self.metrics.allocated_by(name.as_str());
        let slot = Arc::new(SequenceBuffer::new(policy(&sizes), sizes, epoch, allocated));
        slots.insert(name.clone(), Arc::clone(&slot));
        Ok((slot, defined))
    }

    fn refill(
        self: &Arc<Self>,
        name: &SequenceName,
        slot: &Arc<SequenceBuffer>,
        refill: RefillRequest<GrantToken>,
        count: u64,
        is_missing: bool,
    ) -> Result<(), NextError> {
        let failed_since = slot.error().map(|(at, _)| at.elapsed());
        let pause = if is_missing { REPEAT_ERROR } else { PUT_OFF };
        if failed_since.is_some_and(|since| since < pause) {
            slot.put_off();
            // The error of the last refill is recent enough for this caller.
            return if is_missing {
                give_up_on_error(name, slot, count)
            } else {
                Ok(())
            };
        }
        let (segments, name, slot) = (Arc::clone(self), name.clone(), Arc::clone(slot));
        // A task of its own, which outlives a cancelled caller, so that the grant is kept.
        tokio::spawn(async move {
            let started = Instant::now();
            let command = Command::Sequences(SequenceCommand::GrantSegment {
                name,
                size: refill.size,
                after: refill.after,
            });
            let replica = segments.replica.as_ref();
            let error = match propose_one(replica, command, started + ANSWER).await {
                Ok(Outcome::Sequences(SequenceOutcome::SegmentGranted(grant))) => {
                    segments.metrics.refilled(true, started.elapsed());
                    segments.metrics.abandoned(slot.granted(&grant));
                    return;
                }
                Ok(Outcome::Refused(refusal)) => refusal.into(),
                Ok(other) => {
                    NextError::NoRefill(format!("an outcome of another command: {other:?}"))
                }
                Err(error) => error.into(),
            };
            segments.metrics.refilled(false, started.elapsed());
            slot.failed(error);
        });
        Ok(())
    }
}

#[expect(
    clippy::expect_used,
    reason = "both bounds are made to be at least 1 and in order"
)]
fn policy(sizes: &SegmentSizes) -> SegmentPolicy {
    let min = sizes.min.max(1);
    let target = Duration::from_millis(sizes.target_ms);
    SegmentPolicy::new(min, sizes.max.max(min), target).expect("1 <= min <= max")
}

fn values(ranges: &[IndexRange], progression: &Progression) -> Option<Served> {
    let one = |range: &IndexRange| {
        Some(ValueRange {
            first: progression.value_at(range.first)?,
            last: progression.value_at(range.end().checked_sub(1)?)?,
            count: range.count,
        })
    };
    let ranges = ranges.iter().map(one).collect::<Option<Vec<_>>>()?;
    Some(Served {
        ranges,
        increment: progression.increment(),
    })
}

fn no_refill(slot: &SequenceBuffer) -> NextError {
    NextError::NoRefill(match slot.error() {
        Some((_, error)) => error.to_string(),
        None => "the next range of the sequence did not arrive in time".to_owned(),
    })
}

/// After a refill: returns an error if the refill failed; otherwise the caller continues to wait.
fn give_up_on_error(
    name: &SequenceName,
    slot: &SequenceBuffer,
    count: u64,
) -> Result<(), NextError> {
    match slot.error() {
        None => Ok(()),
        Some((
            _,
            NextError::Refused(Refusal::Sequences(SequenceRefusal::SequenceExhausted { .. })),
        )) => {
            let refusal = Refusal::Sequences(SequenceRefusal::SequenceExhausted {
                name: name.clone(),
                asked: count,
                remaining: slot.left(),
            });
            Err(NextError::Refused(refusal))
        }
        Some((_, error)) => Err(error),
    }
}

struct Tail {
    name: SequenceName,
    token: GrantToken,
    /// The possible first indices, that of the longest tail last.
    starts: Vec<u64>,
}

fn tail_of(name: SequenceName, (tail, before): Unused) -> Tail {
    let starts = [before.map(|range| range.first), Some(tail.range.first)];
    let mut starts: Vec<u64> = starts.into_iter().flatten().collect();
    starts.push(tail.latest.first);
    starts.dedup();
    starts.reverse();
    Tail {
        name,
        token: tail.token,
        starts,
    }
}

/// Returns tails, many per log entry. If the record's run is shorter than the adjacent ranges here,
/// tries a shorter tail. The buffers are already empty, so no outcome changes them.
async fn give_back(replica: &dyn Replica, mut tails: Vec<Tail>, deadline: Instant) {
    while !tails.is_empty() {
        let mut shorter = Vec::new();
        for chunk in tails.chunks_mut(TAILS_PER_ENTRY) {
            let commands = chunk.iter_mut().filter_map(|tail| {
                let first_unused = tail.starts.pop()?;
                let (name, token) = (tail.name.clone(), tail.token);
                Some(Command::Sequences(SequenceCommand::ReturnTail {
                    name,
                    token,
                    first_unused,
                }))
            });
            let outcomes = match replica.propose(commands.collect(), deadline).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    tracing::warn!(
                        "{} sequences lose their buffered values: {error}",
                        chunk.len()
                    );
                    continue;
                }
            };
            for (tail, outcome) in chunk.iter_mut().zip(outcomes) {
                match outcome {
                    Outcome::Sequences(SequenceOutcome::TailReturned { .. }) => {}
                    Outcome::Refused(Refusal::Sequences(SequenceRefusal::TailOutsideRun {
                        ..
                    })) if !tail.starts.is_empty() => {
                        shorter.push(Tail {
                            name: tail.name.clone(),
                            token: tail.token,
                            starts: std::mem::take(&mut tail.starts),
                        });
                    }
                    other => {
                        let why = match other {
                            Outcome::Refused(refusal) => words(&refusal),
                            _ => OTHER_OUTCOME.to_owned(),
                        };
                        let sequence = tail.name.as_str();
                        tracing::info!(sequence, why, "the unused end of a range was not returned");
                    }
                }
            }
        }
        tails = shorter;
    }
}
