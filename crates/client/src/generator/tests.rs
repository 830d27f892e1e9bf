//! Generators against an in-memory cluster, on paused time and with manually adjusted clocks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ErrorCode, Problem};
use seqd_idgen::{SnowflakeId, WallClock};
use tokio::time::{Instant, advance, sleep};

use super::testing::{Asked, BEGINS, Clock, Cluster};
use super::{GenerateError, GeneratorOptions, IdGenerator, MAX_COUNT};

const WINDOW: Duration = Duration::from_secs(30);

fn options(owner: &str, clock: &Clock) -> GeneratorOptions {
    GeneratorOptions {
        wall_clock: Arc::new(clock.clone()),
        ..GeneratorOptions::new(owner)
    }
}

fn start(cluster: &Cluster, owner: &str, clock: &Clock) -> IdGenerator {
    IdGenerator::with(cluster.clone(), options(owner, clock), std::process::id()).unwrap()
}

fn cluster() -> Cluster {
    Cluster::new(4, WINDOW.as_millis() as u64)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn a_window_is_renewed_at_a_third_and_never_more_often() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.id().await.unwrap();
    sleep(secs(300)).await;
    let renewed: Vec<Duration> = cluster
        .asked()
        .into_iter()
        .filter_map(|(at, asked)| matches!(asked, Asked::Renew(_)).then_some(at))
        .collect();
    assert!((30..=36).contains(&renewed.len()), "{renewed:?}");
    assert!(renewed[0] >= secs(8), "{renewed:?}");
    let apart = renewed.windows(2).map(|pair| pair[1] - pair[0]);
    for apart in apart {
        assert!(apart >= secs(8) && apart <= secs(10), "{renewed:?}");
    }
    assert_eq!(generator.status().leases, 1);
    generator.ids(MAX_COUNT / 100).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ids_increase_over_ticks_and_stay_in_the_window() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    let mut all: Vec<SnowflakeId> = Vec::new();
    for count in [1, 4096, 5000, 10_000] {
        all.extend(generator.ids(count).await.unwrap());
    }
    assert!(all.is_sorted_by(|one, next| one < next));
    let (from, fence) = cluster.window(0);
    for id in all {
        let (tick, worker) = cluster.parts(id);
        assert!(worker == 0 && (from..fence).contains(&tick));
    }
    for count in [0, MAX_COUNT + 1] {
        let refused = generator.ids(count).await.unwrap_err();
        assert!(matches!(refused, GenerateError::Count { .. }), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_closed_and_another_is_taken() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    let before = generator.ids(100).await.unwrap();
    cluster.end_leases();
    sleep(secs(11)).await;
    let after = generator.ids(100).await.unwrap();
    assert_eq!(generator.status().leases, 2);
    let both: BTreeSet<_> = before.iter().chain(&after).collect();
    assert_eq!(both.len(), 200);
    let (_, worker) = cluster.parts(after[0]);
    assert_eq!(worker, 1, "the first worker's window has not ended");
    let (from, fence) = cluster.window(worker);
    for id in after {
        assert!((from..fence).contains(&cluster.parts(id).0));
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_cluster_it_mints_up_to_the_fence_and_later_continues() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.id().await.unwrap();
    cluster.set_down(true);
    let until = Instant::now() + WINDOW - Duration::from_millis(1);
    while Instant::now() < until {
        generator.ids_within(1, Duration::ZERO).await.unwrap();
        advance(Duration::from_millis(97)).await;
    }
    sleep(secs(5)).await;
    let began = Instant::now();
    let refused = generator.id().await.unwrap_err();
    let words = refused.to_string();
    assert!(
        matches!(refused, GenerateError::WindowEnded { .. }),
        "{words}"
    );
    assert!(words.contains("2026-11-23T19:00:30"), "{words}");
    assert!(words.contains("connection refused"), "{words}");
    assert!(began.elapsed() >= secs(5), "it waited for its patience");
    let asked = cluster.asked();
    let last = asked.last().unwrap().0;
    let second = asked
        .iter()
        .filter(|(at, _)| *at + secs(10) >= last)
        .count();
    assert!(second <= 10, "{second} requests in ten seconds");

    cluster.set_down(false);
    generator.id().await.unwrap();
    // No other holder had the worker in between: the same lease continues.
    assert_eq!(generator.status().leases, 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_patience_is_refused_at_once() {
    let (cluster, clock) = (cluster(), Clock::new());
    cluster.set_down(true);
    let generator = start(&cluster, "a", &clock);
    sleep(secs(1)).await;
    let began = Instant::now();
    let refused = generator.ids_within(1, Duration::ZERO).await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::NoLease { why: Some(_) }),
        "{refused}"
    );
    assert!(began.elapsed() < Duration::from_millis(10));
    assert!(generator.try_id().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_is_refused_until_it_has_caught_up() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    let before = generator.id().await.unwrap();
    clock.step_ms(-4000);
    let refused = generator.id().await.unwrap_err();
    let GenerateError::ClockBehind { by_ms, until } = refused else {
        panic!("{refused}");
    };
    assert!(by_ms > 3900 && until.0 >= BEGINS, "{refused}");
    sleep(secs(5)).await;
    assert!(generator.id().await.unwrap() > before);
    // A small rollback is waited out.
    clock.step_ms(-20);
    let began = Instant::now();
    generator.id().await.unwrap();
    assert!(began.elapsed() <= Duration::from_millis(25));
}

#[tokio::test(start_paused = true)]
async fn a_reading_before_that_of_another_thread_is_replaced_by_a_second_one() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    let mut before = generator.id().await.unwrap();
    for _ in 0..10 {
        sleep(Duration::from_millis(200)).await;
        let other = generator.id().await.unwrap();
        clock.reading_once_behind_ms(100);
        let id = generator.id().await.unwrap();
        clock.reading_once_behind_ms(100);
        let next = generator.try_id().unwrap().unwrap();
        assert!(before < other && other < id && id < next);
        before = next;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_while_the_lease_is_lost_mints_no_earlier_tick() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.ready().await.unwrap();
    sleep(secs(7)).await;
    let before = generator.id().await.unwrap();
    cluster.end_leases();
    clock.step_ms(-6000);
    sleep(secs(4)).await;
    assert_eq!(generator.status().leases, 2);
    let refused = generator.id().await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::ClockBehind { .. }),
        "{refused}"
    );
    sleep(secs(3)).await;
    let after = generator.id().await.unwrap();
    assert!(cluster.parts(after).0 >= cluster.parts(before).0);
}

#[tokio::test(start_paused = true)]
async fn a_jump_ahead_is_trusted_once_it_is_steady() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.id().await.unwrap();
    clock.step_ms(8000);
    let refused = generator.id().await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::ClockJumped { by_ms: 8000 }),
        "{refused}"
    );
    sleep(secs(4)).await;
    assert!(generator.id().await.is_err());
    sleep(secs(3)).await;
    generator.id().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clock_ahead_of_the_cluster_by_a_window_is_named() {
    let (cluster, clock) = (cluster(), Clock::new());
    clock.step_ms(60_000);
    let generator = start(&cluster, "a", &clock);
    let refused = generator.id().await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::ClockAhead { .. }),
        "{refused}"
    );
    assert!(cluster.asked().len() <= 2, "{:?}", cluster.asked());
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_refused_and_leaves_the_lease_alone() {
    let (cluster, clock) = (cluster(), Clock::new());
    let other = std::process::id() + 1;
    let generator = IdGenerator::with(cluster.clone(), options("a", &clock), other).unwrap();
    sleep(secs(1)).await;
    for refused in [
        generator.id().await.unwrap_err(),
        generator.ids(5).await.unwrap_err(),
        generator.try_id().unwrap_err(),
        generator.ready().await.unwrap_err(),
    ] {
        let is_forked =
            matches!(refused, GenerateError::Forked { made_in, .. } if made_in == other);
        assert!(is_forked, "{refused}");
    }
    generator.close().await.unwrap();
    drop(generator);
    sleep(secs(1)).await;
    assert_eq!(
        cluster.count(|asked| matches!(asked, Asked::Release(..))),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn close_gives_the_worker_back_with_the_last_tick() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    let last = *generator.ids(9000).await.unwrap().last().unwrap();
    sleep(secs(3)).await;
    generator.close().await.unwrap();
    let (tick, worker) = cluster.parts(last);
    let release = Asked::Release(worker, Some(tick));
    assert_eq!(cluster.asked().last().unwrap().1, release);
    assert!(matches!(generator.id().await, Err(GenerateError::Closed)));
    assert_eq!(generator.status().worker, None);
    generator.close().await.unwrap();
    assert_eq!(
        cluster.count(|asked| matches!(asked, Asked::Release(..))),
        1
    );

    // The same owner receives the same worker, and another owner does not have to wait.
    let again = start(&cluster, "a", &clock);
    let after = again.id().await.unwrap();
    assert_eq!(cluster.parts(after).1, worker);
    assert!(after > last);
}

#[tokio::test(start_paused = true)]
async fn close_without_an_id_gives_the_whole_window_back() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.ready().await.unwrap();
    let (from, _) = cluster.window(0);
    generator.close().await.unwrap();
    assert_eq!(cluster.window(0), (from, from));
}

