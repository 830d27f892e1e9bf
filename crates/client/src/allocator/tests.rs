//! An allocator on an in-memory cluster and paused time: the order of values, failed and lost
//! requests, waits, and the return of unused values.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_api::{ErrorCode, Grant, GrantRequest, Problem};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::error::{Attempt, Error};

/// The reply to a request, if it is not the next segment.
#[derive(Debug, Clone)]
enum Reply {
    Refuse(Error),
    /// The segment is granted, and the response is lost.
    Lose,
    /// The segment is granted after this pause.
    After(Duration),
}

#[derive(Debug)]
struct State {
    next: i64,
    increment: i64,
    grants: u128,
    run: Option<u128>,
    /// The replies to the next requests for segments. The last one is repeated if it is kept.
    replies: VecDeque<Reply>,
    asked: Vec<GrantRequest>,
    /// The failures of the next returns.
    refuse_returns: VecDeque<Error>,
    returns: Vec<(u128, u64)>,
}

#[derive(Debug, Clone)]
struct Cluster(Arc<Mutex<State>>);

impl Cluster {
    fn new(increment: i64) -> Self {
        Self(Arc::new(Mutex::new(State {
            next: if increment > 0 { 1 } else { -1 },
            increment,
            grants: 0,
            run: None,
            replies: VecDeque::new(),
            asked: Vec::new(),
            refuse_returns: VecDeque::new(),
            returns: Vec::new(),
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.with(|state| state.replies.extend(replies));
    }

    fn sizes(&self) -> Vec<u64> {
        self.with(|state| {
            state
                .asked
                .iter()
                .map(|request| request.size.unwrap())
                .collect()
        })
    }

    fn start(&self, options: AllocatorOptions) -> SequenceAllocator {
        SequenceAllocator::with(self.clone(), options).unwrap()
    }

    /// Another allocator is granted a segment.
    fn grant_to_another(&self) {
        self.with(|state| state.grant(5));
    }
}

impl State {
    fn grant(&mut self, size: u64) -> Grant {
        let first = self.next;
        self.next += self.increment * size.cast_signed();
        self.grants += 1;
        self.run = Some(self.grants);
        Grant {
            grant: self.grants,
            first,
            last: self.next - self.increment,
            count: size,
            increment: self.increment,
        }
    }
}

impl Segments for Cluster {
    async fn grant(&self, request: &GrantRequest) -> Result<Grant, Error> {
        let reply = self.with(|state| {
            state.asked.push(request.clone());
            state.replies.pop_front()
        });
        match reply {
            Some(Reply::Refuse(error)) => return Err(error),
            Some(Reply::Lose) => {
                self.with(|state| state.grant(request.size.unwrap()));
                let attempt = Attempt::new("n1:7400", "the connection broke");
                return Err(Error::OutcomeUnknown(attempt));
            }
            Some(Reply::After(pause)) => sleep(pause).await,
            None => {}
        }
        Ok(self.with(|state| state.grant(request.size.unwrap())))
    }

    async fn give_back(&self, grant: u128, unused: u64) -> Result<u64, Error> {
        self.with(|state| {
            if let Some(error) = state.refuse_returns.pop_front() {
                return Err(error);
            }
            if state.run != Some(grant) {
                return Err(problem(ErrorCode::GrantSuperseded));
            }
            state.returns.push((grant, unused));
            state.run = None;
            state.next -= state.increment * unused.cast_signed();
            Ok(unused)
        })
    }
}

fn problem(code: ErrorCode) -> Error {
    Error::Problem(Box::new(Problem::new(code, "scripted")))
}

fn down() -> Error {
    Error::Unreachable(vec![Attempt::new("n1:7400", "connection refused")])
}

fn small() -> AllocatorOptions {
    AllocatorOptions {
        min: 10,
        max: 1_000,
        ..AllocatorOptions::default()
    }
}

async fn next(allocator: &SequenceAllocator, count: usize) -> Vec<i64> {
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(allocator.next().await.unwrap());
    }
    values
}

#[tokio::test(start_paused = true)]
async fn values_follow_each_other_over_segments_in_both_directions() {
    for increment in [1, -3] {
        let cluster = Cluster::new(increment);
        let allocator = cluster.start(small());
        let first = increment.signum();
        let expected: Vec<i64> = (0..50).map(|at| first + at * increment).collect();
        assert_eq!(next(&allocator, 50).await, expected);
        let taken = allocator.take(25).await.unwrap();
        let count: u64 = taken.iter().map(|range| range.count).sum();
        assert_eq!((count, taken[0].first), (25, first + 50 * increment));
        assert_eq!(allocator.next().await.unwrap(), first + 75 * increment);
        assert!(allocator.take(0).await.is_err() && allocator.take(MAX_TAKE + 1).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_segment_is_fetched_when_a_tenth_is_used() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(AllocatorOptions {
        min: 100,
        ..small()
    });
    allocator.ready().await.unwrap();
    next(&allocator, 9).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.sizes().len(), 1);
    next(&allocator, 1).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.sizes().len(), 2);
    let second = cluster.with(|state| state.asked[1].clone());
    assert_eq!(second.after, Some(1));
    assert_eq!(allocator.status().available, 90 + second.size.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_size_follows_the_load() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(AllocatorOptions {
        min: 10,
        max: 100_000,
        ..AllocatorOptions::default()
    });
    for _ in 0..40_000 {
        allocator.take(10).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cluster.sizes().last(), Some(&100_000));
    for _ in 0..300 {
        allocator.take(1_000).await.unwrap();
        sleep(Duration::from_secs(1000)).await;
    }
    assert!(cluster.sizes().last() < Some(&20));
}

#[tokio::test(start_paused = true)]
async fn a_failing_cluster_is_noticed_only_when_values_run_out() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    allocator.ready().await.unwrap();
    cluster.reply([down(), problem(ErrorCode::NoQuorum), down()].map(Reply::Refuse));
    let begun = Instant::now();
    assert_eq!(next(&allocator, 10).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(allocator.next().await.unwrap(), 11);
    let waited = begun.elapsed();
    assert!(
        waited > Duration::ZERO && waited < Duration::from_secs(5),
        "{waited:?}"
    );
    assert!(allocator.status().error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_after_its_patience_with_the_reason() {
    let cluster = Cluster::new(1);
    cluster.reply(std::iter::repeat_n(Reply::Refuse(down()), 100));
    let allocator = cluster.start(small());
    let begun = Instant::now();
    let error = allocator.next().await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(matches!(error, AllocateError::Unavailable { why: Some(_) }));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_abandons_its_segment_and_leaves_a_gap() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    allocator.ready().await.unwrap();
    cluster.reply([Reply::Lose]);
    assert_eq!(next(&allocator, 10).await, (1..=10).collect::<Vec<_>>());
    let after = allocator.next().await.unwrap();
    let lost = cluster.with(|state| state.asked[1].size.unwrap());
    assert_eq!(after, 11 + lost.cast_signed());
    assert_eq!(allocator.status().abandoned, lost);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_refusal_is_returned_at_once_and_requested_again_later() {
    let cluster = Cluster::new(1);
    cluster.reply([Reply::Refuse(problem(ErrorCode::NotFound))]);
    let allocator = cluster.start(small());
    let begun = Instant::now();
    let error = allocator.next().await.unwrap_err();
    assert!(matches!(error, AllocateError::Refused(_)), "{error}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(allocator.next().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_the_cluster_no_longer_accepts_is_left_out_of_the_next_request() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    allocator.ready().await.unwrap();
    cluster.reply([Reply::Refuse(problem(ErrorCode::NotFound))]);
    assert_eq!(next(&allocator, 11).await, (1..=11).collect::<Vec<_>>());
    let after: Vec<Option<u128>> =
        cluster.with(|state| state.asked.iter().map(|request| request.after).collect());
    assert_eq!(after[..3], [None, Some(1), None]);
}

#[tokio::test(start_paused = true)]
async fn values_that_go_back_are_refused() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    next(&allocator, 1).await;
    sleep(Duration::from_millis(1)).await;
    // The sequence begins again, like a sequence that cycles.
    cluster.with(|state| state.next = 1);
    let rest = allocator.status().available;
    next(&allocator, usize::try_from(rest).unwrap()).await;
    let error = allocator.next().await.unwrap_err();
    assert!(
        matches!(error, AllocateError::OutOfOrder { first: 1, .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_delays_a_call_by_no_more_than_itself() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    allocator.ready().await.unwrap();
    cluster.reply([Reply::After(Duration::from_secs(2))]);
    let begun = Instant::now();
    let values = next(&allocator, 11).await;
    assert_eq!(values, (1..=11).collect::<Vec<_>>());
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_close_returns_both_segments_in_one_run() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    next(&allocator, 4).await;
    sleep(Duration::from_secs(1)).await;
    let available = allocator.status().available;
    assert!(available > 6, "{available}");
    let closed = allocator.close().await;
    assert_eq!(
        (closed.returned, closed.lost, closed.why),
        (available, 0, None)
    );
    assert_eq!(cluster.with(|state| state.next), 5);
    assert!(matches!(allocator.next().await, Err(AllocateError::Closed)));
    assert_eq!(allocator.close().await.returned, available);
}

#[tokio::test(start_paused = true)]
async fn a_close_returns_the_lost_values() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    next(&allocator, 4).await;
    sleep(Duration::from_secs(1)).await;
    cluster.grant_to_another();
    let available = allocator.status().available;
    let closed = allocator.close().await;
    assert_eq!((closed.returned, closed.lost), (0, available));
    assert!(closed.why.is_some());

    // Another run lies between both segments.
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    allocator.ready().await.unwrap();
    cluster.grant_to_another();
    next(&allocator, 4).await;
    sleep(Duration::from_secs(1)).await;
    let next = allocator.status().available - 6;
    let closed = allocator.close().await;
    assert_eq!((closed.returned, closed.lost), (next, 6));
}

#[tokio::test(start_paused = true)]
async fn a_return_is_repeated_and_falls_back_to_the_latest_grant() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    next(&allocator, 4).await;
    sleep(Duration::from_secs(1)).await;
    let next = allocator.status().available - 6;
    let invalid = problem(ErrorCode::InvalidArgument);
    cluster.with(|state| state.refuse_returns.extend([down(), invalid]));
    let closed = allocator.close().await;
    assert_eq!((closed.returned, closed.lost), (next, 6));
}

#[tokio::test(start_paused = true)]
async fn a_return_whose_response_is_lost_counts_no_values_as_lost() {
    for later_grant in [false, true] {
        let cluster = Cluster::new(1);
        let allocator = cluster.start(small());
        next(&allocator, 4).await;
        sleep(Duration::from_secs(1)).await;
        let available = allocator.status().available;
        // The first return takes effect, or arrives after the grant of another allocator.
        cluster.with(|state| {
            let attempt = Attempt::new("n1:7400", "timed out");
            state
                .refuse_returns
                .push_back(Error::OutcomeUnknown(attempt));
            state.run = None;
        });
        if later_grant {
            cluster.grant_to_another();
        }
        let closed = allocator.close().await;
        assert_eq!((closed.returned, closed.lost), (0, 0));
        let why = closed.why.unwrap();
        let expected = format!("it is unknown whether {available} values were returned");
        assert!(why.starts_with(&expected), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drop_returns_unused_values_in_the_background() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    next(&allocator, 4).await;
    sleep(Duration::from_secs(1)).await;
    drop(allocator);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.with(|state| state.next), 5);
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_arrives_during_a_close_is_returned() {
    let cluster = Cluster::new(1);
    cluster.reply([Reply::After(Duration::from_secs(2))]);
    let allocator = cluster.start(small());
    sleep(Duration::from_secs(1)).await;
    let closed = allocator.close().await;
    assert_eq!((closed.returned, closed.lost), (10, 0));
    assert_eq!(cluster.with(|state| state.next), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_fail_when_the_allocator_closes() {
    let cluster = Cluster::new(1);
    cluster.reply(std::iter::repeat_n(Reply::Refuse(down()), 100));
    let allocator = Arc::new(cluster.start(AllocatorOptions {
        patience: Duration::from_secs(60),
        ..small()
    }));
    let waiting = tokio::spawn({
        let allocator = Arc::clone(&allocator);
        async move { allocator.next().await }
    });
    sleep(Duration::from_secs(1)).await;
    allocator.close().await;
    let result = timeout(Duration::from_secs(1), waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(result, Err(AllocateError::Closed)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn chunks_draw_disjoint_values_in_order() {
    let cluster = Cluster::new(1);
    let allocator = cluster.start(small());
    let size = NonZeroU32::new(4).unwrap();
    let mut chunks = [Chunk::new(&allocator, size), Chunk::new(&allocator, size)];
    let mut drawn = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        for (chunk, values) in chunks.iter_mut().zip(&mut drawn) {
            values.push(chunk.next().await.unwrap());
        }
    }
    assert!(
        drawn
            .iter()
            .all(|values| values.is_sorted_by(|one, next| one < next))
    );
    let mut all = drawn.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 60);
    // The rest of a chunk can be drawn after the allocator is closed.
    allocator.close().await;
    let rest = std::iter::from_fn(|| chunks[0].try_next().ok().flatten()).count();
    assert!(rest < 4);
    assert!(matches!(chunks[0].try_next(), Err(AllocateError::Closed)));
}
