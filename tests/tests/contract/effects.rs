//! The state that a request can change, which proves that a refused request and a dry run change
//! nothing.

use seqd_tests::cluster::Cluster;
use seqd_tests::node::Node;
use seqd_tests::{http, wait};
use serde_json::{Value, json};

use crate::run::PATIENCE;

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

/// The nodes that are members.
fn members(cluster: &Cluster) -> impl Iterator<Item = &Node> + Clone {
    let members = items(cluster, "/v1/cluster/members", &["name"]);
    (0..cluster.size())
        .map(|index| cluster.node(index))
        .filter(move |node| members.contains(&json!([node.name()])))
}

/// The members that are drained, each by its own view.
fn drained(cluster: &Cluster) -> Vec<String> {
    let is_drained = |node: &&Node| {
        let list = http::get(&format!("{}/v1/cluster/members", node.url()));
        let list = list.send().expect("an answer").ok().json();
        let mut items = list["items"].as_array().expect("a list").iter();
        items.any(|item| item["name"] == node.name() && item["state"] == "draining")
    };
    let drained = members(cluster).filter(is_drained);
    drained.map(|node| node.name().to_owned()).collect()
}

/// The leases of clients. A node leases and returns its own workers whenever it likes.
fn leases(cluster: &Cluster) -> Vec<Value> {
    let fields = ["node", "layout", "id", "lease", "owner"];
    let mut leases = items(cluster, "/v1/workers", &fields);
    leases.retain(|lease| lease[0].is_null());
    leases
}

/// The leader and its term, as soon as all members name the same: a node learns of a new leader
/// some time after the command that moved the leadership has ended.
fn leadership(cluster: &Cluster) -> Value {
    let nodes = members(cluster);
    wait::until("one leader in the view of all members", PATIENCE, || {
        let views = nodes
            .clone()
            .map(|node| node.cluster_view())
            .collect::<Option<Vec<_>>>()?;
        let mut named = views
            .iter()
            .map(|view| json!([view["leader"], view["term"]]));
        let first = named.next()?;
        (first[0].is_string() && named.all(|other| other == first)).then_some(first)
    })
}

/// Sequences, members, drains, leases of clients, locks, tokens, keys, layouts and leadership, for
/// callers without a token.
pub(crate) fn all_that_counts(cluster: &Cluster) -> Value {
    let names = cluster.sequence_names(0);
    let sequence = |name: &String| cluster.get(0, &format!("/v1/sequences/{name}")).ok().json();
    let sequences: Vec<Value> = names.iter().map(sequence).collect();
    json!([
        sequences,
        items(
            cluster,
            "/v1/cluster/members",
            &["name", "role", "peer", "http"]
        ),
        drained(cluster),
        leases(cluster),
        items(cluster, "/v1/locks", &[]),
        items(cluster, "/v1/access", &[]),
        items(cluster, "/v1/tokens", &["id"]),
        items(cluster, "/v1/idempotency", &["key", "state"]),
        items(cluster, "/v1/layouts", &["name"]),
        leadership(cluster),
    ])
}
