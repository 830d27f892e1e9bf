//! Tests of the segment service over the real state machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seqd_idgen::Progression;
use seqd_state::{
    Outcome, SegmentSizes, SequenceCommand, SequenceDefinition, SequenceMode, SequenceName,
    SequenceOutcome,
};
use tokio::time::Instant;

use super::*;
use crate::metrics::Metrics;
use crate::replica::peek;
use crate::test_replica::{NOON, TestClock, TestReplica};

struct Story {
    replica: Arc<TestReplica>,
    segments: Arc<SegmentBuffers>,
    name: SequenceName,
}

impl Story {
    fn begin(max: Option<i64>, sizes: (u64, u64)) -> Story {
        let replica = TestReplica::founded(TestClock::at(NOON), 30_000);
        let name = SequenceName::new("order").unwrap();
        let progression = Progression::with_defaults(None, None, None, max, false).unwrap();
        let segment = SegmentSizes {
            target_ms: 60_000,
            min: sizes.0,
            max: sizes.1,
        };
        let definition = SequenceDefinition {
            mode: SequenceMode::Segment,
            progression,
            segment,
            description: String::new(),
        };
        let story = Story {
            segments: Story::service(&replica),
            replica,
            name,
        };
        let made = story.create(definition);
        assert!(
            matches!(
                made,
                Outcome::Sequences(SequenceOutcome::Created { created: true, .. })
            ),
            "{made:?}"
        );
        story
    }

    /// Another node's service in the same cluster.
    fn service(replica: &Arc<TestReplica>) -> Arc<SegmentBuffers> {
        Arc::new(SegmentBuffers::new(
            replica.clone(),
            Arc::new(Metrics::new()),
        ))
    }

    async fn next(&self, count: u64) -> Result<Vec<i64>, NextError> {
        next(&self.segments, &self.name, count, false).await
    }

    async fn stop(&self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        self.segments.stop(deadline).await;
    }

    fn apply(&self, command: SequenceCommand) -> Outcome {
        self.replica.apply(vec![command.into()]).remove(0)
    }

    fn create(&self, definition: SequenceDefinition) -> Outcome {
        self.apply(SequenceCommand::Create {
            tenant: seqd_state::Tenant::OPERATOR,
            name: self.name.clone(),
            definition,
        })
    }

    fn delete(&self) {
        self.apply(SequenceCommand::Delete {
            name: self.name.clone(),
            if_revision: None,
        });
    }

    fn definition(&self) -> SequenceDefinition {
        let definition = peek(self.replica.as_ref(), |state| {
            state.sequence(&self.name).unwrap().definition.clone()
        });
        definition.unwrap()
    }

    fn mark(&self) -> u64 {
        let name = &self.name;
        peek(self.replica.as_ref(), |state| {
            state.sequence(name).unwrap().next_index
        })
        .unwrap()
    }
}

async fn next(
    segments: &Arc<SegmentBuffers>,
    name: &SequenceName,
    count: u64,
    contiguous: bool,
) -> Result<Vec<i64>, NextError> {
    let deadline = Instant::now() + Duration::from_secs(3);
    let served = segments.next(name, count, contiguous, deadline).await?;
    if contiguous {
        assert_eq!(served.ranges.len(), 1);
    }
    Ok(served
        .ranges
        .iter()
        .flat_map(|range| range.first..=range.last)
        .collect())
}

#[tokio::test(start_paused = true)]
async fn values_come_in_order_from_one() {
    let story = Story::begin(None, (10, 1000));
    let mut all = Vec::new();
    for count in [1, 9, 5, 100, 1, 500] {
        all.extend(story.next(count).await.unwrap());
    }
    assert_eq!(all, (1..=616).collect::<Vec<i64>>());
}

#[tokio::test(start_paused = true)]
async fn callers_at_once_get_distinct_values_in_their_order() {
    let story = Arc::new(Story::begin(None, (10, 1000)));
    let mut callers = Vec::new();
    // Small requests between large ones: a later request must not take values that an earlier one
    // waits for.
    let counts = [40, 1, 7, 120, 2].repeat(10);
    for count in counts.clone() {
        let story = Arc::clone(&story);
        callers.push(tokio::spawn(
            async move { story.next(count).await.unwrap() },
        ));
    }
    let mut all = Vec::new();
    for caller in callers {
        all.extend(caller.await.unwrap());
    }
    let total = i64::try_from(counts.iter().sum::<u64>()).unwrap();
    assert_eq!(all, (1..=total).collect::<Vec<i64>>());
}

