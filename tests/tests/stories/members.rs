//! Members are added and removed while IDs and sequences continue.

use rustix::process::Signal;
use seqd_tests::binary::run;
use seqd_tests::checkers::{linearizable, pauses, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::link_runs::LONGEST_PAUSE;
use seqd_tests::workload::{Route, Workload};
use seqd_tests::{http, wait};
use serde_json::json;

fn role_of(cluster: &Cluster, at: usize, index: usize) -> Option<String> {
    cluster.member(at, index)?["role"]
        .as_str()
        .map(str::to_owned)
}

#[test]
fn a_fourth_node_joins_and_the_leader_leaves_without_a_pause() {
    let mut cluster = Cluster::started(3).with_order();
    let timeline = Timeline::begin();
    let load = |clients, route| cluster.load(clients, route, 1, 5);
    let ids = Workload::ids(load(3, Route::Fixed), timeline);
    let values = Workload::next(load(4, Route::Roaming), timeline, "order");
    values.wait_for(50, READY);
    let from = timeline.at();

    let fourth = cluster.add_stranger("n4");
    cluster.start_stranger(fourth);
    let leader = cluster.leader();
    let other = (leader + 1) % 3;
    cluster.add_member(fourth, other);
    wait::until("n4 to be a learner", READY, || {
        (role_of(&cluster, other, fourth).as_deref() == Some("learner")).then_some(())
    });
    cluster.wait_ready_of(&[fourth], READY);
    cluster.get(fourth, "/v1/id").ok();

    cluster.promote(fourth, other);
    wait::until("n4 to be a voter", READY, || {
        (role_of(&cluster, fourth, fourth).as_deref() == Some("follower")).then_some(())
    });

    let leader = cluster.leader();
    let (name, asked) = (cluster.node(leader).name().to_owned(), (leader + 1) % 3);
    let url = cluster.url(asked, &format!("/v1/cluster/members/{name}"));
    http::request("DELETE", &url).reply().ok();
    let status = cluster.node_mut(leader).exit_within(READY);
    assert_eq!(status.code(), Some(9), "{}", cluster.node(leader).tail());
    let last = cluster.node(leader).last_line();
    assert!(
        last.contains("code=node-removed"),
        "{}",
        cluster.node(leader).tail()
    );
    wait::until("the removed node to be forgotten", READY, || {
        role_of(&cluster, asked, leader).is_none().then_some(())
    });
    values.wait_for(50, READY);
    let to = timeline.at();

    let (ids, values) = (ids.finish(), values.finish());
    println!("ids {:?} {:?}", tally(&ids), reasons(&ids));
    println!("values {:?} {:?}", tally(&values), reasons(&values));
    unique::numbers(&ids).unwrap();
    linearizable::strict(&values).unwrap();
    for node in (0..3).filter(|&node| node != leader) {
        pauses::check_node(&ids, node, (from, to), LONGEST_PAUSE).unwrap();
    }
    let pause = pauses::check_all(&values, (from, to), LONGEST_PAUSE).unwrap();
    println!("longest pause of the strict sequence: {pause:?}");

    // A restart does not help, because the removal is permanent.
    cluster.node_mut(leader).start();
    let status = cluster.node_mut(leader).exit_within(READY);
    assert_eq!(status.code(), Some(9), "{}", cluster.node(leader).tail());
}

#[test]
fn a_removal_that_would_lose_the_quorum_is_refused() {
    let mut cluster = Cluster::started(3);
    let (leader, follower) = (cluster.leader(), cluster.follower());
    let third = (0..3).find(|&i| i != leader && i != follower).unwrap();
    cluster.node_mut(follower).kill();
    wait::until("the loss to be seen", READY, || {
        let view = cluster.node(leader).cluster_view()?;
        (view["quorum"]["can_lose"] == json!(0)).then_some(())
    });
    // Of the two voters that would remain, only one is reachable.
    let name = cluster.node(third).name();
    let url = cluster.url(leader, &format!("/v1/cluster/members/{name}"));
    http::request("DELETE", &url)
        .reply()
        .refused(409, "unsafe-member-removal");
}

#[test]
fn a_change_of_voters_that_can_never_be_finished_is_left_by_recovering_one_node() {
    let mut cluster = Cluster::planned(3)
        .with("clock", "window", "\"3s\"")
        .ready()
        .with_order();
    assert_eq!(cluster.next(0, "order", 5), (1, 5));
    let fourth = cluster.add_stranger("n4");
    cluster.node_mut(fourth).start();
    let leader = cluster.leader();
    let (other, third) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.add_member(fourth, leader);
    cluster.wait_ready_of(&[fourth], READY);
    cluster.node_mut(third).kill();
    // The learner responded a moment ago and will not respond again: two of the four new voters
    // remain.
    let promote = cluster.url(leader, "/v1/cluster/members/n4/promote");
    wait::until("the change to begin and to be stuck", READY, || {
        cluster.node(fourth).signal(Signal::CONT);
        cluster.wait_ready_of(&[fourth], READY);
        cluster.node(fourth).signal(Signal::STOP);
        let reply = http::post(&promote).reply();
        // A machine that was too slow to send the request within these heartbeats retries.
        (reply.code() == "outcome-unknown").then_some(())
    });
    cluster.node_mut(fourth).kill();
    let order = cluster.url(leader, "/v1/sequences/order/next");
    http::post(&order).reply().refused(503, "no-quorum");

    for node in [leader, other] {
        cluster.node_mut(node).kill();
    }
    let folder = cluster.node(leader).data().display().to_string();
    let recover = ["data", "recover-quorum", "--data-dir", &folder];
    let stated = ["--floor", "order=6", "--yes"];
    let done = run(&[&recover[..], &stated].concat());
    assert!(done.status.success(), "{done:?}");
    cluster.node_mut(leader).start();
    cluster.wait_ready_of(&[leader], 2 * READY);
    assert_eq!(cluster.next(leader, "order", 1), (6, 6));
    let view = cluster.get(leader, "/v1/cluster").ok().json();
    assert_eq!(view["quorum"]["voters"], 1, "{view}");
    let node = cluster.node_mut(other);
    std::fs::remove_dir_all(node.data()).unwrap();
    node.start();
    cluster.add_member(other, leader);
    cluster.promote(other, leader);
    assert_eq!(cluster.next(other, "order", 1), (7, 7));
}
