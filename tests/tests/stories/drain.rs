//! Drains: a node that leaves its balancers serves every request, and others lead.

use std::time::Duration;

use rustix::process::Signal;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::http::get;
use seqd_tests::wait;
use serde_json::{Value, json};

/// Longer than it takes until every member has reported its state to the others.
const KNOWN_EVERYWHERE: Duration = Duration::from_secs(5);

fn state(cluster: &Cluster, asked: usize, node: usize) -> String {
    let member = cluster.member(asked, node).expect("the member");
    member["state"].as_str().expect("a state").to_owned()
}

fn change(cluster: &Cluster, asked: usize, node: usize, what: &str) -> Value {
    let name = cluster.node(node).name();
    let path = format!("/v1/cluster/members/{name}/{what}");
    cluster.post(asked, &path).ok().json()
}

fn worker(cluster: &Cluster, node: usize) -> Value {
    cluster.member(node, node).expect("the node itself")["workers"]["default"].clone()
}

#[test]
fn a_drained_leader_serves_on_without_leading_until_it_is_resumed() {
    let cluster = Cluster::started(3).with_order();
    let drained = cluster.leader();
    let asked = (drained + 1) % 3;
    let name = cluster.node(drained).name().to_owned();

    let path = format!("/v1/cluster/members/{name}/drain?dry_run=1");
    let plan = cluster.post(asked, &path).ok().json();
    let effect = plan["effect"].as_str().expect("an effect");
    assert!(effect.contains("leadership moves to n"), "{effect}");
    wait::until("a dry run changes nothing", KNOWN_EVERYWHERE, || {
        (state(&cluster, asked, drained) == "ready").then_some(())
    });

    let drain = change(&cluster, asked, drained, "drain");
    assert_eq!(
        (&drain["name"], &drain["draining"]),
        (&json!(name), &json!(true))
    );
    assert_eq!(drain["role"], "follower", "another node leads: {drain}");
    let leader = drain["leader"].as_str().expect("the next leader");
    assert_ne!(leader, name, "{drain}");
    for node in [asked, drained] {
        assert_eq!(state(&cluster, node, drained), "draining");
    }
    let ready = cluster.get(drained, "/readyz").refused(503, "draining");
    assert!(ready.detail().contains("seqd resume"), "{}", ready.detail());
    cluster.get(drained, "/livez").ok();
    for _ in 0..3 {
        cluster.get(drained, "/v1/id").ok();
        cluster.next(drained, "order", 1);
    }
    // A repetition changes nothing.
    assert_eq!(
        change(&cluster, drained, drained, "drain")["draining"],
        true
    );

    // The lost leader is replaced by the node that is not drained.
    let (lost, heir) = (
        cluster.leader(),
        (0..3).find(|node| *node != drained && *node != cluster.leader()),
    );
    let heir = heir.expect("three nodes");
    let mut cluster = cluster;
    cluster.node_mut(lost).kill();
    wait::until("the node that is not drained leads", READY, || {
        let view = cluster.node(drained).cluster_view()?;
        (view["leader"] == *cluster.node(heir).name()).then_some(())
    });

    let asked = heir;
    assert_eq!(
        change(&cluster, asked, drained, "resume")["draining"],
        false
    );
    wait::until("it is ready again", KNOWN_EVERYWHERE, || {
        (cluster.node(drained).is_ready() && state(&cluster, asked, drained) == "ready")
            .then_some(())
    });
}

#[test]
fn a_drained_node_returns_what_no_request_uses_and_leases_again_on_demand() {
    let cluster = Cluster::started(3);
    let small = json!({"segment": {"min": 100, "max": 100}});
    cluster.create_sequence(0, "tickets", &small);
    assert_eq!(cluster.next(0, "tickets", 3), (1, 3));
    assert!(worker(&cluster, 0).is_number());
    change(&cluster, 1, 0, "drain");
    wait::until("the worker and the range are returned", READY, || {
        let sequence = cluster.get(1, "/v1/sequences/tickets").ok().json();
        let allocated = seqd_tests::cluster::integer(&sequence["allocated"]);
        (worker(&cluster, 0).is_null() && allocated == 3).then_some(())
    });
    cluster.get(0, "/v1/id").ok();
    assert!(worker(&cluster, 0).is_number(), "a request leases a worker");
    assert_eq!(cluster.next(0, "tickets", 1), (4, 4));
    change(&cluster, 1, 0, "resume");
    wait::until("it is ready again", READY, || {
        cluster.node(0).is_ready().then_some(())
    });
    assert!(cluster.next(1, "tickets", 1).0 > 4);
}

