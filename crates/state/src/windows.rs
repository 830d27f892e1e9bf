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

use std::collections::HashMap;

use seqd_guards::is_out;
use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

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

/// The most timestamps of one draw: fewer than one millisecond has.
pub const MAX_TIMESTAMPS: u64 = 100_000;

const _: () = assert!(MAX_TIMESTAMPS < 1 << TIMESTAMP_COUNTER_BITS);

/// The smallest window that a leader asks for. Grants of a rarely used sequence stay small, because
/// the rest of a window is lost if the leader fails.
const MIN_WINDOW: u64 = 1024;

/// The largest window that a leader asks for without a request for more: the values of a second at
/// the highest rate that one leader can serve.
const MAX_WINDOW: u64 = 1 << 24;

/// What a request draws from.
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
#[derive(Debug, Clone, Default)]
pub struct Windows {
    term: u64,
    sequences: HashMap<SequenceName, Window>,
    timestamps: Option<Timestamps>,
}

/// Granted indices of a sequence that were not drawn yet.
#[derive(Debug, Clone, Copy)]
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

/// The granted timestamps.
#[derive(Debug, Clone, Copy)]
struct Timestamps {
    /// The next timestamp is this one or a higher one.
    next: u64,
    granted: WallMs,
}

impl Window {
    fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Returns whether the log has not voided the window since.
    fn is_valid(&self, record: &SequenceRecord) -> bool {
        let contains = |start: u64| start <= self.next && self.end <= record.next_index;
        self.epoch == record.epoch && record.run.is_some_and(|run| contains(run.start))
    }

    /// The size of the next grant: the values of one second at the rate since the last grant. If
    /// that was less than a second ago, twice its size, so that a few requests do not make a large
    /// window.
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
    /// Begins a term, and drops everything that an earlier one has granted. Returns `false`, and
    /// changes nothing, if a later term has begun.
    #[must_use]
    pub fn begin(&mut self, term: u64) -> bool {
        if self.term < term && !is_out!(WindowsOfOneTerm) {
            *self = Self::default();
        }
        let is_latest = self.term <= term;
        self.term = self.term.max(term);
        is_latest
    }

    /// Draws values in the term of [`Windows::begin`]. `now` is the cluster's judged wall clock.
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
    /// unless they would be more than [`MAX_TIMESTAMPS_AHEAD_MS`] ahead of it.
    #[must_use]
    pub fn timestamps_wait_ms(&self, state: &State, count: u64, now: WallMs) -> u64 {
        let first = match &self.timestamps {
            Some(timestamps) => timestamps.first(now),
            None => (state.timestamp_bound().0 + 1) << TIMESTAMP_COUNTER_BITS,
        };
        let last_ms = first.saturating_add(count.saturating_sub(1)) >> TIMESTAMP_COUNTER_BITS;
        last_ms.saturating_sub(now.0.saturating_add(MAX_TIMESTAMPS_AHEAD_MS))
    }

    /// The command whose grant makes a draw possible, or `None` if it is possible already. A draw of
    /// 0 values stands for the next second: the command is due once half of the window is used.
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
        // A leader that fails must not take all that is left of a short sequence with it.
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

    /// Takes in a grant that was proposed in this term and is applied. Any other is ignored.
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