#[tokio::test(start_paused = true)]
async fn two_nodes_never_give_the_same() {
    let story = Story::begin(None, (10, 100));
    let other = Story::service(&story.replica);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        ours.extend(story.next(3).await.unwrap());
        theirs.extend(next(&other, &story.name, 4, false).await.unwrap());
    }
    for node in [&ours, &theirs] {
        assert!(node.is_sorted_by(|a, b| a < b), "out of order: {node:?}");
    }
    let all: BTreeSet<i64> = ours.iter().chain(&theirs).copied().collect();
    assert_eq!(all.len(), 210, "a value twice: {ours:?} {theirs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_gives_the_whole_unused_run_back() {
    let story = Story::begin(None, (100, 1000));
    // After a tenth is used, the second buffer is filled too.
    story.next(20).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(story.mark() > 100, "two segments are out");
    story.stop().await;
    assert_eq!(story.mark(), 20);
    assert!(matches!(story.next(1).await, Err(NextError::Stopping)));
    let again = Story::service(&story.replica);
    assert_eq!(next(&again, &story.name, 1, false).await.unwrap(), [21]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_refill_on_its_way() {
    let story = Story::begin(None, (100, 1000));
    // After a tenth is used, the second segment is requested, but it has not arrived.
    story.next(20).await.unwrap();
    story.stop().await;
    assert!(story.mark() == 20, "{}", story.mark());
}

#[tokio::test(start_paused = true)]
async fn a_buffer_with_a_refill_on_its_way_counts_as_used() {
    let story = Story::begin(None, (100, 1000));
    let slot = story.segments.slot(&story.name).unwrap();
    let progression = Progression::with_defaults(None, None, None, None, false).unwrap();
    let (_, refill) = slot.take(1, false, &progression, Duration::ZERO);
    assert!(refill.is_some());
    for _ in 0..3 {
        assert!(slot.close_if_unused().is_err());
    }
    slot.failed(NextError::Overloaded);
    assert!(matches!(slot.close_if_unused(), Ok(None)));
    assert!(slot.is_retired());
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_is_unused_between_two_looks_is_returned_and_the_next_value_follows() {
    let story = Story::begin(None, (100, 1000));
    assert_eq!(story.next(5).await.unwrap(), [1, 2, 3, 4, 5]);
    let until = Instant::now() + Duration::from_secs(1);
    story.segments.return_unused(until).await;
    assert!(story.mark() > 5, "used since the last look");
    story.segments.return_unused(until).await;
    assert_eq!(story.mark(), 5);
    assert_eq!(story.next(2).await.unwrap(), [6, 7]);
}

#[tokio::test(start_paused = true)]
async fn of_two_runs_the_latest_comes_back() {
    let story = Story::begin(None, (100, 1000));
    story.next(1).await.unwrap();
    // Another node's grant lies between this node's two segments.
    let other = Story::service(&story.replica);
    next(&other, &story.name, 1, false).await.unwrap();
    story.next(10).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let before = story.mark();
    story.stop().await;
    assert!(story.mark() < before, "{} of {before}", story.mark());
}

#[tokio::test(start_paused = true)]
async fn an_advance_voids_buffered_values() {
    let story = Story::begin(None, (100, 1000));
    story.next(5).await.unwrap();
    story.apply(SequenceCommand::Advance {
        name: story.name.clone(),
        to: 5000,
    });
    assert_eq!(story.next(2).await.unwrap(), [5000, 5001]);
}

#[tokio::test(start_paused = true)]
async fn contiguous_values_skip_ranges_that_are_too_short() {
    let story = Story::begin(None, (10, 1000));
    let other = Story::service(&story.replica);
    story.next(8).await.unwrap();
    next(&other, &story.name, 1, false).await.unwrap();
    let run = next(&story.segments, &story.name, 50, true).await.unwrap();
    assert_eq!(run.last().unwrap() - run[0], 49);
    let after = story.next(1).await.unwrap();
    assert!(after[0] > run[49], "a node's values only increase");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_sequence_is_reported_and_loses_nothing() {
    let story = Story::begin(Some(25), (10, 1000));
    assert_eq!(story.next(20).await.unwrap().len(), 20);
    match story.next(6).await {
        Err(NextError::Refused(seqd_state::Refusal::Sequences(
            seqd_state::SequenceRefusal::SequenceExhausted { remaining, .. },
        ))) => {
            assert_eq!(remaining, 5);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(story.next(5).await.unwrap(), [21, 22, 23, 24, 25]);
    assert!(matches!(story.next(1).await, Err(NextError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_the_buffer_is_used_up_and_then_requests_fail_immediately() {
    let story = Story::begin(None, (100, 1000));
    story.next(1).await.unwrap();
    story.replica.set_quorum(false);
    assert_eq!(story.next(99).await.unwrap().len(), 99);
    let asked = Instant::now();
    assert!(matches!(story.next(1).await, Err(NextError::NoRefill(_))));
    assert!(asked.elapsed() < Duration::from_secs(1));
    story.replica.set_quorum(true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(story.next(1).await.unwrap(), [101]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_nothing_with_it() {
    let story = Story::begin(None, (100, 100));
    story.next(1).await.unwrap();
    let gone = tokio::time::timeout(Duration::from_micros(1), story.next(500)).await;
    assert!(gone.is_err());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(story.next(2).await.unwrap(), [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sequence_is_gone_at_once() {
    let story = Story::begin(None, (100, 1000));
    story.next(1).await.unwrap();
    story.delete();
    assert!(matches!(story.next(1).await, Err(NextError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_returns_values_gathered_for_a_caller_that_got_none() {
    let story = Story::begin(None, (100, 100));
    story.next(1).await.unwrap();
    // The second segment is requested after a tenth is used, but it is not granted.
    story.replica.set_quorum(false);
    assert!(matches!(story.next(500).await, Err(NextError::NoRefill(_))));
    assert_eq!(story.mark(), 100, "all that was granted lies gathered");
    story.replica.set_quorum(true);
    story.stop().await;
    assert_eq!(story.mark(), 1);
    let again = Story::service(&story.replica);
    assert_eq!(next(&again, &story.name, 1, false).await.unwrap(), [2]);
}

#[tokio::test(start_paused = true)]
async fn waiters_during_a_deletion_join_the_queue_of_the_recreated_sequence() {
    let story = Arc::new(Story::begin(None, (10, 10)));
    story.next(1).await.unwrap();
    let old = story.segments.slot(&story.name).unwrap();
    // One caller holds the turn, and others wait for it.
    let turn = old.turn.lock().await;
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let story = Arc::clone(&story);
        waiters.push(tokio::spawn(async move { story.next(4).await.unwrap() }));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let definition = story.definition();
    story.delete();
    assert!(matches!(story.next(1).await, Err(NextError::NotFound)));
    story.create(definition);
    let first = story.next(1).await.unwrap();
    drop(turn);
    let mut all: BTreeSet<i64> = first.iter().copied().collect();
    for waiter in waiters {
        for value in waiter.await.unwrap() {
            assert!(value > first[0], "{value} is of a buffer of before");
            assert!(all.insert(value), "{value} twice");
        }
    }
    let new = story.segments.slot(&story.name).unwrap();
    assert!(!Arc::ptr_eq(&old, &new));
    assert!(old.is_retired() && old.left() == 0, "{}", old.left());
    // Everything went through one buffer, so no index granted again is lost at a stop.
    story.stop().await;
    assert_eq!(story.mark(), *all.last().unwrap() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_sequence_has_its_own_sizes() {
    let story = Story::begin(None, (10, 10));
    story.next(1).await.unwrap();
    // The refill in flight still requests a size of the earlier definition.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut definition = story.definition();
    definition.segment = SegmentSizes {
        target_ms: 60_000,
        min: 1000,
        max: 1000,
    };
    story.delete();
    story.create(definition);
    let before = story.mark();
    story.next(1).await.unwrap();
    assert!(
        story.mark() >= before + 1000,
        "{} of {before}",
        story.mark()
    );
}
