//! A node that waits to be added has no data of the cluster, and clients use their next endpoint.

use std::process::Output;

use seqd_tests::binary::run;
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use serde_json::json;

/// A cluster of one node with the strict sequence `order`, and the index of a node that waits to be
/// added.
fn cluster_and_waiting_node() -> (Cluster, usize) {
    let mut cluster = Cluster::started(1).with_order();
    let waiting = cluster.add_stranger("n2");
    cluster.start_stranger(waiting);
    (cluster, waiting)
}

fn text(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(&[&stdout[..], &stderr[..]].concat()).into_owned()
}

#[test]
fn a_command_at_a_node_that_is_not_a_member_uses_the_next_endpoint() {
    let (cluster, waiting) = cluster_and_waiting_node();
    let (own, other) = (cluster.address(waiting), cluster.address(0));
    let both = format!("{own},{other}");
    let peer = cluster.node(waiting).peer_address().to_owned();
    let replace = ["member", "replace", "n1", "n2", &peer, "--dry-run"];
    let commands: [(&[&str], &str); 8] = [
        (&["member", "list"], "n1"),
        (&["worker", "list"], "n1"),
        (&["layout", "list"], "default"),
        (&["seq", "list"], "order"),
        (&["seq", "get", "order"], "order"),
        (&["leader", "show"], "n1"),
        (&["seq", "next", "order"], "1"),
        (&replace, "n2"),
    ];
    for (command, found) in commands {
        let refused = run(&[command, &["-e", &own]].concat());
        assert_eq!(refused.status.code(), Some(5), "{command:?} {refused:?}");
        let why = text(&refused);
        assert!(why.contains("not a member of a cluster yet"), "{why}");
        let served = run(&[command, &["-e", &both]].concat());
        assert_eq!(served.status.code(), Some(0), "{command:?} {served:?}");
        assert!(text(&served).contains(found), "{command:?} {served:?}");
    }
    let refused = run(&["drain", "--yes", "-e", &own]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let why = text(&refused);
    assert!(why.contains("not a member of a cluster yet"), "{why}");
}

#[test]
fn a_node_that_is_not_a_member_reports_what_it_waits_for() {
    let (cluster, waiting) = cluster_and_waiting_node();
    for path in [
        "/v1/cluster/members",
        "/v1/workers",
        "/v1/layouts",
        "/v1/layouts/mine",
        "/v1/sequences?stale=1",
        "/v1/sequences/order?stale=1",
        "/v1/locks?stale=1",
        "/v1/locks/door?stale=1",
        "/v1/idempotency/pay?stale=1",
    ] {
        let reply = cluster.get(waiting, path);
        let detail = reply.refused(503, "no-quorum").detail();
        for part in ["not a member of a cluster yet", "seqd member add n2"] {
            assert!(detail.contains(part), "{path}: {detail}");
        }
    }
    assert!(!cluster.node(waiting).is_ready());
    // The following responses describe the node itself, and need no cluster.
    let view = cluster.get(waiting, "/v1/cluster").ok().json();
    assert_eq!(
        (&view["node"], &view["members"]),
        (&json!("n2"), &json!([]))
    );
    http::get(&cluster.url(waiting, "/livez")).reply().ok();
    cluster.get(waiting, "/v1/layouts/default").ok();
    let status = run(&["status", "-e", &cluster.address(waiting)]);
    assert_eq!(status.status.code(), Some(7), "{status:?}");
    assert!(text(&status).contains("n2 is not a member of a cluster yet"));
}
