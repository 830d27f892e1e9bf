//! The state that a request can change, which proves that a refused request and a dry run change
//! nothing.

use seqd_tests::cluster::Cluster;
use serde_json::{Value, json};

/// The items of a list: these fields of each item, or the whole items if `fields` is empty.
fn items(cluster: &Cluster, path: &str, fields: &[&str]) -> Vec<Value> {
    let list = cluster.get(0, path).ok().json();
    let items = list["items"].as_array().expect("a list").iter();
    let of = |item: &Value| fields.iter().map(|field| item[field].clone()).collect();
    items
        .map(|item| {
            if fields.is_empty() {
                item.clone()
            } else {
                of(item)
            }
        })
        .collect()
}

/// Sequences, members, leases, locks, tokens, keys, layouts and leadership, for callers without a token.
pub(crate) fn all_that_counts(cluster: &Cluster) -> Value {
    let names = cluster.sequence_names(0);
    let sequence = |name: &String| cluster.get(0, &format!("/v1/sequences/{name}")).ok().json();
    let sequences: Vec<Value> = names.iter().map(sequence).collect();
    let view = cluster.get(0, "/v1/cluster").ok().json();
    json!([
        sequences,
        items(
            cluster,
            "/v1/cluster/members",
            &["name", "role", "peer", "http"]
        ),
        items(cluster, "/v1/workers", &["layout", "id", "lease", "owner"]),
        items(cluster, "/v1/locks", &[]),
        items(cluster, "/v1/access", &[]),
        items(cluster, "/v1/tokens", &["id"]),
        items(cluster, "/v1/idempotency", &["key", "state"]),
        items(cluster, "/v1/layouts", &["name"]),
        view["leader"],
        view["term"],
    ])
}