#[test]
fn every_node_may_drain_and_one_of_them_leads_on() {
    let mut cluster = Cluster::started(3).with_order();
    for node in 0..3 {
        change(&cluster, node, node, "drain");
    }
    cluster.next(0, "order", 1);
    let leader = cluster.leader();
    let left: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    cluster.node_mut(leader).kill();
    wait::until(
        "a draining voter leads, because no other is left",
        READY,
        || {
            let url = cluster.url(left[0], "/v1/sequences/order/next");
            seqd_tests::http::post(&url)
                .send()
                .is_ok_and(|reply| reply.is_ok())
                .then_some(())
        },
    );
    // A restart ends a drain.
    cluster.node_mut(leader).start();
    cluster.wait_ready_of(&[leader], READY);
    wait::until("the node that is not drained leads", READY, || {
        let view = cluster.node(left[0]).cluster_view()?;
        (view["leader"] == *cluster.node(leader).name()).then_some(())
    });
}

#[test]
fn a_node_that_is_not_there_cannot_be_drained() {
    let mut cluster = Cluster::started(3);
    let unknown = cluster.post(0, "/v1/cluster/members/n9/drain");
    assert!(
        unknown
            .refused(404, "not-found")
            .detail()
            .contains("n1, n2, n3")
    );
    cluster.node_mut(2).kill();
    let lost = cluster.post(0, "/v1/cluster/members/n3/drain");
    let lost = lost.refused(412, "precondition-failed");
    assert!(
        lost.detail().contains("n3 does not respond"),
        "{}",
        lost.detail()
    );
}

#[test]
fn two_signals_of_one_tool_do_not_end_a_clean_stop() {
    let mut cluster = Cluster::planned(1).with("http", "drain", "\"2s\"").ready();
    let small = json!({"segment": {"min": 100, "max": 100}});
    cluster.create_sequence(0, "tickets", &small);
    cluster.next(0, "tickets", 3);
    for signal in [Signal::TERM, Signal::TERM, Signal::INT] {
        cluster.node_mut(0).signal(signal);
    }
    wait::until("its readiness fails", READY, || {
        (cluster.get(0, "/readyz").code() == "draining").then_some(())
    });
    cluster.get(0, "/v1/id").ok();
    let ended = cluster.node_mut(0).exit_within(Duration::from_secs(12));
    assert_eq!(ended.code(), Some(0));
    let stderr = cluster.node(0).stderr();
    assert!(stderr.contains("part of the same request"), "{stderr}");
    assert!(
        cluster.node(0).last_line().contains("\"stopped\""),
        "{stderr}"
    );
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(
        cluster.next(0, "tickets", 1),
        (4, 4),
        "the range was returned"
    );
}

#[test]
fn a_later_signal_ends_the_drain_and_the_stop_remains_clean() {
    let mut cluster = Cluster::planned(1).with("http", "drain", "\"10m\"").ready();
    cluster.node_mut(0).signal(Signal::TERM);
    let log = cluster.node(0).stderr_file();
    // The signal is repeated until it counts as another request.
    let ended = wait::within(Duration::from_secs(15), || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if !text.contains("the drain ends early") {
            cluster.node_mut(0).signal(Signal::TERM);
        }
        cluster.node_mut(0).ended()
    });
    assert_eq!(
        ended.and_then(|status| status.code()),
        Some(0),
        "{}",
        cluster.node(0).tail()
    );
    assert!(cluster.node(0).last_line().contains("\"stopped\""));
}

#[test]
fn the_responses_of_a_drain_end_their_connections_in_its_second_half() {
    let mut cluster = Cluster::planned(1).with("http", "drain", "\"3s\"").ready();
    cluster.node_mut(0).signal(Signal::TERM);
    let mut seen = Vec::new();
    let url = cluster.url(0, "/v1/id");
    wait::until("a response ends its connection", READY, || {
        let reply = get(&url).reply().ok();
        seen.push(reply.header("connection").map(str::to_owned));
        (seen.last()?.as_deref() == Some("close")).then_some(())
    });
    assert_eq!(seen[0], None, "the first half keeps connections");
    cluster.get(0, "/v1/id").ok();
    let ended = cluster.node_mut(0).exit_within(Duration::from_secs(13));
    assert_eq!(ended.code(), Some(0));
}
