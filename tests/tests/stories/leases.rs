//! Workers for generators outside the cluster, as HTTP gives them.

use std::collections::BTreeSet;

use seqd_tests::binary;
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http::{Reply, post, request};
use serde_json::{Value, json};

fn take(cluster: &Cluster, node: usize, body: &Value) -> Reply {
    post(&cluster.url(node, "/v1/workers")).json(body).reply()
}

fn lease_url(cluster: &Cluster, node: usize, lease: &Value) -> String {
    let (layout, id) = (lease["layout"]["name"].as_str().unwrap(), &lease["id"]);
    cluster.url(node, &format!("/v1/workers/{layout}/{id}/lease"))
}

fn renew(cluster: &Cluster, node: usize, lease: &Value, owner: &str, code: &Value) -> Reply {
    let body = json!({"owner": owner, "lease": code});
    let url = lease_url(cluster, node, lease);
    request("PUT", &url).json(&body).reply()
}

fn release(cluster: &Cluster, node: usize, lease: &Value, last_tick: &str) -> Reply {
    let (owner, code) = (
        lease["owner"].as_str().unwrap(),
        lease["lease"].as_str().unwrap(),
    );
    let query = format!("?owner={owner}&lease={code}{last_tick}");
    let url = lease_url(cluster, node, lease) + &query;
    request("DELETE", &url).reply()
}

#[test]
fn a_worker_is_its_owner_s_through_any_node_and_nobody_else_s() {
    let cluster = Cluster::started(3);
    let lease = take(&cluster, 0, &json!({"owner": "pod-1"})).ok().json();
    assert!(integer(&lease["from_tick"]) < integer(&lease["fence_tick"]));
    assert_eq!(lease["datacenter"], Value::Null);
    let renewed = renew(&cluster, 1, &lease, "pod-1", &lease["lease"])
        .ok()
        .json();
    assert!(integer(&renewed["fence_tick"]) >= integer(&lease["fence_tick"]));
    for same in ["id", "worker", "lease", "from_tick", "owner"] {
        assert_eq!(renewed[same], lease[same], "{same}");
    }
    // The number of the lease is no secret; its code is.
    let number = lease["lease"].as_str().unwrap().parse::<u128>().unwrap() >> 64;
    let forged = [
        json!(number.to_string()),
        json!((number << 64).to_string()),
        json!("1"),
    ];
    for code in &forged {
        renew(&cluster, 2, &lease, "pod-1", code).refused(409, "lease-lost");
    }
    renew(&cluster, 2, &lease, "pod-2", &lease["lease"]).refused(409, "lease-lost");
    let other = json!({"id": 900, "layout": {"name": "default"}});
    renew(&cluster, 2, &other, "pod-1", &lease["lease"]).refused(409, "lease-lost");
    // Nor does a node's lease have one that could be known.
    let nodes = cluster.get(0, "/v1/workers").ok().json();
    let of_node = nodes["items"].as_array().unwrap().iter();
    let of_node = of_node.clone().find(|lease| lease["node"] == "n1").unwrap();
    let named = json!({"id": of_node["id"], "layout": {"name": "default"}});
    renew(&cluster, 0, &named, "n1", &of_node["lease"]).refused(409, "lease-lost");
}

#[test]
fn a_released_worker_goes_back_to_its_owner_above_what_it_made() {
    let cluster = Cluster::started(3);
    let first = take(&cluster, 0, &json!({"owner": "pod-1"})).ok().json();
    let from = integer(&first["from_tick"]);
    let outside = format!("&last_tick={}", integer(&first["fence_tick"]) + 5);
    release(&cluster, 1, &first, &outside).refused(400, "invalid-argument");
    let released = release(&cluster, 1, &first, &format!("&last_tick={}", from + 2));
    assert_eq!(integer(&released.ok().json()["fence_tick"]), from + 3);
    release(&cluster, 1, &first, "").refused(409, "lease-lost");
    renew(&cluster, 1, &first, "pod-1", &first["lease"]).refused(409, "lease-lost");
    let again = take(&cluster, 2, &json!({"owner": "pod-1"})).ok().json();
    assert_eq!(again["id"], first["id"], "the same worker");
    assert_ne!(again["lease"], first["lease"]);
    assert!(integer(&again["from_tick"]) >= from + 3, "{again}");
    // Without its last tick the worker stays taken up to the fence, and the owner gets another.
    release(&cluster, 0, &again, "").ok();
    let third = take(&cluster, 0, &json!({"owner": "pod-1"})).ok().json();
    assert_ne!(third["id"], first["id"]);
}

