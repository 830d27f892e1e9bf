//! Real nodes on links that are cut, slow, far and broken: a few faults of `soak links`, each for
//! seconds.
//!
//! If such links are unavailable (see `seqd_tests::links`), a story prints that and ends.

use std::time::Duration;

use seqd_tests::checkers::linearizable;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::failover::{LOSSES, cluster, lose_leader};
use seqd_tests::history::Timeline;
use seqd_tests::link_faults::LinkFault;
use seqd_tests::link_runs::{LONGEST_PAUSE, LinkRun, Seen};
use seqd_tests::links::{Condition, Pairs};
use seqd_tests::workload::{Route, Workload};
use seqd_tests::{links, skips, wait};

/// The duration of a fault: longer than a heartbeat, an election and a request's timeout.
const LENGTH: Duration = Duration::from_secs(5);

/// The duration of a fault if elections are late.
const LONGER: Duration = Duration::from_secs(8);

/// After this time, a leader without contact to the other nodes has detected that.
const SURELY_ALONE: Duration = Duration::from_millis(2_500);

/// Less than the deadline of a request, which is 3 s by default.
const IN_TIME: Duration = Duration::from_millis(2_500);

/// Runs a fault of `soak links` on three nodes, during which values must continue. Returns `None`
/// if links are unavailable.
fn three_nodes_under(fault: &str) -> Option<Seen> {
    if skips::ends(&format!("links {fault}"), links::unavailable()) {
        return None;
    }
    let fault = LinkFault::named(fault).expect("a fault of the table");
    let is_patient = fault.spares_the_leader();
    let run = LinkRun {
        nodes: 3,
        fault,
        length: if is_patient { LONGER } else { LENGTH },
        is_patient,
    };
    let seen = run.judged().unwrap();
    assert!(seen.strict > 0, "{seen:?}");
    Some(seen)
}

#[test]
fn a_majority_continues_without_an_isolated_leader() {
    if let Some(seen) = three_nodes_under("leader-alone") {
        assert!(seen.elections > 0);
    }
}

#[test]
fn an_isolated_follower_deposes_no_leader() {
    if let Some(seen) = three_nodes_under("follower-alone") {
        assert_eq!(seen.elections, 0);
    }
}

/// Only one node finds the leader's port closed; the others reach the leader.
#[test]
fn a_follower_whose_connections_are_refused_deposes_no_leader() {
    if let Some(seen) = three_nodes_under("one-is-refused") {
        assert_eq!(seen.elections, 0);
    }
}

#[test]
fn values_continue_over_round_trips_of_50_ms() {
    if let Some(seen) = three_nodes_under("rtt-50") {
        assert_eq!(seen.elections, 0);
    }
}

#[test]
fn values_continue_when_followers_have_12_mbit_per_second() {
    if let Some(seen) = three_nodes_under("mbit-12") {
        assert_eq!(seen.elections, 0);
    }
}

#[test]
fn values_continue_when_a_follower_and_the_leader_get_resets() {
    three_nodes_under("leader-and-one-reset");
}

/// `soak failover` measures how fast this is.
#[test]
fn a_leader_that_is_killed_stopped_cut_off_or_silent_is_replaced() {
    if skips::ends("links failover", links::unavailable()) {
        return;
    }
    let mut cluster = cluster(3);
    for (name, loss) in LOSSES {
        let seen = lose_leader(&mut cluster, loss, 8).unwrap();
        println!("{name}: {seen:?}");
        assert!(seen.terms > 0, "{name}: {seen:?}");
        let told = seen.told.unwrap_or_default();
        let late = seen.next.max(told);
        assert!(late <= LONGEST_PAUSE, "{name}: {seen:?}");
    }
}

#[test]
fn values_continue_over_round_trips_of_100_ms_with_loss() {
    three_nodes_under("rtt-100-loss-2");
}

/// Clients send requests to the leader while its links are cut. Pending requests are answered
/// before their deadline, and later requests do not wait for theirs.
#[test]
fn a_leader_that_is_cut_off_answers_its_own_clients() {
    if skips::ends("links isolated leader", links::unavailable()) {
        return;
    }
    let cluster = cluster(3);
    let leader = cluster.leader();
    let timeline = Timeline::begin();
    let mut load = cluster.load(8, Route::Fixed, 1, 0);
    load.urls = vec![cluster.node(leader).url()];
    let workload = Workload::next(load, timeline, "order");
    workload.wait_for(20, READY);
    let cut = timeline.at();
    let pairs = Pairs::around(&[leader], 3);
    let fault = cluster.links().impose(pairs, Condition::Cut);
    std::thread::sleep(LENGTH);
    let end = timeline.at();
    fault.heal();
    let history = workload.finish();
    linearizable::strict(&history).unwrap();
    let longest = |from: Duration| {
        let asked = history
            .iter()
            .filter(|op| op.call.since(cut) >= from && op.back <= end);
        asked.map(|op| op.back.since(op.call)).max()
    };
    let under_way = history.iter().filter(|op| op.call < cut && op.back >= cut);
    let told = under_way.map(|op| op.back.since(cut)).max();
    let later = longest(SURELY_ALONE).expect("requests to a leader that is alone");
    println!("under way: {told:?}; later: {later:?}");
    assert!(told <= Some(IN_TIME), "under way when it was cut: {told:?}");
    assert!(later <= IN_TIME, "asked for when it was alone: {later:?}");
}

/// The follower receives the leader's messages, so it has contact with a quorum. But a request that
/// needs the leader would fail there.
#[test]
fn a_follower_that_does_not_reach_its_leader_is_not_ready() {
    if skips::ends("links readiness", links::unavailable()) {
        return;
    }
    let cluster = Cluster::on_links(3, 0).patient().ready().with_order();
    let (leader, follower) = (cluster.leader(), cluster.follower());
    let name = cluster.node(leader).name();
    let links = cluster.links();
    let refused = links.impose(Pairs::one_way(&[follower], &[leader]), Condition::Refused);
    links.break_connections(follower, leader);
    let why = wait::until("the follower is not ready", READY, || {
        let ready = cluster.get(follower, "/readyz");
        (ready.status == 503).then(|| ready.detail())
    });
    assert!(
        why.contains(&format!("does not reach the leader {name}")),
        "{why}"
    );
    // The leader's own pings, one a second, do not make it ready.
    for _ in 0..25 {
        cluster.get(follower, "/readyz").refused(503, "no-quorum");
        std::thread::sleep(Duration::from_millis(100));
    }
    let view = cluster.node(follower).cluster_view().expect("it serves");
    assert_eq!(view["leader"], *name, "it hears the leader: {view}");
    for path in ["/v1/sequences/order/next", "/v1/timestamps/next"] {
        let expected = format!("does not reach the leader {name}");
        wait::until("a request names the leader", READY, || {
            let reply = cluster.post(follower, path);
            (reply.code() == "no-quorum" && reply.detail().contains(&expected)).then_some(())
        });
    }
    refused.heal();
    cluster.wait_ready();
}
