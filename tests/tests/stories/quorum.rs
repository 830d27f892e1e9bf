//! Two of three nodes are gone: the requests that the remaining node serves, for how long, and its
//! errors.

use std::time::Duration;

use seqd_tests::clock::names_a_time;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::{http, wait};
use serde_json::json;

/// The minting window of these stories: long enough to observe serving, short enough to observe its
/// end.
const WINDOW: &str = "\"12s\"";

/// A request's own timeout on the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// [`REQUEST_TIMEOUT`] with a margin for the harness and the machine.
const TIMEOUT: Duration = Duration::from_millis(3000 + 2000);

#[test]
fn a_leader_without_a_quorum_reports_no_leader_everywhere() {
    let mut cluster = Cluster::started(3).with_order();
    let leader = cluster.leader();
    for follower in (0..3).filter(|&node| node != leader) {
        cluster.node_mut(follower).kill();
    }
    let order = cluster.url(leader, "/v1/sequences/order/next");
    let refused = wait::until("a clear no-quorum that names both", READY, || {
        let reply = http::post(&order).reply();
        let names = reply.detail().contains("reaches 1 of 3 voters, not n");
        (reply.code() == "no-quorum" && names).then_some(reply)
    });
    let detail = refused.detail();
    assert!(detail.contains("no leader with a quorum"), "{detail}");
    // The advice for a permanently lost majority does not appear in the first seconds.
    assert!(!detail.contains("recover-quorum"), "{detail}");
    let view = cluster.get(leader, "/v1/cluster").ok().json();
    assert!(view["leader"].is_null(), "{view}");
    assert!(view["quorum_lost_ms"].is_u64(), "{view}");
}

#[test]
fn the_survivor_mints_until_its_window_ends_and_then_reports_no_quorum_at_once() {
    let cluster = Cluster::planned(3).with("clock", "window", WINDOW);
    let mut cluster = cluster.ready().with_order();
    cluster.create_sequence(0, "ticket", &json!({"mode": "segment"}));
    assert_eq!(cluster.next(0, "order", 1), (1, 1));
    let survivor = cluster.follower();
    let victims: Vec<usize> = (0..3).filter(|&i| i != survivor).collect();
    victims.iter().for_each(|&i| cluster.node_mut(i).kill());

    cluster.get(survivor, "/v1/id").ok();
    let order = cluster.url(survivor, "/v1/sequences/order/next");
    wait::until("a clear no-quorum", READY, || {
        let reply = http::post(&order).reply();
        assert!(
            reply.elapsed <= TIMEOUT,
            "answered after {:?}",
            reply.elapsed
        );
        assert!(
            ["no-quorum", "outcome-unknown"].contains(&reply.code().as_str()),
            "{reply:?}"
        );
        (reply.code() == "no-quorum").then_some(())
    });
    // From now on the node has detected that there is no leader, and refuses before it proposes
    // anything.
    let reply = http::post(&order).reply().refused(503, "no-quorum");
    assert!(reply.retryable());
    assert!(
        reply.elapsed < REQUEST_TIMEOUT,
        "answered after {:?}",
        reply.elapsed
    );
    let never_used = cluster.url(survivor, "/v1/sequences/ticket/next");
    http::post(&never_used).reply().refused(503, "no-quorum");

    let readiness = cluster.get(survivor, "/readyz?verbose");
    assert_eq!(readiness.status, 503);
    assert!(
        names_a_time(&readiness.body),
        "no end of the window in {}",
        readiness.body
    );
    wait::until("the end of the window", READY, || {
        let reply = cluster.get(survivor, "/v1/id");
        assert!(
            reply.elapsed <= TIMEOUT,
            "answered after {:?}",
            reply.elapsed
        );
        (reply.status != 200).then(|| reply.refused(503, "no-quorum"))
    });
    // The response names the missing nodes and the remedy.
    let refused = http::post(&order).reply().refused(503, "no-quorum").json();
    let (detail, hint) = (refused["detail"].to_string(), refused["hint"].to_string());
    assert!(detail.contains("reaches 1 of 3 voters, not n"), "{refused}");
    assert!(hint.contains("seqd status"), "{refused}");

    cluster.node_mut(victims[0]).start();
    cluster.wait_ready_of(&[survivor, victims[0]], READY);
    cluster.get(survivor, "/v1/id").ok();
    let (next, _) = cluster.next(survivor, "order", 1);
    assert!(next >= 2);
}

#[test]
fn readiness_for_ids_alone_outlives_the_quorum() {
    let mut cluster = Cluster::started(3).with_order();
    let survivor = cluster.follower();
    let victims: Vec<usize> = (0..3).filter(|&i| i != survivor).collect();
    victims.iter().for_each(|&i| cluster.node_mut(i).kill());
    wait::until("readiness is lost", READY, || {
        (cluster.get(survivor, "/readyz").status == 503).then_some(())
    });
    cluster.get(survivor, "/readyz?for=ids").ok();
    cluster.get(survivor, "/livez").ok();
    cluster
        .get(survivor, "/v1/sequences/order")
        .refused(503, "no-quorum");
    cluster.get(survivor, "/v1/sequences/order?stale=1").ok();
    let view = cluster.get(survivor, "/v1/cluster").ok().json();
    assert!(view["leader"].is_null(), "{view}");
}
