//! The windows from which a leader draws ordered values and timestamps, without the log.
//!
//! The log grants a window to the leader of a term; a draw takes the next values of it. The caller
//! confirms the leadership before each draw, after the request has arrived. `docs/ORDERED.md` has
//! the argument.
//!
//! Invariants:
//! - Windows belong to one term. Another term drops them all, also if the same node leads again.
//! - A window is used only after its grant is applied, and only if the grant was proposed in the
//!   term of the windows.
//! - A window is void once the applied record of its sequence has another epoch, or a run that does
//!   not contain the window.
//! - A value is drawn once: the next index of a window, and the last timestamp, only rise.

use std::collections::BTreeMap;

use seqd_guards::is_out;
use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::check::check_count;
use crate::cluster::commands::{ClusterCommand, ClusterOutcome};
use crate::cluster::timestamps::MAX_TIMESTAMPS_AHEAD_MS;
use crate::domains::{Command, Outcome, Refusal};
use crate::newtypes::{ClusterMs, Epoch, GrantToken, SequenceName};
use crate::sequences::commands::{MAX_STRICT_COUNT, ValueRange};
use crate::sequences::commands::{SegmentGrant, SequenceCommand, SequenceOutcome, SequenceRefusal};
use crate::sequences::definition::{MAX_GRANT_SIZE, SequenceMode};
use crate::sequences::record::SequenceRecord;
use crate::state::State;

/// The bits of a timestamp below its milliseconds: a counter.
pub const TIMESTAMP_COUNTER_BITS: u32 = 18;

/// The largest number of timestamps in one draw: fewer than one millisecond has.
pub const MAX_TIMESTAMPS: u64 = 100_000;

const _: () = assert!(MAX_TIMESTAMPS < 1 << TIMESTAMP_COUNTER_BITS);

/// The largest draw of timestamps that may use the last quarter of the permitted lead over the
/// clock. More requests than a node serves in a millisecond would be needed to use it up with such
/// draws, so clients with larger draws exclude no others.
const SMALL_TIMESTAMPS: u64 = 1000;

/// The smallest window that a leader requests. Grants of a rarely used sequence stay small, because
/// the rest of a window is lost if the leader fails.
const MIN_WINDOW: u64 = 1024;

/// The largest window that a leader requests unless a single draw needs more: the values of a
/// second at the highest rate that one leader can serve.
const MAX_WINDOW: u64 = 1 << 24;

/// The source of a draw.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DrawFrom {
    Sequence(SequenceName),
    Timestamps,
}

/// A request for the next values, all of them or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    pub from: DrawFrom,
    pub count: u64,
}

/// The values of one request, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    pub range: ValueRange,
    pub increment: i64,
}

/// The result of a draw that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawResult {
    Drawn(Drawn),
    /// The windows do not have enough values. See [`Windows::wanted`].
    Short,
}

/// The windows of one term. Empty at the beginning of a term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Windows {
    term: u64,
    sequences: BTreeMap<SequenceName, Window>,
    timestamps: Option<Timestamps>,
}

/// Granted indices of a sequence that were not drawn yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Window {
    epoch: Epoch,
    token: GrantToken,
    next: u64,
    end: u64,
    /// The size of the latest grant.
    size: u64,
    granted_at: ClusterMs,
    drawn_since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Timestamps {
    /// The next timestamp is this one or a higher one.
    next: u64,
    granted: WallMs,
}

impl Window {
    fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Returns whether the window is still valid according to the applied record.
    fn is_valid(&self, record: &SequenceRecord) -> bool {
        let contains = |start: u64| start <= self.next && self.end <= record.next_index;
        self.epoch == record.epoch && record.run.is_some_and(|run| contains(run.start))
    }

    /// The size of the next grant: the number of values that were drawn per second since the last
    /// grant. If that grant is less than a second old, twice its size, so that a few requests do
    /// not cause a large window.
    fn next_size(&self, now: ClusterMs) -> u64 {
        let elapsed_ms = now.0.saturating_sub(self.granted_at.0);
        let size = if elapsed_ms < 1000 {
            self.size.saturating_mul(2)
        } else {
            let a_second = u128::from(self.drawn_since) * 1000 / u128::from(elapsed_ms);
            u64::try_from(a_second).unwrap_or(MAX_WINDOW)
        };
        size.clamp(MIN_WINDOW, MAX_WINDOW)
    }
}

impl Windows {
    /// Begins a term and drops all windows of earlier terms. Returns `false`, and changes nothing,
    /// if a later term has begun.
    #[must_use]
    pub fn begin(&mut self, term: u64) -> bool {
        if self.term < term && !is_out!(WindowsOfOneTerm) {
            *self = Self::default();
        }
        let is_latest = self.term <= term;
        self.term = self.term.max(term);
        is_latest
    }

