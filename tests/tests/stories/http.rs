//! The HTTP contract as a client sees it: content, methods, refusals, limits, lists.

use std::collections::BTreeSet;

use seqd_tests::cluster::Cluster;
use seqd_tests::http::{Reply, get, post, request};
use serde_json::{Value, json};

fn put(cluster: &Cluster, name: &str, body: &Value) -> Reply {
    request("PUT", &cluster.url(0, &format!("/v1/sequences/{name}")))
        .json(body)
        .reply()
}

#[test]
fn content_follows_accept_and_everything_that_allocates_is_not_stored() {
    let cluster = Cluster::started(1);
    let kind = |reply: &Reply| reply.header("content-type").unwrap_or_default().to_owned();
    for path in ["/v1/id", "/v1/uuid"] {
        let url = cluster.url(0, path);
        for accept in [None, Some("*/*"), Some("text/plain")] {
            let call = get(&url);
            let call = if let Some(accept) = accept {
                call.header("accept", accept)
            } else {
                call
            };
            let reply = call.reply().ok();
            assert!(kind(&reply).starts_with("text/plain"), "{path} {accept:?}");
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
        let reply = get(&url).accept_json().reply().ok();
        assert!(kind(&reply).starts_with("application/json"), "{path}");
    }
    let ids = get(&cluster.url(0, "/v1/ids?count=3")).reply().ok();
    assert!(kind(&ids).starts_with("application/json"));
    assert_eq!(ids.json()["ids"].as_array().unwrap().len(), 3);
    assert_eq!(ids.json()["layout"], "default");
    assert!(
        ids.json()["ids"][0].is_string(),
        "IDs pass 2^53: strings in JSON"
    );
    let lines = get(&cluster.url(0, "/v1/ids?count=3")).header("accept", "text/plain");
    assert_eq!(lines.reply().ok().body.lines().count(), 3);
    assert_eq!(ids.header("seqd-node"), Some("n1"));
    assert!(ids.header("x-request-id").is_some_and(|id| !id.is_empty()));
    let hex = cluster.get(0, "/v1/id?format=hex&pad=20&id_prefix=x-");
    let hex = hex.ok().body;
    assert!(hex.starts_with("x-0000") && hex.len() == 23, "{hex}");
    let small = cluster.get(0, "/v1/ids?layout=js53&numeric=1").ok().json();
    assert!(small["ids"][0].is_u64(), "{small}");
    get(&cluster.url(0, "/v1/ids"))
        .header("accept", "image/png")
        .reply()
        .refused(406, "not-acceptable");

    put(&cluster, "order", &json!({"mode": "strict"})).ok();
    let next = cluster.url(0, "/v1/sequences/order/next");
    let lines = post(&format!("{next}?count=3"))
        .header("accept", "text/plain")
        .reply()
        .ok();
    assert_eq!(lines.body.lines().collect::<Vec<_>>(), ["1", "2", "3"]);
    let body = post(&next).json(&json!({"count": 2})).reply().ok();
    assert_eq!(body.header("cache-control"), Some("no-store"));
    assert_eq!(
        body.json(),
        json!({"ranges": [{"first": "4", "last": "5", "count": 2}], "first": "4", "last": "5",
               "count": 2, "increment": "1", "mode": "strict"})
    );
    let expanded = post(&format!("{next}?count=2&expand=1")).reply().ok();
    assert_eq!(expanded.json()["values"], json!(["6", "7"]));
}

/// Method, path and body of a request that is refused; status, code and a word of the answer.
type Refused = (
    &'static str,
    &'static str,
    Option<Value>,
    u16,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
fn refused() -> Vec<Refused> {
    vec![
        ("GET", "/v1/nosuch", None, 404, "not-found", ""),
        ("POST", "/v1/locks/a/acquire", None, 400, "invalid-argument", "owner is missing"),
        ("GET", "/problems/nosuch", None, 404, "not-found", ""),
        ("GET", "/v1/ids?cuont=3", None, 400, "unknown-field", "count"),
        ("GET", "/v1/ids?count=0", None, 400, "invalid-argument", ""),
        ("GET", "/v1/ids?count=many", None, 400, "invalid-argument", ""),
        ("GET", "/v1/ids?count=10001", None, 400, "count-too-large", "10000"),
        ("POST", "/v1/ids?count=1", Some(json!({"count": 1})), 400, "invalid-argument", ""),
        ("GET", "/v1/id?count=1", None, 400, "unknown-field", ""),
        ("GET", "/v1/id?layout=nosuch", None, 404, "not-found", ""),
        ("GET", "/v1/id?layout=uid-generator", None, 409, "layout-exhausted", ""),
        ("GET", "/v1/id?pad=3", None, 400, "invalid-argument", ""),
        ("GET", "/v1/id?numeric=1", None, 400, "invalid-argument", ""),
        ("GET", "/v1/id?timeout_ms=0", None, 400, "invalid-argument", ""),
        ("GET", "/v1/ids/12x", None, 400, "invalid-argument", ""),
        ("DELETE", "/v1/id", None, 405, "method-not-allowed", ""),
        ("GET", "/v1/uuid?version=1", None, 400, "invalid-argument", ""),
        ("GET", "/v1/workers?limit=0", None, 400, "invalid-argument", ""),
        ("GET", "/v1/sequences?limit=1001", None, 400, "invalid-argument", ""),
        ("DELETE", "/v1/cluster/members/n9", None, 404, "not-found", ""),
        ("POST", "/v1/sequences/nosuch/next", None, 404, "not-found", "seq create nosuch"),
        ("GET", "/v1/sequences/order/next", None, 405, "method-not-allowed", ""),
        ("POST", "/v1/sequences/order/next?count=1000001", None, 400, "count-too-large", ""),
        ("POST", "/v1/sequences/order/next", Some(json!({"number": 1})), 400, "unknown-field", ""),
        ("POST", "/v1/sequences/order/next?count=1", Some(json!({"count": 1})), 400, "invalid-argument", ""),
        ("POST", "/v1/sequences/a", Some(json!({})), 405, "method-not-allowed", ""),
        ("PUT", "/v1/sequences/a", Some(json!({"mod": "strict"})), 400, "unknown-field", ""),
        ("PUT", "/v1/sequences/a", Some(json!({"increment": 0})), 400, "invalid-argument", ""),
        ("PUT", "/v1/sequences/-x", Some(json!({})), 400, "invalid-argument", ""),
        ("PUT", "/v1/sequences/a%20b", Some(json!({})), 400, "invalid-argument", ""),
        ("PUT", "/v1/sequences/%C3%A4", Some(json!({})), 400, "invalid-argument", ""),
        ("POST", "/v1/locks/%zz/acquire", Some(json!({"owner": "a"})), 400, "invalid-argument", "percent-encoded"),
        ("POST", "/v1/locks/a%2/acquire", Some(json!({"owner": "a"})), 400, "invalid-argument", "percent-encoded"),
        ("GET", "/v1/locks/100%", None, 400, "invalid-argument", "percent-encoded"),
        ("POST", "/v1/idempotency/%zz/begin", Some(json!({})), 400, "invalid-argument", "percent-encoded"),
        ("PUT", "/v1/sequences/a%zz", Some(json!({})), 400, "invalid-argument", "percent-encoded"),
        ("POST", "/v1/tokens/%zz/consume", Some(json!({})), 400, "invalid-argument", "percent-encoded"),
    ]
}

#[test]
fn values_that_are_not_understood_are_refused_and_never_guessed() {
    let cluster = Cluster::started(1);
    put(&cluster, "order", &json!({"mode": "strict"})).ok();
    for (method, path, body, status, code, word) in refused() {
        let call = request(method, &cluster.url(0, path));
        let call = body.iter().fold(call, |call, body| call.json(body));
        let reply = call.reply().refused(status, code);
        assert!(reply.body.contains(word), "{method} {path}: {}", reply.body);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert!(reply.header("x-request-id").is_some(), "{path}");
        let problem = reply.json();
        assert_eq!(problem["type"], format!("/problems/{code}"), "{path}");
        assert_eq!(problem["status"], status, "{path}");
        assert_eq!(problem["retryable"], false, "{path}");
        assert!(problem["title"].is_string() && problem["detail"].is_string());
    }
    put(&cluster, &"x".repeat(129), &json!({})).refused(400, "invalid-argument");
    let head = request("HEAD", &cluster.url(0, "/v1/id")).reply();
    assert_eq!(
        (head.status, head.header("allow")),
        (405, Some("GET, POST"))
    );
    request("HEAD", &cluster.url(0, "/livez")).reply().ok();
    // Nothing of all that took a value.
    assert_eq!(cluster.next(0, "order", 1), (1, 1));
}

#[test]
fn bodies_methods_and_headers_that_are_not_understood_are_refused() {
    let cluster = Cluster::started(1);
    put(&cluster, "order", &json!({"mode": "strict"})).ok();
    let at = |path: &str| cluster.url(0, path);
    let next = at("/v1/sequences/order/next");

    post(&next)
        .body("{\"count\":1}")
        .reply()
        .refused(415, "unsupported-media-type");
    let form = post(&next).header("content-type", "application/x-www-form-urlencoded");
    let form = form
        .body("count=1")
        .reply()
        .refused(415, "unsupported-media-type");
    assert!(
        form.body.contains("application/json"),
        "no way out: {}",
        form.body
    );
    let malformed = post(&next)
        .header("content-type", "application/json")
        .body("{");
    malformed.reply().refused(400, "invalid-argument");
    let big = format!("{{\"count\":{}1}}", " ".repeat(65 * 1024));
    let big = post(&next)
        .header("content-type", "application/json")
        .body(big);
    let big = big.reply().refused(413, "body-too-large");
    assert_eq!(
        big.header("connection"),
        Some("close"),
        "the body was left unread"
    );

    post(&next)
        .header("origin", "http://evil.example")
        .reply()
        .refused(403, "forbidden");
    let other = get(&at("/v1/cluster")).header("seqd-cluster", "01JOTHER");
    other.reply().refused(421, "wrong-cluster");
    let rebound = get(&at("/v1/id")).header("host", "evil.example:7400");
    rebound.reply().refused(421, "unknown-host");
    let advance = at("/v1/sequences/order/advance");
    let key = post(&advance).header("idempotency-key", "k").reply();
    key.refused(400, "invalid-argument");
    // Nothing of all that took a value.
    assert_eq!(cluster.next(0, "order", 1), (1, 1));
}

#[test]
fn a_sequence_is_created_once_listed_and_deleted_with_its_mark_kept() {
    let cluster = Cluster::started(1);
    let definition = json!({"mode": "strict", "start": 5, "increment": "5", "max": "20"});
    let created = put(&cluster, "fives", &definition);
    assert_eq!(created.status, 201, "{created:?}");
    let tag = created.header("etag").expect("the revision").to_owned();
    assert_eq!(put(&cluster, "fives", &definition).status, 200);
    put(&cluster, "fives", &json!({"mode": "segment"})).refused(409, "already-exists");
    assert_eq!(cluster.next(0, "fives", 2), (5, 10));
    let fives = cluster.get(0, "/v1/sequences/fives").ok().json();
    assert_eq!(
        (&fives["next"], &fives["remaining"]),
        (&json!("15"), &json!("2"))
    );

    let url = cluster.url(0, "/v1/sequences/fives");
    let moved = get(&url).reply().ok();
    let now = moved.header("etag").expect("another tag").to_owned();
    assert_ne!(now, tag, "its next value is another");
    let unchanged = |tag: &str| get(&url).header("if-none-match", tag).reply();
    let known = unchanged(&now);
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    assert_eq!(unchanged(&tag).status, 200);
    let again = request("PUT", &url).header("if-none-match", "*");
    again
        .json(&definition)
        .reply()
        .refused(412, "precondition-failed");
    for stale in ["\"no-such-revision\"", "\"999\""] {
        let stale = request("DELETE", &url).header("if-match", stale).reply();
        stale.refused(412, "precondition-failed");
    }
    request("DELETE", &url)
        .header("if-match", &tag)
        .reply()
        .ok();
    get(&url).reply().refused(404, "not-found");
    assert!(cluster.sequence_names(0).is_empty());
    put(&cluster, "fives", &json!({"mode": "strict", "start": 1})).refused(409, "already-exists");
    put(&cluster, "fives", &definition).ok();
    assert_eq!(
        cluster.next(0, "fives", 1),
        (15, 15),
        "it goes on above its mark"
    );

    for name in ["a.1", "a.2", "a.3", "b.1"] {
        put(&cluster, name, &json!({})).ok();
    }
    let page = cluster
        .get(0, "/v1/sequences?prefix=a.&limit=2")
        .ok()
        .json();
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items");
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&page), ["a.1", "a.2"]);
    let cursor = page["next_cursor"].as_str().expect("there is more");
    let path = format!("/v1/sequences?prefix=a.&limit=2&cursor={cursor}");
    let page = cluster.get(0, &path).ok().json();
    assert_eq!(names(&page), ["a.3"]);
    assert!(page["next_cursor"].is_null());
}

