//! Draws from windows, extensions, returns, and events that void a window.

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
    // A grant that was proposed in the earlier term is ignored.
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
    // The return is repeated after values beyond it were granted.
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
fn timestamps_follow_the_clock_and_increase_while_it_is_stopped() {
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

/// Draws `count` timestamps until the clock must advance. Returns the last millisecond.
fn draw_until_ahead(story: &mut Story, count: u64) -> i64 {
    let mut last = 0;
    while (story.windows).timestamps_wait_ms(&story.state, count, story.now) == 0 {
        let (first, end) = story.timestamps(count);
        assert!(first > last);
        last = end;
    }
    last >> TIMESTAMP_COUNTER_BITS
}

#[test]
fn timestamps_are_at_most_a_second_ahead_of_the_clock() {
    let mut story = Story::begin(i64::MAX);
    assert_eq!(draw_until_ahead(&mut story, SMALL_TIMESTAMPS), 2000);
}

#[test]
fn large_draws_leave_a_quarter_of_the_lead_to_small_ones() {
    let mut story = Story::begin(i64::MAX);
    let last_ms = draw_until_ahead(&mut story, MAX_TIMESTAMPS);
    assert_eq!(last_ms, 1750, "a large draw uses the whole lead");
    assert_eq!(draw_until_ahead(&mut story, SMALL_TIMESTAMPS + 1), 1750);
    assert_eq!(draw_until_ahead(&mut story, SMALL_TIMESTAMPS), 2000);
}
