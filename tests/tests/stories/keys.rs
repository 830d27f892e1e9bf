//! Idempotency keys and one-time tokens: one caller does a thing, the others are given its result,
//! whichever nodes they ask and whichever of them die.

use std::thread;
use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::http::{Failure, Reply, post};
use seqd_tests::{binary, wait};
use serde_json::{Value, json};

use crate::tokens::{Caller, guarded, with_sequences};

fn begin_path(key: &str) -> String {
    format!("/v1/idempotency/{key}/begin")
}

fn send(cluster: &Cluster, node: usize, path: &str, body: &Value) -> Reply {
    post(&cluster.url(node, path)).json(body).reply()
}

/// A request with a key, to one node.
fn keyed(cluster: &Cluster, node: usize, path: &str, key: &str) -> Result<Reply, Failure> {
    let request = post(&cluster.url(node, path)).header("idempotency-key", key);
    request.send()
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
    // The result is given back as it was written, by every node.
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
    // The node that told it dies with it, the leader.
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
fn a_request_with_a_key_is_answered_with_the_same_bytes_by_every_node() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    for (path, key) in [
        ("/v1/id", "k1"),
        ("/v1/ids?count=1000&format=b62", "k2"),
        ("/v1/sequences/order/next?count=3", "k3"),
        ("/v1/sequences/order/next?count=1000&expand=1", "k4"),
    ] {
        let first = keyed(&cluster, 0, path, key).unwrap().ok();
        assert_eq!(first.header("idempotent-replayed"), None);
        for node in 0..3 {
            let again = keyed(&cluster, node, path, key).unwrap().ok();
            assert_eq!(again.body, first.body, "{path}");
            assert_eq!(again.header("content-type"), first.header("content-type"));
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
        }
        let other = keyed(&cluster, 1, "/v1/id?format=hex", key).unwrap();
        other.refused(422, "fingerprint-mismatch");
    }
    // Nothing was taken by what was answered again: 3 and 1000 values are gone.
    assert_eq!(cluster.next(2, "order", 1), (1004, 1004));
    // What is refused leaves the key to the corrected request, and what cannot be kept takes nothing.
    let many = keyed(&cluster, 0, "/v1/sequences/order/next?count=1001", "k5").unwrap();
    many.refused(400, "count-too-large");
    keyed(&cluster, 0, "/v1/sequences/nosuch/next", "k5")
        .unwrap()
        .refused(404, "not-found");
    let next = keyed(&cluster, 1, "/v1/sequences/order/next", "k5")
        .unwrap()
        .ok();
    assert_eq!(integer(&next.json()["first"]), 1005);
    // A segment, too.
    cluster.create_sequence(0, "bill", &json!({"mode": "segment"}));
    let path = "/v1/sequences/bill/segments?size=10";
    let granted = keyed(&cluster, 0, path, "k6").unwrap().ok();
    assert_eq!(
        keyed(&cluster, 2, path, "k6").unwrap().ok().body,
        granted.body
    );
}

#[test]
fn requests_with_keys_are_served_once_while_leaders_are_killed() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let path = "/v1/sequences/order/next";
    let mut values = Vec::new();
    for round in 0..12 {
        let key = format!("round-{round}");
        // The reply is lost: whoever asked is gone when it comes.
        let asked = post(&cluster.url(round % 3, path)).header("idempotency-key", &key);
        drop(asked.patience(Duration::from_millis(3)).send());
        let killed = (round % 4 == 3).then(|| cluster.leader());
        if let Some(leader) = killed {
            cluster.node_mut(leader).kill();
        }
        let mut at = round;
        let first = wait::until("an answer", READY, || {
            at += 1;
            let reply = keyed(&cluster, at % 3, path, &key).ok()?;
            (reply.status == 200).then_some(reply.body)
        });
        let again = wait::until("the same answer", READY, || {
            at += 1;
            let reply = keyed(&cluster, at % 3, path, &key).ok()?;
            (reply.status == 200).then_some(reply.body)
        });
        assert_eq!(first, again, "{key}");
        let answer: Value = serde_json::from_str(&first).unwrap();
        values.push(integer(&answer["first"]));
        if let Some(leader) = killed {
            cluster.node_mut(leader).start();
            cluster.wait_ready();
        }
    }
    let distinct: std::collections::BTreeSet<_> = values.iter().collect();
    assert_eq!(distinct.len(), values.len(), "{values:?}");
}

