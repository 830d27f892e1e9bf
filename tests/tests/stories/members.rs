//! Members come and go while IDs and sequences go on.

use std::time::Duration;

use seqd_tests::checkers::{linearizable, pauses, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::workload::{Route, Workload};
use seqd_tests::{http, wait};
use serde_json::json;

/// The longest time without an ID, or without a strict value, from any of the nodes.
const PAUSE: Duration = Duration::from_secs(3);

fn role_of(cluster: &Cluster, at: usize, name: &str) -> Option<String> {
    let view = cluster.node(at).cluster_view()?;
    let members = view["members"].as_array()?.clone();
    let member = members.into_iter().find(|member| member["name"] == name)?;
    member["role"].as_str().map(str::to_owned)
}

#[test]
fn a_fourth_node_joins_and_the_leader_leaves_without_a_pause() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let timeline = Timeline::begin();
    let load = |clients, route| cluster.load(clients, route, 1, 5);
    let ids = Workload::ids(load(3, Route::Fixed), timeline);
    let values = Workload::next(load(4, Route::Roaming), timeline, "order");
    values.wait_for(50, READY);
    let from = timeline.at();

    let fourth = cluster.add_stranger("n4");
    cluster.node_mut(fourth).start();
    wait::until("n4 to wait for its being added", READY, || {
        cluster
            .node(fourth)
            .stderr()
            .contains("member add n4")
            .then_some(())
    });
    let leader = cluster.leader();
    let other = (leader + 1) % 3;
    cluster.add_member(fourth, other);
    wait::until("n4 to be a learner", READY, || {
        (role_of(&cluster, other, "n4").as_deref() == Some("learner")).then_some(())
    });
    cluster.wait_ready_of(&[fourth], READY);
    cluster.get(fourth, "/v1/id").ok();

    cluster.promote(fourth, other);
    wait::until("n4 to be a voter", READY, || {
        (role_of(&cluster, fourth, "n4").as_deref() == Some("follower")).then_some(())
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
        role_of(&cluster, asked, &name).is_none().then_some(())
    });
    values.wait_for(50, READY);
    let to = timeline.at();

    let (ids, values) = (ids.finish(), values.finish());
    println!("ids {:?} {:?}", tally(&ids), reasons(&ids));
    println!("values {:?} {:?}", tally(&values), reasons(&values));
    unique::numbers(&ids).unwrap();
    linearizable::strict(&values).unwrap();
    for node in (0..3).filter(|&node| node != leader) {
        pauses::check_node(&ids, node, (from, to), PAUSE).unwrap();
    }
    let pause = pauses::check_all(&values, (from, to), PAUSE).unwrap();
    println!("longest pause of the strict sequence: {pause:?}");

    // Starting again does not help: the node was removed for good.
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
    // Of the two voters that would remain only one is there.
    let name = cluster.node(third).name();
    let url = cluster.url(leader, &format!("/v1/cluster/members/{name}"));
    http::request("DELETE", &url)
        .reply()
        .refused(409, "unsafe-member-removal");
}
