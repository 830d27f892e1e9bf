//! Idempotency keys and one-time tokens: one caller does the work, and the others receive its
//! result, whichever nodes they use and whichever of them die.

use std::thread;

use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::http::{Reply, post};
use seqd_tests::wait;
use serde_json::{Value, json};

fn begin_path(key: &str) -> String {
    format!("/v1/idempotency/{key}/begin")
}

fn send(cluster: &Cluster, node: usize, path: &str, body: &Value) -> Reply {
    post(&cluster.url(node, path)).json(body).reply()
}

#[test]
fn of_eight_that_begin_at_once_one_is_first_and_all_are_given_its_result() {
    let cluster = Cluster::started(3);
    let path = begin_path("pay-42");
    let replies: Vec<Reply> = thread::scope(|scope| {
        let callers = (0..8).map(|at| {
            let (cluster, path) = (&cluster, &path);
            scope.spawn(move || {
                let body = json!({"fingerprint": "f", "nonce": format!("n{at}")});
                send(cluster, at % 3, path, &body)
            })
        });
        let callers: Vec<_> = callers.collect();
        callers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let firsts: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(firsts.len(), 1, "{replies:?}");
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        let reply = reply.clone().refused(409, "in-progress");
        assert_eq!(reply.json()["state"], "in-progress");
        assert!(reply.json()["retry_after_ms"].as_u64().unwrap() > 0);
    }
    let first = firsts[0].json();
    assert_eq!(
        (&first["state"], &first["attempt"]),
        (&json!("first"), &json!(1))
    );
    // Every node returns the result exactly as it was written.
    let claim = first["claim"].as_str().unwrap();
    let body = format!("{{\"claim\":\"{claim}\",\"result\":{{\"b\": 1.50, \"a\":[\"ü\"]}}}}");
    let complete = post(&cluster.url(1, "/v1/idempotency/pay-42/complete"));
    let complete = complete
        .header("content-type", "application/json")
        .body(body);
    complete.reply().ok();
    for node in 0..3 {
        let done = send(&cluster, node, &path, &json!({"fingerprint": "f"})).ok();
        assert!(done.body.contains("\"state\":\"done\""), "{}", done.body);
        let kept = "\"result\":{\"b\": 1.50, \"a\":[\"ü\"]}";
        assert!(done.body.contains(kept), "{}", done.body);
    }
    let other = send(&cluster, 0, &path, &json!({"fingerprint": "g"}));
    let other = other.refused(422, "fingerprint-mismatch");
    assert_eq!(other.json()["state"], "mismatch");
}

#[test]
fn a_claimer_that_dies_is_followed_with_the_next_attempt() {
    let mut cluster = Cluster::started(3);
    let path = begin_path("a%2Fb%20c");
    let leader = cluster.leader();
    let body = json!({"claim_ttl_ms": 1500, "nonce": "dead"});
    let first = send(&cluster, leader, &path, &body).ok().json();
    // The node that returned the claim, the leader, dies too.
    cluster.node_mut(leader).kill();
    let alive = (leader + 1) % 3;
    let next = wait::until("the claim is followed", READY, || {
        let body = json!({"nonce": "next", "claim_ttl_ms": 60_000});
        let reply = send(&cluster, alive, &path, &body);
        let is_expected = matches!(reply.code().as_str(), "in-progress" | "no-quorum" | "");
        assert!(is_expected || reply.status == 504, "{reply:?}");
        (reply.status == 200).then(|| reply.json())
    });
    assert_eq!(
        (&next["state"], &next["attempt"]),
        (&json!("first"), &json!(2))
    );
    assert!(integer(&next["token"]) > integer(&first["token"]));
    let late = json!({"claim": first["claim"], "result": "late"});
    let path = "/v1/idempotency/a%2Fb%20c";
    send(&cluster, alive, &format!("{path}/complete"), &late).refused(409, "lease-lost");
    let kept = json!({"claim": next["claim"], "result": "paid"});
    send(&cluster, alive, &format!("{path}/complete"), &kept).ok();
    let read = cluster.get((leader + 2) % 3, path).ok().json();
    assert_eq!(
        (&read["key"], &read["state"]),
        (&json!("a/b c"), &json!("done"))
    );
    assert_eq!(read["result"], "paid");
}

#[test]
fn a_token_is_consumed_once_by_any_caller_at_any_node() {
    let cluster = Cluster::started(3);
    let issued = send(
        &cluster,
        0,
        "/v1/tokens",
        &json!({"count": 3, "ttl_ms": 60_000}),
    );
    let issued = issued.ok().json();
    let tokens: Vec<&str> = issued["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    assert!(
        tokens.len() == 3 && tokens.iter().all(|token| token.len() == 33),
        "{tokens:?}"
    );
    let consume = |node: usize, token: &str, body: &Value| {
        send(&cluster, node, &format!("/v1/tokens/{token}/consume"), body)
    };
    let replies: Vec<(usize, Reply)> = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|at| {
                let (consume, token) = (&consume, tokens[0]);
                scope.spawn(move || {
                    (
                        at,
                        consume(at % 3, token, &json!({"nonce": at.to_string()})),
                    )
                })
            })
            .collect();
        callers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let won: Vec<usize> = replies
        .iter()
        .filter(|(_, it)| it.status == 200)
        .map(|it| it.0)
        .collect();
    assert_eq!(won.len(), 1, "{replies:?}");
    for (_, reply) in replies.iter().filter(|(at, _)| *at != won[0]) {
        reply.clone().refused(409, "token-used");
    }
    // The caller that consumed it receives the same response again.
    let again = consume(2, tokens[0], &json!({"nonce": won[0].to_string()})).ok();
    assert_eq!(again.json(), json!({"consumed": true}));
    // Another secret, and a text that is not a token.
    let forged = format!("{}{}", &tokens[1][..11], &tokens[0][11..]);
    consume(0, &forged, &json!({})).refused(404, "not-found");
    consume(0, "nonsense", &json!({})).refused(404, "not-found");
    consume(1, tokens[1], &json!({})).ok();
    consume(1, tokens[1], &json!({})).refused(409, "token-used");
}
