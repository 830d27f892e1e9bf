//! The log of slow requests, and the traces of their callers.

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::http::{get, post};
use seqd_tests::wait;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Waits for the log line with this request ID.
fn line(cluster: &Cluster, request_id: &str) -> Value {
    wait::until("the request is logged", READY, || {
        let stderr = cluster.node(0).stderr();
        let lines = stderr
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .into_iter()
            .find(|line: &Value| line["request_id"] == *request_id)
    })
}

#[test]
fn a_slow_request_is_logged_with_the_trace_of_its_caller() {
    let cluster = Cluster::planned(3)
        .with("log", "slow_requests", "\"1ms\"")
        .ready();
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    // A lost quorum makes every read slow.
    let mut cluster = cluster.with_order();
    for node in [1, 2] {
        cluster.node_mut(node).kill();
    }
    let url = cluster.url(0, "/v1/sequences/order/next?timeout_ms=300");
    let ask = |id: &str, traceparent: &str| {
        let request = post(&url).header("x-request-id", id);
        request.header("traceparent", traceparent).reply()
    };
    let status = ask("slow-1", &traceparent).status;
    assert!(status >= 500, "{status}");
    let slow = line(&cluster, "slow-1");
    assert_eq!(slow["message"], "slow request");
    assert_eq!(
        (&slow["route"], &slow["method"]),
        (&json!("/v1/sequences/{name}/next"), &json!("POST"))
    );
    assert_eq!(
        (&slow["trace_id"], &slow["parent_id"]),
        (&json!(TRACE), &json!(PARENT))
    );
    assert_eq!(
        (&slow["status"], &slow["node"]),
        (&json!(status), &json!("n1"))
    );
    assert!(slow["duration_ms"].as_u64() >= Some(1), "{slow}");

    ask("slow-2", &format!("00-{TRACE}-{}-01", "0".repeat(16)));
    let malformed = line(&cluster, "slow-2");
    assert!(malformed.get("trace_id").is_none(), "{malformed}");
}

#[test]
fn a_request_that_waits_for_a_lock_is_not_slow_and_the_audit_has_the_trace() {
    let cluster = Cluster::planned(1)
        .with("log", "slow_requests", "\"200ms\"")
        .ready();
    let acquire = |owner: &str, wait_ms: u64| {
        let request = post(&cluster.url(0, "/v1/locks/jobs/acquire")).header("x-request-id", owner);
        request
            .json(&json!({"owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms}))
            .reply()
    };
    acquire("first", 0).ok();
    acquire("second", 400).refused(409, "lock-held");
    let request = post(&cluster.url(0, "/v1/locks/jobs/break")).header("x-request-id", "audited");
    let request = request.header("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    request.json(&json!({})).reply().ok();
    let audit = line(&cluster, "audited");
    assert_eq!(
        (&audit["trace_id"], &audit["parent_id"]),
        (&json!(TRACE), &json!(PARENT))
    );
    get(&cluster.url(0, "/v1/id")).reply().ok();
    assert!(!cluster.node(0).stderr().contains("\"second\""));
}