#[test]
fn uuids_are_of_the_asked_version_and_version_7_increases() {
    let cluster = Cluster::started(1);
    let seven = cluster.get(0, "/v1/uuids?count=2000").ok().json();
    let seven: Vec<String> = seven["uuids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|uuid| uuid.as_str().unwrap().to_owned())
        .collect();
    assert!(
        seven
            .iter()
            .all(|uuid| uuid.len() == 36 && &uuid[14..15] == "7")
    );
    assert!(
        seven.windows(2).all(|pair| pair[0] < pair[1]),
        "strictly increasing"
    );
    let four = cluster.get(0, "/v1/uuids?version=4&count=100").ok().json();
    let four: BTreeSet<String> = four["uuids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|uuid| uuid.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(four.len(), 100);
    assert!(four.iter().all(|uuid| &uuid[14..15] == "4"));
}

/// A counter that appears with its first value shows no increase to whoever watches it.
#[test]
fn counters_are_there_before_they_count() {
    let cluster = Cluster::started(1);
    put(&cluster, "order", &json!({"mode": "strict"})).ok();
    let metrics = cluster.get(0, "/metrics").ok().body;
    for line in [
        "seqd_ids_refused_total{layout=\"default\",code=\"overloaded\"} 0",
        "seqd_sequence_allocated_total{sequence=\"order\"} 0",
        "seqd_segment_refills_total{result=\"failed\"} 0",
        "seqd_http_requests_total{route=\"/v1/uuid\",method=\"POST\",status=\"200\"} 0",
        "seqd_sequences_without_series 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    for name in [
        "cpu_seconds_total",
        "open_fds",
        "resident_memory_bytes",
        "start_time_seconds",
    ] {
        let name = format!("process_{name}");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
        let value: f64 = value.expect(&name).trim().parse().unwrap();
        assert!(value > 0.0, "{name} {value}");
    }
}