    /// Draws values in the term of [`Windows::begin`]. `now` is the wall-clock time of a majority.
    ///
    /// # Errors
    /// The refusal that the request gets.
    pub fn draw(&mut self, state: &State, draw: &Draw, now: WallMs) -> Result<DrawResult, Refusal> {
        match &draw.from {
            DrawFrom::Sequence(name) => Ok(self.draw_of(state, name, draw.count)?),
            DrawFrom::Timestamps => Ok(self.draw_timestamps(state, draw.count, now)?),
        }
    }

    fn draw_of(
        &mut self,
        state: &State,
        name: &SequenceName,
        count: u64,
    ) -> Result<DrawResult, SequenceRefusal> {
        let record = ordered(state, name)?;
        check_count(count, MAX_STRICT_COUNT)?;
        let window = self.sequences.get_mut(name);
        let window = window.filter(|window| window.is_valid(record) || is_out!(VoidWindowUnused));
        let left = window.as_ref().map_or(0, |window| window.left());
        let progression = &record.definition.progression;
        let (Some(window), true) = (window, left >= count) else {
            let ungranted = record.remaining().unwrap_or(u64::MAX);
            let remaining = left.saturating_add(ungranted);
            if remaining < count {
                return Err(SequenceRefusal::SequenceExhausted {
                    name: name.clone(),
                    asked: count,
                    remaining,
                });
            }
            return Ok(DrawResult::Short);
        };
        let end = window.next + count;
        let bounds = progression
            .value_at(window.next)
            .zip(progression.value_at(end - 1));
        let Some((first, last)) = bounds else {
            return Ok(DrawResult::Short);
        };
        window.next = end;
        window.drawn_since = window.drawn_since.saturating_add(count);
        let range = ValueRange { first, last, count };
        let increment = progression.increment();
        Ok(DrawResult::Drawn(Drawn { range, increment }))
    }

    fn draw_timestamps(
        &mut self,
        state: &State,
        count: u64,
        now: WallMs,
    ) -> Result<DrawResult, SequenceRefusal> {
        check_count(count, MAX_TIMESTAMPS)?;
        let Some(timestamps) = &mut self.timestamps else {
            return Ok(DrawResult::Short);
        };
        // A restored cluster begins past the timestamps of the old one.
        if state.timestamp_bound() < timestamps.granted {
            return Ok(DrawResult::Short);
        }
        let first = timestamps.first(now);
        let last = first + (count - 1);
        if last >> TIMESTAMP_COUNTER_BITS > timestamps.granted.0 {
            return Ok(DrawResult::Short);
        }
        timestamps.next = last + 1;
        let [first, last] = [first, last].map(u64::cast_signed);
        let range = ValueRange { first, last, count };
        let increment = 1;
        Ok(DrawResult::Drawn(Drawn { range, increment }))
    }

    /// The milliseconds by which the clock must advance before `count` timestamps can be drawn: 0,
    /// unless they would be more than `MAX_TIMESTAMPS_AHEAD_MS` ahead of it, or three quarters of
    /// that for a draw of more than 1,000 timestamps.
    #[must_use]
    pub fn timestamps_wait_ms(&self, state: &State, count: u64, now: WallMs) -> u64 {
        let first = match &self.timestamps {
            Some(timestamps) => timestamps.first(now),
            None => (state.timestamp_bound().0 + 1) << TIMESTAMP_COUNTER_BITS,
        };
        let last_ms = first.saturating_add(count.saturating_sub(1)) >> TIMESTAMP_COUNTER_BITS;
        let most_ahead_ms = if count > SMALL_TIMESTAMPS && !is_out!(SmallDrawsHaveLead) {
            MAX_TIMESTAMPS_AHEAD_MS / 4 * 3
        } else {
            MAX_TIMESTAMPS_AHEAD_MS
        };
        last_ms.saturating_sub(now.0.saturating_add(most_ahead_ms))
    }

    /// The command whose grant makes a draw possible; `None` if it is possible already. A draw of 0
    /// values represents the draws of the next second: the command is due once half of the window
    /// is used.
    #[must_use]
    pub fn wanted(
        &self,
        state: &State,
        draw: &Draw,
        (now, cluster_ms): (WallMs, ClusterMs),
    ) -> Option<Command> {
        match &draw.from {
            DrawFrom::Sequence(name) => self.wanted_of(state, name, draw.count, cluster_ms),
            DrawFrom::Timestamps => self.wanted_timestamps(state, draw.count, now),
        }
    }

    fn wanted_of(
        &self,
        state: &State,
        name: &SequenceName,
        count: u64,
        now: ClusterMs,
    ) -> Option<Command> {
        let record = ordered(state, name).ok()?;
        let window = self
            .sequences
            .get(name)
            .filter(|window| window.is_valid(record));
        let left = window.map_or(0, Window::left);
        let is_enough = match (count, window) {
            (0, Some(window)) => left > window.size / 2,
            (0, None) => true,
            (count, _) => left >= count,
        };
        let ungranted = record.remaining().unwrap_or(u64::MAX);
        if is_enough || ungranted == 0 {
            return None;
        }
        let needed = count.saturating_sub(left);
        let desired = window.map_or(MIN_WINDOW, |window| window.next_size(now));
        // Leave half of the remaining values, unless the draw needs more, because a leader that
        // fails loses its window.
        let most = (ungranted / 2).max(1).max(needed).min(ungranted);
        let size = desired.max(needed).min(most).min(MAX_GRANT_SIZE);
        let (name, after) = (name.clone(), window.map(|window| window.token));
        Some(SequenceCommand::GrantWindow { name, size, after }.into())
    }

