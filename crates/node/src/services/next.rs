//! The next values of a sequence, in each mode.

use seqd_api::{Next, NextRequest, Range};
use seqd_idgen::Progression;
use seqd_raft::ProposeError;
use seqd_state::{
    Draw, DrawFrom, NextGrant, Outcome, SequenceCommand, SequenceMode, SequenceName,
    SequenceOutcome, SequenceRecord, ValueRange,
};
use tokio::time::Instant;

use super::error::{RequestError, SequenceError, ServiceError, count_within, unexpected};
use super::missing::Advice;
use super::sequences::{SequenceService, mode_of};
use crate::replica::peek;
use crate::sequences::NextError;

/// The most segments that one request may use: each is a log entry, and the caller waits for all.
const MAX_RANGES: u64 = 256;

/// The most attempts to take a contiguous range of a strict sequence. One is enough, unless others
/// take values of the new pass meanwhile.
const CONTIGUOUS_ATTEMPTS: usize = 8;

/// Ranges, and the distance from one value to the next.
type Values = (Vec<ValueRange>, i64);

/// The fields of a record that every draw needs.
struct DrawLimits {
    mode: SequenceMode,
    progression: Progression,
    next_index: u64,
    segment_max: u64,
}

impl DrawLimits {
    fn of(record: &SequenceRecord) -> Self {
        let definition = &record.definition;
        Self {
            mode: definition.mode,
            progression: definition.progression,
            next_index: record.next_index,
            segment_max: definition.segment.max,
        }
    }

    /// Refuses more values than a request may take.
    fn check(&self, count: u64, contiguous: bool) -> Result<(), RequestError> {
        // A range cannot span two passes or two segments.
        let mut range = self.progression.longest_pass();
        if self.mode == SequenceMode::Segment {
            range = range.min(self.segment_max);
            count_within(Some(count), range.saturating_mul(MAX_RANGES))?;
        }
        if contiguous {
            count_within(Some(count), range)?;
        }
        Ok(())
    }
}

impl SequenceService {
    /// Takes the next values. With `is_listed` the response lists each value, not only ranges.
    pub(crate) async fn next(
        &self,
        name: &SequenceName,
        request: &NextRequest,
        is_listed: bool,
        deadline: Instant,
    ) -> Result<Next, ServiceError> {
        let expand = request.expand.unwrap_or(false);
        let limit = if expand || is_listed {
            u64::from(self.max_count)
        } else {
            NextRequest::MAX_COUNT
        };
        let count = count_within(request.count, limit)?;
        let contiguous = request.contiguous.unwrap_or(false);
        let local = peek(&*self.replica, |state| {
            state.sequence(name).map(DrawLimits::of)
        });
        let permits = |drawn: &DrawLimits| drawn.check(count, contiguous).is_ok();
        // A contiguous range may skip values of a pass, so its position must be current.
        let is_current = |drawn: &DrawLimits| {
            !(contiguous && drawn.mode == SequenceMode::Strict && drawn.progression.cycle())
        };
        let drawn = match local.flatten().filter(permits).filter(is_current) {
            Some(drawn) => drawn,
            // The sequence may have been created or changed a moment ago through another node.
            None => {
                let drawn = DrawLimits::of(&self.current(name, deadline).await?);
                drawn.check(count, contiguous)?;
                drawn
            }
        };
        let (ranges, increment) = match drawn.mode {
            SequenceMode::Strict if contiguous => {
                self.next_contiguous(name, count, &drawn, deadline).await?
            }
            SequenceMode::Strict => self.next_strict(name, count, deadline).await?,
            SequenceMode::Segment => self.next_segment(name, count, contiguous, deadline).await?,
            SequenceMode::Ordered => self.next_ordered(name, count, deadline).await?,
        };
        let ranges = ranges
            .into_iter()
            .map(|ValueRange { first, last, count }| Range { first, last, count });
        Ok(Next::new(
            ranges.collect(),
            increment,
            mode_of(drawn.mode),
            expand,
        ))
    }

    async fn next_strict(
        &self,
        name: &SequenceName,
        count: u64,
        deadline: Instant,
    ) -> Result<Values, ServiceError> {
        let grant = self.grant(name, count, deadline).await?;
        self.metrics.allocated(name.as_str(), grant.count);
        Ok((grant.ranges, grant.increment))
    }

    /// Takes values of a strict sequence in one range. A cycling sequence skips the rest of a pass
    /// that is too short.
    async fn next_contiguous(
        &self,
        name: &SequenceName,
        count: u64,
        drawn: &DrawLimits,
        deadline: Instant,
    ) -> Result<Values, ServiceError> {
        let mut next_index = drawn.next_index;
        for _ in 0..CONTIGUOUS_ATTEMPTS {
            let pass_end = drawn.progression.pass_end(next_index);
            let rest = pass_end.saturating_sub(next_index);
            let skips = drawn.progression.cycle() && (1..count).contains(&rest);
            if skips {
                self.grant(name, rest, deadline).await?;
            }
            let has_effect = skips || next_index != drawn.next_index;
            let grant = match self.grant(name, count, deadline).await {
                // Values were skipped already, so the request is not without effect.
                Err(error) if has_effect && error.code().row().retryable => {
                    let detail = error.to_string();
                    return Err(ServiceError::Propose(ProposeError::OutcomeUnknown {
                        detail,
                    }));
                }
                grant => grant?,
            };
            if grant.ranges.len() == 1 {
                self.metrics.allocated(name.as_str(), grant.count);
                return Ok((grant.ranges, grant.increment));
            }
            next_index = grant.first_index + grant.count;
        }
        Err(SequenceError::NotTogether.into())
    }

    async fn grant(
        &self,
        name: &SequenceName,
        count: u64,
        deadline: Instant,
    ) -> Result<NextGrant, ServiceError> {
        let request = seqd_state::NextRequest {
            name: name.clone(),
            count,
        };
        let command = SequenceCommand::Next(request);
        match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::Next(grant)) => Ok(grant),
            other => Err(unexpected(&other)),
        }
    }

    async fn next_ordered(
        &self,
        name: &SequenceName,
        count: u64,
        deadline: Instant,
    ) -> Result<Values, ServiceError> {
        let from = DrawFrom::Sequence(name.clone());
        let drawn = self.replica.draw(Draw { from, count }, deadline).await;
        let drawn = drawn.map_err(|error| self.advised(error.into(), Advice::Create))?;
        self.metrics.allocated(name.as_str(), count);
        Ok((vec![drawn.range], drawn.increment))
    }

    async fn next_segment(
        &self,
        name: &SequenceName,
        count: u64,
        contiguous: bool,
        deadline: Instant,
    ) -> Result<Values, ServiceError> {
        let served = self.segments.next(name, count, contiguous, deadline).await;
        let served = served.map_err(|error| self.of_buffer(name, error))?;
        Ok((served.ranges, served.increment))
    }

    fn of_buffer(&self, name: &SequenceName, error: NextError) -> ServiceError {
        let name = name.clone();
        match error {
            NextError::NotFound => self.missing(&name, Advice::Create),
            NextError::NoRefill(detail) => SequenceError::NoRefill { name, detail }.into(),
            NextError::Overloaded => {
                ServiceError::overloaded(format!("too many requests wait for {name}"), 100)
            }
            NextError::Refused(refusal) => {
                self.advised(ServiceError::Refused(refusal), Advice::Create)
            }
            NextError::Stopping => ServiceError::Propose(ProposeError::Stopping),
        }
    }
}
