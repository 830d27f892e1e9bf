//! One name has one form in all answers: what may pass 2^53 is a string, everywhere.

use std::collections::BTreeSet;

use seqd_tests::cluster::Cluster;
use seqd_tests::http::{get, post};
use serde_json::{Value, json};

/// Integers that may pass 2^53, and times.
const TEXTS: &[&str] = &[
    "first",
    "last",
    "next",
    "start",
    "increment",
    "min",
    "max",
    "allocated",
    "remaining",
    "lease",
    "from_tick",
    "fence_tick",
    "tick",
    "grant",
    "largest",
    "ids_per_second_of_all",
    "origin",
    "time",
    "exhausted_at",
    "fence_time",
    "created",
    "expires",
    "token",
];

const NUMBERS: &[&str] = &[
    "count",
    "term",
    "applied",
    "unix_ms",
    "epoch_ms",
    "worker",
    "workers",
    "revision",
    "status",
    "ids_per_second",
    "lag_entries",
    "voters",
    "tick_ms",
    "level",
    "per_second",
    "expires_in_ms",
    "held",
    "waiting",
];

const READS: &[&str] = &[
    "/v1/ids?count=2",
    "/v1/uuids?count=2",
    "/v1/sequences",
    "/v1/sequences/order",
    "/v1/layouts",
    "/v1/layouts/js53",
    "/v1/workers",
    "/v1/locks",
    "/v1/locks/jobs",
    "/v1/cluster",
    "/v1/cluster/members",
    "/v1/config",
    "/v1/sequences/nosuch",
];

fn answers(cluster: &Cluster) -> Vec<Value> {
    let read = |path: &str| get(&cluster.url(0, path)).accept_json().reply().json();
    let mut answers: Vec<Value> = READS.iter().map(|path| read(path)).collect();
    let id = cluster.get(0, "/v1/id").ok().body;
    answers.push(read(&format!("/v1/ids/{}", id.trim())));
    for (path, body) in [
        ("/v1/id", json!({})),
        ("/v1/sequences/order/next", json!({"count": 2})),
        (
            "/v1/sequences/invoice/next",
            json!({"count": "2", "expand": true}),
        ),
        ("/v1/sequences/invoice/segments", json!({"size": "10"})),
        ("/v1/sequences/order/advance", json!({"to": 500})),
        ("/v1/locks/jobs/acquire", json!({"owner": "a"})),
        (
            "/v1/access",
            json!({"scopes": ["read"], "ttl_ms": "100000", "per_second": 5}),
        ),
    ] {
        let call = post(&cluster.url(0, path)).accept_json().json(&body);
        answers.push(call.reply().json());
    }
    answers
}

#[test]
fn one_name_has_one_form_in_all_answers() {
    let cluster = Cluster::started(1);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "invoice", &json!({}));
    let mut seen = BTreeSet::new();
    let named = |name: &str, value: &Value| (name.to_owned(), value.clone());
    let mut left: Vec<(String, Value)> = answers(&cluster)
        .iter()
        .map(|answer| named("", answer))
        .collect();
    while let Some((name, value)) = left.pop() {
        let fits = match &value {
            // Sizes of ranges, not values: they have the names of bounds.
            Value::Object(_) if name == "segment" => continue,
            Value::Object(fields) => {
                left.extend(fields.iter().map(|(name, value)| named(name, value)));
                continue;
            }
            Value::Array(items) => {
                left.extend(items.iter().map(|item| named(&name, item)));
                continue;
            }
            Value::Null => continue,
            Value::String(_) => !NUMBERS.contains(&name.as_str()),
            Value::Number(_) => !TEXTS.contains(&name.as_str()),
            Value::Bool(_) => true,
        };
        assert!(fits, "{name}: {value}");
        seen.insert(name);
    }
    for name in TEXTS.iter().chain(NUMBERS) {
        assert!(seen.contains(*name), "no answer has {name}");
    }
}
