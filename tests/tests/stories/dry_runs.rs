//! A dry run has the verdict of the change itself, and no effect.

use std::process::Output;

use seqd_tests::binary;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{get, request};
use serde_json::{Value, json};

fn seqd(cluster: &Cluster, line: &str, more: &[&str]) -> Output {
    let endpoint = cluster.url(cluster.follower(), "");
    let global = ["-e", &endpoint, "--timeout", "20s", "--yes"];
    let words: Vec<&str> = global.into_iter().chain(line.split(' ')).collect();
    binary::run(&[&words, more].concat())
}

/// What must be as it was.
fn seen(cluster: &Cluster) -> Vec<Value> {
    let view = cluster.get(0, "/v1/cluster").ok().json();
    let members = view["members"].as_array().unwrap().iter();
    let members: Vec<_> = members
        .map(|member| json!([member["name"], member["role"]]))
        .collect();
    let sequences = cluster.get(0, "/v1/sequences").ok().json();
    let tokens = cluster.get(0, "/v1/access").ok().json();
    let layouts = cluster.get(0, "/v1/layouts").ok().json();
    vec![
        json!(members),
        sequences["items"].clone(),
        tokens["items"].clone(),
        layouts["items"].clone(),
        view["leader"].clone(),
    ]
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The ID of a new token.
fn token(cluster: &Cluster) -> String {
    let wanted = json!({"scopes": ["read"], "description": "shop"});
    let made = request("POST", &cluster.url(0, "/v1/access")).json(&wanted);
    made.reply().ok().json()["id"].as_str().unwrap().to_owned()
}

/// A change is refused, and its dry run in the same words.
fn assert_refused_alike(cluster: &Cluster, line: &str) {
    let before = seen(cluster);
    let dry = seqd(cluster, line, &["--dry-run"]);
    assert_eq!(seen(cluster), before, "{line}");
    let real = seqd(cluster, line, &[]);
    assert_ne!(real.status.code(), Some(0), "{line}");
    assert_eq!(
        dry.status.code(),
        real.status.code(),
        "{line}: {}",
        words(&dry)
    );
    assert_eq!(words(&dry), words(&real), "{line}");
}

/// A change does what its dry run announces, with `word` in it.
fn assert_done_as_planned(cluster: &Cluster, line: &str, word: &str) {
    let wait: &[&str] = if line.starts_with("member") {
        &["--wait"]
    } else {
        &[]
    };
    let before = seen(cluster);
    let dry = seqd(
        cluster,
        line,
        &[wait, &["--dry-run", "-o", "json"]].concat(),
    );
    assert_eq!(dry.status.code(), Some(0), "{line}: {}", words(&dry));
    let plan: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(plan["dry_run"], true);
    let effect = plan["effect"].as_str().unwrap();
    assert!(effect.contains(word), "{line}: {effect}");
    assert_eq!(seen(cluster), before, "{line}");
    let real = seqd(cluster, line, wait);
    assert_eq!(real.status.code(), Some(0), "{line}: {}", words(&real));
    assert_eq!(seen(cluster) == before, word == "nothing", "{line}");
}

/// Refused first, so that nothing of the real ones is in the way of the next.
#[test]
fn each_dry_run_has_the_verdict_of_its_change_and_no_effect() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict", "max": 100}));
    assert_eq!(cluster.next(0, "order", 10), (1, 10));
    let stranger = cluster.add_stranger("n4");
    cluster.node_mut(stranger).start();
    let leader = format!("n{}", cluster.leader() + 1);
    let other = format!("n{}", cluster.follower() + 1);
    let add = format!("member add n4 {}", cluster.node(stranger).peer_address());
    for line in [
        "seq create order --mode segment",
        "seq create late --min 5 --max 1",
        "seq advance order 5",
        "seq advance order 500",
        "seq advance nosuch 5",
        "seq delete nosuch",
        "seq update nosuch --max 5",
        "seq update order --max 99",
        "seq update order --min -5",
        "seq update order --segment-min 5",
        "seq update order --max 500 --if-revision 7",
        "seq update order",
        "member add n5 localhost:1",
        &format!("member add {leader} localhost:1"),
        "member promote n9",
        "member remove n9",
        "leader move n9",
        "access create --scope read --rate 0",
        "access create --scope read --ttl 20years",
        "access revoke 0123456789abcdef",
        "access revoke nosuch",
        "layout create default --time-bits 40",
        "layout create wide --time-bits 50 --worker-bits 20",
        "layout create later --epoch 2090-01-01T00:00:00Z",
    ] {
        assert_refused_alike(&cluster, line);
    }
    let moves = format!("leader move {other}");
    let revoke = format!("access revoke {}", token(&cluster));
    for (line, word) in [
        (
            "access create --scope allocate:a,read",
            "permits allocate:a, read",
        ),
        (revoke.as_str(), "(shop)"),
        (
            "layout create short --time-bits 40",
            "creates the layout short",
        ),
        ("layout create short --time-bits 40", "nothing"),
        ("seq create late --start 7", "next value is 7"),
        ("seq create order --mode strict --max 100", "nothing"),
        (
            "seq update order --max 200 --description orders --if-revision 1",
            "its next value stays 11",
        ),
        ("seq update order --max 200", "nothing"),
        ("seq advance order 50", "the next value is 50, it was 11"),
        (
            "seq delete order",
            "deletes the sequence order (next value 50)",
        ),
        (add.as_str(), "as a learner"),
        ("member promote n4", "quorum 3/3 -> 4/4, can lose 1 node"),
        (moves.as_str(), other.as_str()),
        ("member remove n4", "quorum 4/4 -> 3/3, can lose 1 node"),
    ] {
        assert_done_as_planned(&cluster, line, word);
    }
}

#[test]
fn what_has_no_dry_run_refuses_it() {
    let cluster = Cluster::started(1);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    for (method, path) in [
        ("GET", "/v1/id?dry_run=1"),
        ("POST", "/v1/sequences/order/next?dry_run=1"),
        ("POST", "/v1/sequences/order/segments?dry_run"),
        ("PUT", "/v1/sequences/order?dry_run=perhaps"),
    ] {
        let reply = request(method, &cluster.url(0, path)).reply();
        reply.refused(400, "invalid-argument");
    }
    let order = get(&cluster.url(0, "/v1/sequences/order")).reply().ok();
    assert_eq!(order.json()["next"], "1");
}