#[test]
fn workers_that_run_out_are_refused_with_the_time_until_one_is_free() {
    // One client may take all but the worker that is kept for nodes.
    let cluster = Cluster::planned(1).ready();
    let few = json!({"name": "few", "worker_bits": 2, "datacenter_bits": 1});
    post(&cluster.url(0, "/v1/layouts")).json(&few).reply().ok();
    let ask = |owner: usize, datacenter| {
        let body =
            json!({"layout": "few", "owner": format!("pod-{owner}"), "datacenter": datacenter});
        take(&cluster, 0, &body)
    };
    let taken: BTreeSet<i64> = (0..3)
        .map(|owner| {
            let lease = ask(owner, 1).ok().json();
            assert_eq!(lease["datacenter"], 1);
            integer(&lease["id"])
        })
        .collect();
    assert_eq!(taken, BTreeSet::from([4, 5, 6]));
    let refused = ask(3, 1).refused(503, "workers-exhausted");
    let wait_ms = refused.json()["retry_after_ms"].as_u64().unwrap();
    assert!((1..=31_000).contains(&wait_ms), "{wait_ms}");
    ask(4, 0).ok();
    ask(4, 2).refused(400, "invalid-argument");
}

#[test]
fn the_command_line_leases_and_verifies_a_column() {
    let cluster = Cluster::started(3);
    let endpoint = cluster.url(0, "");
    let seqd = |line: &str| {
        let words = ["-e", &endpoint, "-o", "json"];
        let words: Vec<&str> = words.into_iter().chain(line.split(' ')).collect();
        let output = binary::run(&words);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), json)
    };
    let (code, lease) = seqd("worker lease --owner job-1 --layout js53");
    assert_eq!(code, Some(0), "{lease}");
    let held = |word: &str| {
        let code = lease["lease"].as_str().unwrap();
        format!(
            "worker {word} {} --owner job-1 --lease {code} --layout js53",
            lease["id"]
        )
    };
    assert_eq!(seqd(&held("renew")).0, Some(0));
    let from = integer(&lease["from_tick"]);
    assert_eq!(
        seqd(&format!("{} --last-tick {from}", held("release"))).0,
        Some(0)
    );
    assert_eq!(seqd(&held("renew")).0, Some(6));

    let minted = cluster.get(1, "/v1/ids?count=2000").ok().json();
    let ids: Vec<&str> = minted["ids"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let path = cluster.folder().join("column.txt");
    let shown = path.to_str().unwrap();
    std::fs::write(&path, ids.join("\n")).unwrap();
    let (code, found) = seqd(&format!("verify-ids {shown}"));
    assert_eq!(
        (code, &found["lines"], &found["ok"]),
        (Some(0), &json!(2000), &json!(true))
    );
    assert_eq!(found["holders"], json!([{"holder": "n2", "ids": 2000}]));
    // A number twice, one of no lease, one that is no number, one of a time to come.
    let planted = format!(
        "{}\n{}\n{}\nx\n9223372036854775807\n",
        ids.join("\n"),
        ids[7],
        5 << 12
    );
    std::fs::write(&path, planted).unwrap();
    let (code, found) = seqd(&format!("verify-ids {shown}"));
    assert_eq!((code, &found["ok"]), (Some(1), &json!(false)));
    let findings = found["findings"].as_array().unwrap().iter();
    let findings: Vec<(&str, u64)> = findings
        .map(|found| {
            (
                found["finding"].as_str().unwrap(),
                found["count"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("malformed", 1),
        ("held", 2001),
        ("ahead", 1),
        ("never-leased", 1),
        ("duplicate", 1),
    ];
    assert_eq!(findings, expected);
}
