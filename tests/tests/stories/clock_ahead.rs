//! All clocks were ten years ahead for a while. `seqd worker reset` lets each node mint at the
//! present time again, without a repeated ID.
//!
//! If clocks cannot be shifted here (see `seqd_tests::clock`), the story is skipped. The tests of
//! the node crate show the same through its clock port.

use std::collections::BTreeSet;
use std::time::Duration;

use seqd_tests::binary;
use seqd_tests::clock::Clocks;
use seqd_tests::cluster::Cluster;
use seqd_tests::{http, wait};

const TEN_YEARS_MS: i64 = 315_360_000_000;

/// The time limit of each step: windows, agreement of clocks and starts take seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of bits below the tick in the layout `default`, whose ticks are milliseconds.
const TICK_SHIFT: u32 = 22;

/// Requests IDs from a node until it returns some for which `is_right` holds. Keeps all returned
/// IDs.
fn ids_from(cluster: &Cluster, node: usize, ids: &mut Vec<u64>, is_right: impl Fn(u64) -> bool) {
    wait::until("the IDs of a node", PATIENCE, || {
        let url = cluster.url(node, "/v1/ids?count=100");
        let reply = http::get(&url).send().ok()?;
        if reply.status != 200 {
            return None;
        }
        let texts = reply.json()["ids"].as_array().unwrap().clone();
        let drawn = texts.iter().map(|id| id.as_str().unwrap().parse().unwrap());
        let drawn: Vec<u64> = drawn.collect();
        ids.extend(&drawn);
        drawn.iter().all(|id| is_right(*id)).then_some(())
    });
}

fn reset(cluster: &Cluster, name: &str, options: &[&str]) -> (Option<i32>, String) {
    let endpoints = cluster.addresses().join(",");
    let words = [
        &["-e", endpoints.as_str(), "worker", "reset", name],
        options,
    ]
    .concat();
    let output = binary::command(&words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn nodes_mint_in_the_present_again_after_all_clocks_were_ten_years_ahead() {
    let mut cluster = Cluster::planned(3);
    let Some(mut clocks) = Clocks::of(&mut cluster) else {
        return;
    };
    let mut cluster = cluster.ready();
    let mut ids = Vec::new();
    for node in 0..3 {
        ids_from(&cluster, node, &mut ids, |_| true);
    }
    let present = ids.iter().max().unwrap() >> TICK_SHIFT;
    let is_ahead = |id: u64| id >> TICK_SHIFT > present + TEN_YEARS_MS as u64 / 2;
    (0..3).for_each(|node| clocks.set(node, TEN_YEARS_MS));
    for node in 0..3 {
        ids_from(&cluster, node, &mut ids, is_ahead);
    }
    (0..3).for_each(|node| clocks.set(node, 0));
    // One of the nodes is stopped at the time of the reset, which takes effect at its next start.
    assert_eq!(cluster.node_mut(2).stop().code(), Some(0));
    for node in 0..2 {
        wait::until("a refusal in the present", PATIENCE, || {
            let reply = http::get(&cluster.url(node, "/v1/id")).send().ok()?;
            (reply.code() == "clock-behind").then_some(())
        });
    }
    for (at, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        let effect = "gives up the windows that are ahead of the clock";
        wait::until("clocks that agree in the present", PATIENCE, || {
            let (code, text) = reset(&cluster, name, &["--dry-run"]);
            (code == Some(0) && text.contains(effect)).then_some(())
        });
        let (code, text) = reset(&cluster, name, &[]);
        assert!(code == Some(2) && text.contains("--yes"), "{code:?} {text}");
        let (code, text) = reset(&cluster, name, &["--yes"]);
        assert!(code == Some(0) && text.contains(effect), "{code:?} {text}");
        if at == 2 {
            cluster.node_mut(2).start();
        }
        ids_from(&cluster, at, &mut ids, |id| !is_ahead(id));
    }
    let (code, text) = reset(&cluster, "n9", &["--yes"]);
    assert!(
        code == Some(3) && text.contains("n1, n2, n3"),
        "{code:?} {text}"
    );
    // The stored last tick is in the present, so a start does not have to wait.
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    cluster.node_mut(0).start();
    ids_from(&cluster, 0, &mut ids, |id| !is_ahead(id));
    let distinct: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "an ID twice");
}