    fn wanted_timestamps(&self, state: &State, count: u64, now: WallMs) -> Option<Command> {
        let (first, granted) = match &self.timestamps {
            Some(timestamps) => (timestamps.first(now), timestamps.granted),
            None if count == 0 => return None,
            None => {
                let first_ms = state.timestamp_bound().0.saturating_add(1).max(now.0);
                (first_ms << TIMESTAMP_COUNTER_BITS, WallMs(0))
            }
        };
        let last_ms = first.saturating_add(count.saturating_sub(1)) >> TIMESTAMP_COUNTER_BITS;
        let is_enough = match count {
            0 => granted.0 > now.0.saturating_add(MAX_TIMESTAMPS_AHEAD_MS / 2),
            _ => last_ms <= granted.0,
        };
        let upto = WallMs(last_ms.max(now.0).saturating_add(MAX_TIMESTAMPS_AHEAD_MS));
        (!is_enough).then(|| ClusterCommand::RaiseTimestamps { upto }.into())
    }

    /// Adds a grant that was proposed in this term and applied. Ignores a grant of another term.
    pub fn granted(&mut self, term: u64, command: &Command, outcome: &Outcome, now: ClusterMs) {
        if term != self.term && !is_out!(WindowsOfOneTerm) {
            return;
        }
        match (command, outcome) {
            (
                Command::Sequences(SequenceCommand::GrantWindow { name, .. }),
                Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)),
            ) => self.add(name, grant, now),
            (
                Command::Cluster(ClusterCommand::RaiseTimestamps { .. }),
                Outcome::Cluster(ClusterOutcome::TimestampsBounded { before, upto }),
            ) => {
                let next = (before.0 + 1) << TIMESTAMP_COUNTER_BITS;
                let timestamps = self.timestamps.get_or_insert(Timestamps {
                    next,
                    granted: *upto,
                });
                timestamps.granted = timestamps.granted.max(*upto);
            }
            _ => {}
        }
    }

    fn add(&mut self, name: &SequenceName, grant: &SegmentGrant, now: ClusterMs) {
        let end = grant.first_index + grant.count;
        let before = self.sequences.get(name);
        let continues = |window: &&Window| {
            window.epoch == grant.epoch
                && window.end == grant.first_index
                && grant.run_start <= window.next
        };
        let next = before
            .filter(continues)
            .map_or(grant.first_index, |window| window.next);
        let window = Window {
            epoch: grant.epoch,
            token: grant.token,
            next,
            end,
            size: end - next,
            granted_at: now,
            drawn_since: 0,
        };
        self.sequences.insert(name.clone(), window);
    }

    /// The commands that return all undrawn values and timestamps, for a leader that transfers
    /// leadership. Nothing can be drawn afterwards in this term.
    #[must_use]
    pub fn give_back(&mut self) -> Vec<Command> {
        let windows = std::mem::take(&mut self.sequences).into_iter();
        let unused = windows.filter(|(_, window)| window.left() > 0);
        let mut commands: Vec<Command> = unused
            .map(|(name, window)| {
                let (token, first_unused) = (window.token, window.next);
                SequenceCommand::ReturnWindow {
                    name,
                    token,
                    first_unused,
                }
                .into()
            })
            .collect();
        if let Some(timestamps) = self.timestamps.take() {
            let used = WallMs(timestamps.next.saturating_sub(1) >> TIMESTAMP_COUNTER_BITS);
            let granted = timestamps.granted;
            commands.push(ClusterCommand::ReturnTimestamps { granted, used }.into());
        }
        commands
    }

    /// The value that the next draw of a sequence begins with, if this term has drawn from it.
    #[must_use]
    pub fn next_value(&self, state: &State, name: &SequenceName) -> Option<i64> {
        let record = ordered(state, name).ok()?;
        let window = self
            .sequences
            .get(name)
            .filter(|window| window.is_valid(record))?;
        record.definition.progression.value_at(window.next)
    }
}

impl Timestamps {
    /// The timestamp with which a draw at this time begins.
    fn first(&self, now: WallMs) -> u64 {
        self.next.max(now.0 << TIMESTAMP_COUNTER_BITS)
    }
}

fn ordered<'a>(
    state: &'a State,
    name: &SequenceName,
) -> Result<&'a SequenceRecord, SequenceRefusal> {
    let record = state.sequence(name);
    let record = record.ok_or_else(|| SequenceRefusal::SequenceNotFound { name: name.clone() })?;
    record.demand(name, SequenceMode::Ordered)?;
    Ok(record)
}

#[cfg(test)]
mod tests;
