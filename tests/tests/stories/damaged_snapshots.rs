//! Damaged snapshots: they are set aside. The node serves as long as the state is available
//! elsewhere, and the folder is refused otherwise.

use std::path::PathBuf;
use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::{files, flip_bit, row};
use seqd_tests::node::Node;
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};

/// The number of entries that a log keeps before a snapshot.
const KEPT_BEHIND: u64 = 10_000;

/// The smallest number of entries that are purged at once.
const PURGED_AT_ONCE: u64 = 1024;

/// A minute: this many entries take some time on a busy machine with a debug build.
const FILLED: Duration = Duration::from_secs(60);

fn snapshots(node: &Node) -> Vec<PathBuf> {
    let mut found = files(&node.data().join("snap"), ".snap");
    // `<index>-<term>.snap`
    found.sort_by_key(|path| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        name.split('-')
            .next()
            .and_then(|index| index.parse::<u64>().ok())
    });
    found
}

fn flip_in_the_middle(path: &PathBuf) {
    let length = std::fs::metadata(path).expect("a snapshot").len();
    flip_bit(path, length / 2);
}

/// Nodes that took two snapshots each, and have applied about `entries` entries.
fn filled(count: usize, entries: u64) -> Cluster {
    let cluster = Cluster::planned(count)
        .with("raft", "snapshot_every", "200")
        .ready()
        .with_order();
    let load = Workload::order(&cluster, 4, Route::Fixed, 0);
    wait::until("snapshots and enough entries", FILLED, || {
        let has_two = (0..count).all(|i| snapshots(cluster.node(i)).len() == 2);
        let applied = cluster.node(0).cluster_view()?["applied"].as_u64()?;
        (has_two && applied > entries).then_some(())
    });
    load.finish();
    cluster
}

fn stopped(cluster: &mut Cluster, node: usize) -> &Node {
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    cluster.node(node)
}

fn set_aside(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "seqd_snapshots_set_aside_total")
}

#[test]
fn a_flipped_bit_in_the_newest_snapshot_is_set_aside_and_another_is_taken() {
    let mut cluster = filled(3, 600);
    let node = cluster.follower();
    let files = snapshots(stopped(&mut cluster, node));
    flip_in_the_middle(files.last().expect("a snapshot"));
    cluster.start_repaired(node, "flipped bit in a snapshot");
    assert_eq!(set_aside(&cluster, node), 1.0);
    cluster.wait_same_state(&[0, 1, 2]);
    // Later snapshots are taken as usual, and there are two good ones again.
    let load = Workload::order(&cluster, 4, Route::Fixed, 0);
    wait::until("two snapshots again", READY, || {
        (snapshots(cluster.node(node)).len() == 2).then_some(())
    });
    load.finish();
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn two_bad_snapshots_are_set_aside_and_the_checkpoint_serves() {
    let mut cluster = filled(1, 600);
    let files = snapshots(stopped(&mut cluster, 0));
    files.iter().for_each(flip_in_the_middle);
    cluster.start_repaired(0, "flipped bits in both snapshots");
    assert_eq!(set_aside(&cluster, 0), 2.0);
    cluster.next(0, "order", 1);
}

#[test]
fn a_bad_snapshot_and_no_checkpoint_are_rebuilt_from_the_older_snapshot_and_the_log() {
    let mut cluster = filled(3, 600);
    let node = cluster.follower();
    let files = snapshots(stopped(&mut cluster, node));
    flip_in_the_middle(files.last().expect("a snapshot"));
    std::fs::remove_file(cluster.node(node).data().join("CURRENT")).unwrap();
    cluster.start_repaired(node, "flipped bit in a snapshot, and no checkpoint");
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn a_node_with_a_purged_log_and_neither_snapshot_nor_checkpoint_is_refused() {
    let mut cluster = filled(1, KEPT_BEHIND + PURGED_AT_ONCE + 600);
    let files = snapshots(stopped(&mut cluster, 0));
    files.iter().for_each(flip_in_the_middle);
    std::fs::remove_file(cluster.node(0).data().join("CURRENT")).unwrap();
    cluster.node_mut(0).start();
    row("flipped bits in both snapshots, and no checkpoint").ends(cluster.node_mut(0));
}
