//! Revoked tokens: no node serves them, and their waits end.

use std::thread;

use seqd_tests::cluster::Cluster;
use seqd_tests::wait;
use serde_json::json;

use crate::tokens::PATIENCE;
use seqd_tests::callers::{Caller, guarded};

#[test]
fn a_wait_ends_when_the_token_of_its_client_is_revoked() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    let operator = Caller::operator(&cluster);
    let (waiter, id) = Caller::with(&cluster, &json!({"scopes": ["allocate", "read"]}));
    let path = "/v1/locks/jobs/acquire";
    let held = operator
        .post(path, &json!({"owner": "a", "ttl_ms": 60_000}))
        .ok()
        .json();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let wait = json!({"owner": "b", "wait_ms": 60_000});
            waiter.post(path, &wait)
        });
        let watch = format!(
            "/v1/locks/jobs?other_than={}&wait_ms=60000",
            held["token"].as_str().expect("a text")
        );
        let waiter = &waiter;
        let watches = scope.spawn(move || waiter.get(&watch));
        wait::until("the wait", PATIENCE, || {
            let lock = operator.get("/v1/locks/jobs").ok().json();
            (lock["waiting"] == 1).then_some(())
        });
        operator.delete(&format!("/v1/access/{id}")).ok();
        for ended in [waits, watches] {
            ended.join().expect("a reply").refused(401, "unauthorized");
        }
    });
    let release = json!({"lease": held["lease"]});
    operator.post("/v1/locks/jobs/release", &release).ok();
    let next = operator.post(path, &json!({"owner": "c"}));
    assert_eq!(
        next.ok().json()["owner"],
        "c",
        "a revoked waiter holds the lock"
    );
}

#[test]
fn a_token_that_was_revoked_is_refused_by_every_node() {
    let (cluster, _file) = guarded(Cluster::planned(3));
    let operator = Caller::operator(&cluster);
    for via in 0..3 {
        let (caller, id) = Caller::with(&cluster, &json!({"scopes": ["allocate"]}));
        let is_let_in = |node: usize| caller.send("GET", node, "/v1/id", None).status == 200;
        for node in 0..3 {
            wait::until("the new token", PATIENCE, || is_let_in(node).then_some(()));
        }
        let path = format!("/v1/access/{id}");
        operator.send("DELETE", via, &path, None).ok();
        for node in 0..3 {
            wait::until("its end", PATIENCE, || (!is_let_in(node)).then_some(()));
            caller
                .send("GET", node, "/v1/id", None)
                .refused(401, "unauthorized");
        }
        operator
            .send("DELETE", via, &path, None)
            .refused(404, "not-found");
    }
}
