//! Snowflake IDs stay unique and increasing while the nodes that mint them are killed.

use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::runs::{IdRun, ids_while_nodes_are_killed};
use seqd_tests::seed::Random;

/// How long a node that is up may pause while another is killed or comes back: far less than its window
/// of 30 s. What a pause is on a machine with nothing else to do, the soak run tells.
const PAUSE: Duration = Duration::from_secs(5);

#[test]
fn no_id_is_minted_twice_while_each_node_in_turn_is_killed() {
    let mut victims = [0, 1, 2];
    Random::of_this_run("victims").shuffle(&mut victims);
    let count = ids_while_nodes_are_killed(&IdRun {
        clients: 3,
        batch: 500,
        pause_ms: 5,
        victims,
        stretch: 50,
        patience: READY,
        longest_pause: PAUSE,
    });
    let count = count.unwrap();
    assert!(count >= 75_000, "only {count} IDs were minted");
}

#[test]
fn an_id_names_its_time_its_worker_and_who_held_it() {
    let cluster = Cluster::started(3);
    let minted = seqd_tests::http::get(&cluster.url(1, "/v1/id"))
        .accept_json()
        .reply()
        .ok()
        .json();
    let id = minted["id"].as_str().expect("an ID as a string");
    // Any node decodes it, as the leases are replicated.
    let parts = cluster.get(2, &format!("/v1/ids/{id}")).ok().json();
    assert_eq!(parts["id"], minted["id"]);
    assert_eq!(parts["worker"], minted["worker"]);
    assert_eq!(parts["layout"], "default");
    assert!(parts["datacenter"].is_null());
    assert_eq!(parts["holder"]["node"], "n2");
    let tick = integer(&parts["tick"]);
    assert!(integer(&parts["holder"]["from_tick"]) <= tick);
    assert!(tick < integer(&parts["holder"]["fence_tick"]));
    for format in ["hex", "base62", "crockford"] {
        let text = parts[format].as_str().expect("a text form");
        let name = if format == "base62" { "b62" } else { format };
        let again = cluster
            .get(0, &format!("/v1/ids/{text}?format={name}"))
            .ok()
            .json();
        assert_eq!(again["id"], minted["id"], "through {format}");
    }
}
