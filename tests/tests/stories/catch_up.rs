//! A node that receives a snapshot over a slow cable is killed in the middle of the transfer.
//!
//! If such links are not available (see `seqd_tests::links`), the story is skipped.

use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::load::each;
use seqd_tests::{links, skips, wait};
use serde_json::json;

/// The number of sequences, and the size of each one's description in bytes, which give a snapshot
/// of some MiB.
const SEQUENCES: u64 = 3_000;
const DESCRIPTION: usize = 1_000;

/// The number of values, each of which is an entry: several times as many as between two snapshots.
const VALUES: u64 = 400;
const SNAPSHOT_EVERY: &str = "100";

/// The number of connections that write.
const WRITERS: usize = 32;

/// The bandwidth of the node's cable, with which the snapshot takes some seconds.
const BITS_PER_SECOND: f64 = 8e6;

/// The time limit of the transfer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size in bytes of the largest file with this suffix in a node's snapshot folder, and the
/// number of such files.
fn snapshots(cluster: &Cluster, node: usize, end: &str) -> (u64, usize) {
    let folder = cluster.node(node).data().join("snap");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = files.filter(|file| file.file_name().to_string_lossy().ends_with(end));
    let sizes: Vec<u64> = named
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .collect();
    (sizes.iter().copied().max().unwrap_or(0), sizes.len())
}

/// A single node whose log begins after a snapshot of everything.
fn leader() -> Cluster {
    let cluster = Cluster::on_links(1, 1).with("raft", "snapshot_every", SNAPSHOT_EVERY);
    let cluster = cluster.ready();
    each(&cluster.addresses(), WRITERS, 0..SEQUENCES, |number| {
        let words = format!("{number:.<DESCRIPTION$}");
        let body = json!({"mode": "strict", "description": words});
        let path = format!("/v1/sequences/made{number}");
        ("PUT", path, body.to_string())
    });
    for _ in 0..VALUES {
        cluster.next(0, "made0", 1);
    }
    let least = SEQUENCES * DESCRIPTION as u64;
    wait::until("a snapshot of all of it", READY, || {
        (snapshots(&cluster, 0, ".snap").0 > least).then_some(())
    });
    // Before the purge, a node without data would be served from the log.
    wait::until("a log without its begin", READY, || {
        (cluster.metric(0, "seqd_raft_purged_index") > 0.0).then_some(())
    });
    cluster
}

#[test]
fn a_node_that_is_killed_while_it_is_sent_a_snapshot_gets_it_at_its_next_start() {
    if skips::ends("links killed receiver", links::unavailable()) {
        return;
    }
    let mut cluster = leader();
    let len = snapshots(&cluster, 0, ".snap").0;
    let receiver = cluster.add_stranger("n2");
    let slow = cluster.links().slow(&[receiver], BITS_PER_SECOND);
    cluster.node_mut(receiver).start();
    cluster.add_member(receiver, 0);
    let arrived = wait::until("a third of the snapshot has arrived", PATIENCE, || {
        let arrived = snapshots(&cluster, receiver, ".tmp").0;
        (arrived > len / 3).then_some(arrived)
    });
    cluster.node_mut(receiver).kill();
    let whole = snapshots(&cluster, receiver, ".snap");
    assert!(
        arrived < len && whole == (0, 0),
        "{arrived} of {len}, {whole:?}"
    );

    let before = cluster.links().carried();
    cluster.node_mut(receiver).start();
    wait::until("the snapshot is installed", PATIENCE, || {
        (snapshots(&cluster, receiver, ".snap").1 > 0).then_some(())
    });
    let carried = cluster.links().carried() - before;
    cluster.wait_same_state(&[0, receiver]);
    assert_eq!(snapshots(&cluster, receiver, ".tmp").1, 0, "a part is left");
    // The bytes that had arrived are in no file that outlives the process, so the snapshot is sent
    // again, once.
    println!("{arrived} of {len} bytes before the kill, {carried} carried after it");
    assert!(
        (len..2 * len).contains(&carried),
        "{carried} bytes for {len}"
    );
    slow.heal();
}