#[test]
fn a_token_is_consumed_once_whoever_asks_whichever_node() {
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
    // The one who consumed it is told so again.
    let again = consume(2, tokens[0], &json!({"nonce": won[0].to_string()})).ok();
    assert_eq!(again.json(), json!({"consumed": true}));
    // Another secret, and what is no token.
    let forged = format!("{}{}", &tokens[1][..11], &tokens[0][11..]);
    consume(0, &forged, &json!({})).refused(404, "not-found");
    consume(0, "nonsense", &json!({})).refused(404, "not-found");
    consume(1, tokens[1], &json!({})).ok();
    consume(1, tokens[1], &json!({})).refused(409, "token-used");
}

#[test]
fn keys_and_tokens_at_the_command_line() {
    let cluster = Cluster::started(1);
    let address = cluster.address(0);
    let seqd = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["-e", &address]);
        let output = binary::command(&words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, begun, words) = seqd("key begin pay --claim-ttl 1m --fingerprint f -o json");
    assert_eq!(code, Some(0), "{words}");
    let begun: Value = serde_json::from_str(&begun).unwrap();
    assert_eq!(begun["state"], "first");
    assert_eq!(seqd("key begin pay --fingerprint f").0, Some(6));
    let claim = begun["claim"].as_str().unwrap();
    let complete = format!("key complete pay --claim {claim} --result {{\"paid\":1}}");
    assert_eq!(seqd(&complete).0, Some(0));
    let (code, read, _) = seqd("key get pay -o plain");
    assert!(
        code == Some(0) && read.contains("result\t{\"paid\":1}\n"),
        "{read}"
    );
    assert_eq!(seqd("key get other").0, Some(3));
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    for _ in 0..2 {
        let (_, values, _) = seqd("seq next order -n 2 --idempotency-key invoice-7");
        assert_eq!(values, "1\n2\n");
    }
    let (_, tokens, _) = seqd("token issue --count 2 --ttl 1m");
    let first = tokens.lines().next().unwrap();
    assert_eq!(tokens.lines().count(), 2, "{tokens}");
    assert_eq!(seqd(&format!("token consume {first}")).0, Some(0));
    assert_eq!(seqd(&format!("token consume {first}")).0, Some(6));
}

#[test]
fn keys_are_permitted_by_how_they_begin_and_two_tenants_do_not_meet() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    with_sequences(&cluster);
    let (order, _) = Caller::with(&cluster, &json!({"scopes": ["allocate:order."]}));
    let (other, _) = Caller::with(&cluster, &json!({"scopes": ["allocate"]}));
    let (reader, _) = Caller::with(&cluster, &json!({"scopes": ["read"]}));
    let begin = |caller: &Caller<'_>, key: &str| {
        caller.post(&format!("/v1/idempotency/{key}/begin"), &json!({}))
    };
    begin(&order, "order.7").ok();
    begin(&order, "invoice.7").refused(403, "forbidden");
    begin(&reader, "order.7").refused(403, "forbidden");
    reader.get("/v1/idempotency/order.7").ok();
    order
        .get("/v1/idempotency/invoice.7")
        .refused(403, "forbidden");
    // No prefix tells one token from another.
    order
        .post("/v1/tokens", &json!({}))
        .refused(403, "forbidden");
    let token = other.post("/v1/tokens", &json!({})).ok().json();
    let consume = format!(
        "/v1/tokens/{}/consume",
        token["token"].as_str().expect("a token")
    );
    reader.post(&consume, &json!({})).refused(403, "forbidden");
    order.post(&consume, &json!({})).refused(403, "forbidden");
    other.post(&consume, &json!({})).ok();
    // The same key of two tenants.
    let next = |caller: &Caller<'_>| {
        let request = post(&cluster.url(0, "/v1/sequences/order.eu/next"));
        let request = request.header("authorization", &format!("Bearer {}", caller.token));
        request.header("idempotency-key", "k").reply()
    };
    let first = next(&order).ok().body;
    assert_ne!(next(&other).ok().body, first);
    assert_eq!(next(&order).ok().body, first);
    // A permission that is gone is gone for what was answered, too.
    next(&reader).refused(403, "forbidden");
}