#[tokio::test(start_paused = true)]
async fn close_without_the_cluster_mints_nothing_and_reports_until_when_the_worker_is_taken() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.id().await.unwrap();
    cluster.set_down(true);
    let kept = generator.close().await.unwrap_err().to_string();
    assert!(
        kept.contains("worker 0") && kept.contains("19:00:30"),
        "{kept}"
    );
    assert!(matches!(generator.id().await, Err(GenerateError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_generator_that_is_dropped_stops_renewing() {
    let (cluster, clock) = (cluster(), Clock::new());
    let generator = start(&cluster, "a", &clock);
    generator.id().await.unwrap();
    drop(generator);
    sleep(secs(60)).await;
    assert_eq!(cluster.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_generators_never_share_a_worker() {
    let (cluster, clock) = (cluster(), Clock::new());
    let one = start(&cluster, "a", &clock);
    let two = start(&cluster, "a", &clock);
    let mut all = BTreeSet::new();
    for _ in 0..50 {
        all.extend(one.ids(100).await.unwrap());
        all.extend(two.ids(100).await.unwrap());
    }
    assert_eq!(all.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_one_worker() {
    let (cluster, clock) = (cluster(), Clock::new());
    cluster.lose_answers(2);
    let generator = start(&cluster, "a", &clock);
    let id = generator.id().await.unwrap();
    assert_eq!(cluster.parts(id).1, 2);
    assert_eq!(cluster.count(|asked| *asked == Asked::Lease), 3);
}

#[tokio::test(start_paused = true)]
async fn exhausted_workers_are_waited_for_and_named_with_their_time() {
    let cluster = Cluster::new(1, 30_000);
    let clock = Clock::new();
    let first = start(&cluster, "a", &clock);
    first.id().await.unwrap();
    let second = start(&cluster, "b", &clock);
    let refused = second.id().await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::WorkersExhausted { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("2026-11-23T19:00:30"),
        "{refused}"
    );
    drop(first);
    let began = Instant::now();
    second.ids_within(1, secs(60)).await.unwrap();
    assert!(began.elapsed() <= secs(32), "{:?}", began.elapsed());
    assert!(cluster.asked().len() < 15, "{:?}", cluster.asked());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_stays_is_answered_at_once() {
    let (cluster, clock) = (cluster(), Clock::new());
    cluster.refuse(Some(Problem::new(
        ErrorCode::Forbidden,
        "no right to allocate",
    )));
    let generator = start(&cluster, "a", &clock);
    let began = Instant::now();
    let refused = generator.id().await.unwrap_err();
    assert!(matches!(refused, GenerateError::Refused(_)), "{refused}");
    assert!(began.elapsed() < secs(1));
    cluster.refuse(Some(Problem::new(
        ErrorCode::LayoutExhausted,
        "full since 2024",
    )));
    sleep(secs(15)).await;
    let refused = generator.id().await.unwrap_err();
    assert!(
        matches!(refused, GenerateError::LayoutExhausted { .. }),
        "{refused}"
    );
    cluster.refuse(None);
    sleep(secs(15)).await;
    generator.id().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_definition_is_refused_and_its_worker_released() {
    for field in ["order", "first_sequence"] {
        let (cluster, clock) = (cluster(), Clock::new());
        cluster.change_layout(|layout| match field {
            "order" => layout.order = "worker-tick-sequence".to_owned(),
            _ => layout.first_sequence = "random".to_owned(),
        });
        let generator = start(&cluster, "a", &clock);
        let refused = generator.id().await.unwrap_err();
        assert!(refused.to_string().contains(field), "{refused}");
        let (from, fence) = cluster.window(0);
        assert_eq!(from, fence);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_no_cluster_takes_is_refused_before_any_request() {
    let (cluster, clock) = (cluster(), Clock::new());
    for owner in ["", "a\nb", &"a".repeat(256)] {
        let made = IdGenerator::with(cluster.clone(), options(owner, &clock), 1);
        assert!(
            matches!(made, Err(GenerateError::Owner { .. })),
            "{owner:?}"
        );
    }
    assert!(clock.wall().0 >= BEGINS && cluster.asked().is_empty());
}
