//! A node that holds several workers of a layout while the load needs them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_tests::cluster::Cluster;
use seqd_tests::wait::SetsAtEnd;
use seqd_tests::{http, wait};
use serde_json::Value;

/// The time for the election of the only node and for two consecutive leases, with a debug build on
/// a loaded machine.
const SOON: Duration = Duration::from_secs(20);

/// Requests batches of `js53`, whose workers mint 128 IDs per millisecond each, until `enough` is
/// set. Returns the batches with their workers.
fn batches(url: &str, enough: &AtomicBool) -> Vec<(u64, Vec<u64>)> {
    let mut batches = Vec::new();
    while !enough.load(Ordering::Relaxed) {
        let answer = http::get(url).accept_json().reply().ok().json();
        let text = |id: &Value| id.as_str().and_then(|id| id.parse().ok());
        let ids = answer["ids"].as_array().expect("a list of IDs").iter();
        let ids: Vec<u64> = ids.map(|id| text(id).expect("an ID")).collect();
        batches.push((answer["worker"].as_u64().expect("a worker"), ids));
    }
    batches
}

#[test]
fn a_node_at_its_limit_holds_further_workers_and_no_id_of_theirs_repeats() {
    let mut cluster = Cluster::planned(1).with("clock", "workers", "3").ready();
    let (enough, mut seen) = (AtomicBool::new(false), BTreeSet::new());
    for _ in 0..2 {
        let url = cluster.url(0, "/v1/ids?layout=js53&count=1000");
        enough.store(false, Ordering::Relaxed);
        let all = std::thread::scope(|scope| {
            let end = SetsAtEnd(&enough);
            let clients: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| batches(&url, &enough)))
                .collect();
            wait::until("three workers of js53", SOON, || {
                let view = cluster.node(0).cluster_view()?;
                let more = view["members"][0]["more_workers"]["js53"].as_array()?.len();
                (more == 2).then_some(())
            });
            // The node serves IDs of several workers: another client requests until two workers
            // have answered.
            let mut answered = BTreeSet::new();
            wait::until("answers of two workers", SOON, || {
                let answer = http::get(&url).accept_json().reply().ok().json();
                answered.insert(answer["worker"].as_u64()?);
                (answered.len() > 1).then_some(())
            });
            drop(end);
            let joined = clients.into_iter().map(|client| client.join());
            joined
                .flat_map(|ids| ids.expect("a client"))
                .collect::<Vec<_>>()
        });
        for (_, ids) in &all {
            assert!(ids.is_sorted_by(|a, b| a < b), "out of order: {ids:?}");
            assert!(ids.iter().all(|id| seen.insert(*id)), "an ID twice");
        }
        // A clean stop releases all leases, so the next start can lease the workers at once.
        assert!(cluster.node_mut(0).stop().success());
        cluster.node_mut(0).start();
        cluster.wait_ready();
        let leases = cluster.get(0, "/v1/workers?layout=js53").ok().json();
        let items = leases["items"].as_array().expect("a list");
        let is_live = |lease: &&Value| lease["live"] == true;
        assert_eq!(items.iter().filter(is_live).count(), 0, "{leases}");
    }
}
