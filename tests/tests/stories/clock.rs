//! A node whose wall clock went back does not mint at or below its last tick, returns
//! `clock-behind`, and serves every request that needs no clock. A node whose clock is wrong mints
//! nothing, and does not stop the others.
//!
//! If clocks cannot be shifted here (see `seqd_tests::clock`), a story is skipped. The stories of
//! the node crate test the same rules through its clock port.

use std::time::{Duration, Instant};

use seqd_tests::checkers::{increasing, unique};
use seqd_tests::clock::{Clocks, ShiftedClock, names_a_time};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Ids, Op, Timeline};
use seqd_tests::workload::{Load, Route, Workload};
use seqd_tests::{http, wait};

/// The node whose clock is shifted.
const SHIFTED: usize = 2;

/// The number of bits below the tick in the layout `default`.
const TICK_SHIFT: u32 = 22;

fn cluster_with_a_shifted_clock() -> Option<(Cluster, ShiftedClock)> {
    with_a_shifted_clock(Cluster::planned(3))
}

fn with_a_shifted_clock(mut cluster: Cluster) -> Option<(Cluster, ShiftedClock)> {
    let folder = cluster.folder().to_path_buf();
    let clock = ShiftedClock::for_node(cluster.node_mut(SHIFTED), &folder)?;
    Some((cluster.ready().with_order(), clock))
}

fn id_from(cluster: &Cluster, node: usize) -> u64 {
    cluster
        .get(node, "/v1/id")
        .ok()
        .body
        .trim()
        .parse()
        .expect("an ID")
}