    /// The commands that return what was not drawn, for a leader that hands over its leadership.
    /// Nothing can be drawn afterwards in this term.
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

fn check_count(count: u64, limit: u64) -> Result<(), SequenceRefusal> {
    if (1..=limit).contains(&count) {
        return Ok(());
    }
    Err(SequenceRefusal::CountOutOfRange { count, limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::Outcome;
    use crate::sequences::definition::{SegmentSizes, SequenceDefinition};
    use crate::testing::{entry, founded};
    use seqd_idgen::Progression;

    const TERM: u64 = 3;

    fn name() -> SequenceName {
        SequenceName::new("order").unwrap()
    }

    fn draw_of(count: u64) -> Draw {
        let from = DrawFrom::Sequence(name());
        Draw { from, count }
    }

    /// A state with an ordered sequence from 1 to `max`, and its windows in a term.
    struct Story {
        state: State,
        windows: Windows,
        now: WallMs,
    }

    impl Story {
        fn begin(max: i64) -> Self {
            let mut state = founded();
            let definition = SequenceDefinition {
                mode: SequenceMode::Ordered,
                progression: Progression::new(1, 1, 1, max, false).unwrap(),
                segment: SegmentSizes {
                    target_ms: 1,
                    min: 1,
                    max: 1,
                },
                description: String::new(),
            };
            let (name, tenant) = (name(), crate::tenant::Tenant::OPERATOR);
            let create = SequenceCommand::Create {
                name,
                definition,
                tenant,
            };
            state.apply(&entry(1, vec![create.into()]), None);
            let mut windows = Windows::default();
            assert!(windows.begin(TERM));
            let now = WallMs(1_000);
            Self {
                state,
                windows,
                now,
            }
        }

        fn apply(&mut self, command: Command) -> Outcome {
            self.state.apply(&entry(1, vec![command]), None).remove(0)
        }

        /// Extends the windows for this draw. Returns the command.
        fn extend(&mut self, draw: &Draw) -> Option<Command> {
            let times = (self.now, ClusterMs(60_000));
            let command = self.windows.wanted(&self.state, draw, times)?;
            let outcome = self.apply(command.clone());
            self.windows.granted(TERM, &command, &outcome, ClusterMs(0));
            Some(command)
        }

        fn try_draw(&mut self, draw: &Draw) -> Result<DrawResult, Refusal> {
            self.windows.draw(&self.state, draw, self.now)
        }

        /// Draws, and extends the windows first if they are short. Returns the first and last value.
        fn draw(&mut self, draw: &Draw) -> (i64, i64) {
            for _ in 0..2 {
                match self.try_draw(draw).unwrap() {
                    DrawResult::Drawn(drawn) => return (drawn.range.first, drawn.range.last),
                    DrawResult::Short => assert!(self.extend(draw).is_some()),
                }
            }
            panic!("the window is short after its extension");
        }

        fn values(&mut self, count: u64) -> (i64, i64) {
            self.draw(&draw_of(count))
        }

        fn timestamps(&mut self, count: u64) -> (i64, i64) {
            self.draw(&Draw {
                from: DrawFrom::Timestamps,
                count,
            })
        }
    }

    #[test]
    fn values_are_drawn_in_order_and_a_window_continues_when_it_is_extended() {
        let mut story = Story::begin(i64::MAX);
        assert_eq!(story.values(1), (1, 1));
        assert_eq!(story.values(1000), (2, 1001));
        // 23 are left, so the next 100 need an extension, and nothing is skipped.
        assert_eq!(story.values(100), (1002, 1101));
        assert_eq!(story.state.sequence(&name()).unwrap().next_index, 2048);
    }

    #[test]
    fn a_window_is_extended_ahead_of_its_end_once_half_of_it_is_used() {
        let mut story = Story::begin(i64::MAX);
        assert_eq!(story.extend(&draw_of(0)), None, "nobody draws from it");
        story.values(500);
        assert_eq!(story.extend(&draw_of(0)), None);
        story.values(100);
        assert!(story.extend(&draw_of(0)).is_some());
        assert_eq!(story.extend(&draw_of(0)), None);
    }

    #[test]
    fn a_window_has_the_values_of_a_second() {
        let mut window = Window {
            epoch: Epoch(1),
            token: GrantToken(1),
            next: 0,
            end: 1024,
            size: 1024,
            granted_at: ClusterMs(0),
            drawn_since: 1000,
        };
        assert_eq!(window.next_size(ClusterMs(1)), 2048);
        assert_eq!(window.next_size(ClusterMs(10_000)), MIN_WINDOW);
        window.drawn_since = 500_000;
        assert_eq!(window.next_size(ClusterMs(10_000)), 50_000);
        window.drawn_since = u64::MAX;
        assert_eq!(window.next_size(ClusterMs(10_000)), MAX_WINDOW);
    }

    #[test]
    fn windows_of_an_earlier_term_are_dropped_and_a_later_one_stays() {
        let mut story = Story::begin(i64::MAX);
        assert_eq!(story.values(1), (1, 1));
        assert!(story.windows.begin(TERM + 1));
        let drawn = story.try_draw(&draw_of(1)).unwrap();
        assert_eq!(drawn, DrawResult::Short, "windows outlive their term");
        assert!(!story.windows.begin(TERM), "an earlier term began again");
        // A grant that was proposed in the earlier term belongs to nobody.
        let times = (story.now, ClusterMs(0));
        let command = story
            .windows
            .wanted(&story.state, &draw_of(1), times)
            .unwrap();
        let outcome = story.apply(command.clone());
        story
            .windows
            .granted(TERM, &command, &outcome, ClusterMs(0));
        assert_eq!(story.try_draw(&draw_of(1)), Ok(DrawResult::Short));
    }

    #[test]
    fn a_window_is_void_after_an_advance_a_deletion_and_a_return() {
        let advance = || SequenceCommand::Advance {
            name: name(),
            to: 5000,
        };
        let delete = || SequenceCommand::Delete {
            name: name(),
            if_revision: None,
        };
        for command in [advance(), delete()] {
            let mut story = Story::begin(i64::MAX);
            assert_eq!(story.values(1), (1, 1));
            story.apply(command.into());
            let drawn = story.try_draw(&draw_of(1));
            let is_drawn = matches!(drawn, Ok(DrawResult::Drawn(_)));
            assert!(!is_drawn, "drawn from a void window");
        }
        let mut story = Story::begin(i64::MAX);
        story.values(1);
        story.apply(advance().into());
        assert_eq!(story.values(2), (5000, 5001));
    }

    #[test]
    fn a_sequence_that_was_deleted_and_created_again_continues_past_its_windows() {
        let mut story = Story::begin(i64::MAX);
        story.values(1);
        let definition = story.state.sequence(&name()).unwrap().definition.clone();
        let tenant = crate::tenant::Tenant::OPERATOR;
        story.apply(
            SequenceCommand::Delete {
                name: name(),
                if_revision: None,
            }
            .into(),
        );
        let create = SequenceCommand::Create {
            name: name(),
            definition,
            tenant,
        };
        story.apply(create.into());
        assert_eq!(story.values(1), (1025, 1025));
    }

    #[test]
    fn a_returned_window_leaves_no_gap_and_an_older_return_changes_nothing() {
        let mut story = Story::begin(i64::MAX);
        story.values(10);
        let returns = story.windows.give_back();
        assert_eq!(story.try_draw(&draw_of(1)), Ok(DrawResult::Short));
        let [give_back] = &returns[..] else {
            panic!("{returns:?}")
        };
        story.apply(give_back.clone());
        assert_eq!(story.values(1), (11, 11));
        // The same return again, after values beyond it were granted.
        story.apply(give_back.clone());
        assert_eq!(story.values(1), (12, 12));
    }

    #[test]
    fn all_values_of_a_short_sequence_are_drawn_and_no_more() {
        let mut story = Story::begin(10);
        assert_eq!(story.values(3), (1, 3));
        let mark = story.state.sequence(&name()).unwrap().next_index;
        assert!(mark <= 5, "a crash would lose most of it: {mark}");
        assert_eq!(story.values(6), (4, 9));
        let too_many = story.try_draw(&draw_of(2)).unwrap_err();
        let exhausted = SequenceRefusal::SequenceExhausted {
            name: name(),
            asked: 2,
            remaining: 1,
        };
        assert_eq!(too_many, exhausted.into());
        assert_eq!(story.values(1), (10, 10));
        assert!(story.try_draw(&draw_of(1)).is_err());
    }

    #[test]
    fn other_modes_and_counts_out_of_range_are_refused() {
        let mut story = Story::begin(i64::MAX);
        for count in [0, MAX_STRICT_COUNT + 1] {
            assert!(story.try_draw(&draw_of(count)).is_err());
        }
        let next = SequenceCommand::Next(crate::NextRequest {
            name: name(),
            count: 1,
        });
        let segment = SequenceCommand::GrantSegment {
            name: name(),
            size: 1,
            after: None,
        };
        for command in [next, segment] {
            let outcome = story.apply(command.into());
            assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
    }

    #[test]
    fn timestamps_follow_the_clock_and_increase_while_it_stands_still() {
        let mut story = Story::begin(i64::MAX);
        let of_ms = |ms: i64| ms << TIMESTAMP_COUNTER_BITS;
        assert_eq!(story.timestamps(1), (of_ms(1000), of_ms(1000)));
        assert_eq!(story.timestamps(2), (of_ms(1000) + 1, of_ms(1000) + 2));
        story.now = WallMs(1500);
        assert_eq!(story.timestamps(1), (of_ms(1500), of_ms(1500)));
        story.now = WallMs(1200);
        assert_eq!(story.timestamps(1), (of_ms(1500) + 1, of_ms(1500) + 1));
        story.now = WallMs(9000);
        assert_eq!(story.timestamps(1), (of_ms(9000), of_ms(9000)));
    }

    #[test]
    fn a_new_leader_begins_past_all_timestamps_of_the_old_one() {
        let mut story = Story::begin(i64::MAX);
        let (_, last) = story.timestamps(1);
        assert!(story.windows.begin(TERM + 1));
        story.windows.term = TERM;
        let (first, _) = story.timestamps(1);
        assert_eq!(first >> TIMESTAMP_COUNTER_BITS, 2001, "the bound was 2000");
        assert!(first > last);
        // A return lets the next leader begin at the next millisecond.
        for give_back in story.windows.give_back() {
            story.apply(give_back);
        }
        assert_eq!(story.state.timestamp_bound(), WallMs(2001));
    }

    #[test]
    fn timestamps_are_at_most_a_second_ahead_of_the_clock() {
        let mut story = Story::begin(i64::MAX);
        let most = MAX_TIMESTAMPS;
        let mut last = 0;
        let mut draws = 0;
        while story
            .windows
            .timestamps_wait_ms(&story.state, most, story.now)
            == 0
        {
            let (first, end) = story.timestamps(most);
            assert!(first > last);
            last = end;
            draws += 1;
        }
        assert_eq!(last >> TIMESTAMP_COUNTER_BITS, 2000);
        assert_eq!(draws, (1001 << TIMESTAMP_COUNTER_BITS) / MAX_TIMESTAMPS);
    }
}
