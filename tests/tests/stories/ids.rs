//! Snowflake IDs stay unique and increasing while the nodes that mint them are killed.

use std::time::Duration;

use seqd_tests::checkers::{increasing, pauses, unique};
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::seed::Random;
use seqd_tests::workload::{Route, Workload};

/// How long a node that is up may pause while another is killed or comes back. A debug build that
/// shares two cores with another cluster is given twice what the soak run demands.
const PAUSE: Duration = Duration::from_secs(2);

#[test]
fn no_id_is_told_twice_while_each_node_in_turn_is_killed() {
    let mut cluster = Cluster::started(3);
    let timeline = Timeline::begin();
    let load = cluster.load(3, Route::Fixed, 500, 5);
    let workload = Workload::ids(load, timeline);
    workload.wait_for(50, READY);
    let mut outages = Vec::new();
    let mut victims = [0, 1, 2];
    Random::of_this_run("victims").shuffle(&mut victims);
    for victim in victims {
        let begin = timeline.at();
        cluster.node_mut(victim).kill();
        workload.wait_for(50, READY);
        cluster.node_mut(victim).start();
        cluster.wait_ready_of(&[victim], READY);
        workload.wait_for(50, READY);
        outages.push((victim, begin, timeline.at()));
    }
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    let count = unique::numbers(&history).unwrap();
    increasing::ids_per_worker(&history).unwrap();
    assert!(count >= 75_000, "only {count} IDs were minted");
    for (victim, from, to) in outages {
        for node in (0..3).filter(|&node| node != victim) {
            pauses::check_node(&history, node, (from, to), PAUSE).unwrap();
        }
    }
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