/// Asserts the behaviour of a node whose clock is ten seconds behind its last used tick.
fn assert_behind(cluster: &Cluster) {
    let refusal = wait::until("the refusal of a clock that is behind", READY, || {
        let reply = http::get(&cluster.url(SHIFTED, "/v1/id")).send().ok()?;
        (reply.code() == "clock-behind").then_some(reply)
    });
    let refusal = refusal.refused(503, "clock-behind");
    let body = refusal.json();
    let detail = body["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(" ms behind"), "no gap in {detail:?}");
    assert!(names_a_time(detail), "no end of it in {detail:?}");
    let readiness = cluster.get(SHIFTED, "/readyz?verbose");
    assert_eq!(readiness.status, 503);
    assert!(
        readiness.body.contains("clock-behind"),
        "{}",
        readiness.body
    );
    let (first, _) = cluster.next(SHIFTED, "order", 1);
    let (second, _) = cluster.next(SHIFTED, "order", 1);
    assert!(second > first);
    id_from(cluster, 0);
    id_from(cluster, 1);
}

/// Asserts that an ID is above the last one, and in a later tick.
#[track_caller]
fn assert_above(id: u64, last: u64) {
    assert!(id > last, "{id} after {last}");
    assert!(
        id >> TICK_SHIFT > last >> TICK_SHIFT,
        "{id} in the tick of {last}"
    );
}

fn assert_serves_again(cluster: &Cluster, last: u64) {
    let id = wait::until("IDs again", Duration::from_secs(10), || {
        let reply = cluster.get(SHIFTED, "/v1/id");
        (reply.status == 200).then(|| reply.body.trim().parse::<u64>().expect("an ID"))
    });
    assert_above(id, last);
    cluster.wait_ready_of(&[SHIFTED], READY);
}

#[test]
fn a_start_with_the_clock_10_s_back_refuses_ids_until_the_clock_is_right() {
    let Some((mut cluster, clock)) = cluster_with_a_shifted_clock() else {
        return;
    };
    let last = id_from(&cluster, SHIFTED);
    assert_eq!(cluster.node_mut(SHIFTED).stop().code(), Some(0));
    clock.shift_ms(-10_000);
    cluster.node_mut(SHIFTED).start();
    assert_behind(&cluster);
    clock.shift_ms(0);
    assert_serves_again(&cluster, last);
}

#[test]
fn a_step_of_ten_seconds_back_while_running_refuses_ids_until_the_clock_is_right() {
    let Some((cluster, clock)) = cluster_with_a_shifted_clock() else {
        return;
    };
    let last = id_from(&cluster, SHIFTED);
    clock.shift_ms(-10_000);
    assert_behind(&cluster);
    clock.shift_ms(0);
    assert_serves_again(&cluster, last);
}

/// Longer than any start, so the clock is still behind when the node could mint.
const BEHIND: Duration = Duration::from_secs(8);

#[test]
fn a_start_with_the_clock_back_within_the_tolerance_mints_once_it_has_caught_up() {
    let planned = Cluster::planned(3)
        .with("clock", "max_backward_wait", "\"30s\"")
        .with("clock", "max_peer_skew", "\"30s\"");
    let Some((mut cluster, clock)) = with_a_shifted_clock(planned) else {
        return;
    };
    let last = id_from(&cluster, SHIFTED);
    let minted = Instant::now();
    assert_eq!(cluster.node_mut(SHIFTED).stop().code(), Some(0));
    clock.shift_ms(-i64::try_from((minted.elapsed() + BEHIND).as_millis()).unwrap());
    let caught_up = Instant::now() + BEHIND;
    cluster.node_mut(SHIFTED).start();
    wait::until("an answer of the started node", READY, || {
        http::get(&cluster.url(SHIFTED, "/readyz")).send().ok()
    });
    assert!(
        Instant::now() < caught_up,
        "the start took longer than its clock was behind"
    );
    let id = wait::until("IDs again", READY, || {
        let reply = http::get(&cluster.url(SHIFTED, "/v1/id")).send().ok()?;
        (reply.status == 200).then(|| reply.body.trim().parse::<u64>().expect("an ID"))
    });
    assert!(
        Instant::now() >= caught_up,
        "{id} came before the clock had caught up"
    );
    assert_above(id, last);
}

#[test]
fn steps_of_twenty_milliseconds_while_running_are_waited_out() {
    let Some((cluster, clock)) = cluster_with_a_shifted_clock() else {
        return;
    };
    let load = Load {
        urls: vec![cluster.node(SHIFTED).url()],
        ..cluster.load(2, Route::Fixed, 10, 0)
    };
    let workload = Workload::ids(load, Timeline::begin());
    for step in 1..=20 {
        clock.shift_ms(if step % 2 == 0 { 0 } else { -20 });
        workload.wait_for(10, READY);
    }
    let history = workload.finish();
    assert!(
        history.iter().all(|op| op.answer().is_some()),
        "a refusal for 20 ms"
    );
    // For each step back, a request waited for most of it.
    let waits = |op: &&Op<Ids>| op.back.since(op.call) >= Duration::from_millis(10);
    let waited = history.iter().filter(waits).count();
    assert!(waited >= 10, "{waited} requests waited: no step was seen");
    unique::numbers(&history).unwrap();
    increasing::ids_per_worker(&history).unwrap();
}

/// The longest time for which nodes whose clocks are right may refuse IDs.
const MAY_REFUSE: Duration = Duration::from_secs(5);

/// Sets the leader's clock. The other nodes must continue, and so must the node itself when its
/// clock is right again.
fn set_the_leaders_clock(by_ms: i64) {
    let mut cluster = Cluster::planned(3).with("clock", "window", "\"6s\"");
    let Some(mut clocks) = Clocks::of(&mut cluster) else {
        return;
    };
    let cluster = cluster.ready();
    let wrong = cluster.leader();
    let right: Vec<usize> = (0..3).filter(|node| *node != wrong).collect();
    clocks.set(wrong, by_ms);
    let begin = Instant::now();
    let refusal = wait::until("the refusal of a clock that is wrong", READY, || {
        let reply = http::get(&cluster.url(wrong, "/v1/id")).send().ok()?;
        (reply.status == 503).then_some(reply)
    });
    let code = refusal.code();
    assert!(
        ["clock-skewed", "clock-behind"].contains(&code.as_str()),
        "{}",
        refusal.body
    );
    wait::until("another leader", READY, || {
        (cluster.leader() != wrong).then_some(())
    });
    println!("{by_ms} ms: another leads after {:?}", begin.elapsed());
    // Longer than a window, so leaders with right clocks have extended the windows.
    let until = begin + Duration::from_secs(15);
    let mut served = [Instant::now(); 2];
    while Instant::now() < until {
        for (node, last) in right.iter().zip(&mut served) {
            if http::get(&cluster.url(*node, "/v1/id"))
                .send()
                .is_ok_and(|reply| reply.status == 200)
            {
                *last = Instant::now();
            }
            assert!(last.elapsed() <= MAY_REFUSE, "n{} refuses IDs", node + 1);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let member = cluster.member(right[0], wrong).expect("a member");
    assert_eq!(member["state"], "skewed", "{member}");
    let ahead_ms = member["clock_ahead_ms"].as_f64().expect("how far");
    assert!((ahead_ms - by_ms as f64).abs() < 1_000.0, "{ahead_ms}");
    clocks.set(wrong, 0);
    let corrected = Instant::now();
    wait::until("IDs of the corrected node", READY, || {
        let reply = http::get(&cluster.url(wrong, "/v1/id")).send().ok()?;
        (reply.status == 200).then_some(())
    });
    println!(
        "{by_ms} ms: IDs again {:?} after the correction",
        corrected.elapsed()
    );
    cluster.wait_ready();
}

#[test]
fn a_leader_an_hour_ahead_stops_no_other_node_and_serves_again_when_it_is_right() {
    set_the_leaders_clock(3_600_000);
}

#[test]
fn a_leader_three_seconds_back_stops_no_other_node_and_serves_again_when_it_is_right() {
    set_the_leaders_clock(-3_000);
}
