//! The sled folder is a materialisation: without it, or with a bad byte in it, the node rebuilds
//! the same state from the log.

use std::path::PathBuf;

use seqd_tests::cluster::Cluster;
use seqd_tests::damage::{flip_bit, flip_text, row};
use seqd_tests::node::Node;
use serde_json::json;

/// A text that stands in a record, so that a flipped byte certainly lies in one.
const MARK: &str = "a-description-that-the-story-finds-again";

fn state_folders(node: &Node) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(node.data()).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("state-"))
        .map(|entry| entry.path())
        .collect()
}

fn files_below(folder: &PathBuf) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files
}

/// Flips a bit of the record in every place where sled has written it down.
fn flip_a_bit_of_the_record(node: &Node) -> usize {
    let files = state_folders(node)
        .iter()
        .flat_map(files_below)
        .collect::<Vec<_>>();
    files.iter().map(|file| flip_text(file, MARK)).sum()
}

fn started_with_a_record() -> Cluster {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict", "description": MARK}));
    assert_eq!(cluster.next(0, "order", 10), (1, 10));
    cluster
}

fn assert_rebuilt(cluster: &mut Cluster, node: usize, damage: &str) {
    let said_before = cluster.node(node).stderr().len();
    cluster.node_mut(node).start();
    cluster.wait_ready();
    let said = cluster.node(node).stderr();
    row(damage).is_healed(&said[said_before..]);
    assert_eq!(cluster.metric(node, "seqd_checkpoint_rebuilds_total"), 1.0);
    assert_eq!(cluster.next(node, "order", 1), (11, 11));
    cluster.wait_same_state(&[0, 1, 2]);
    let order = cluster.get(node, "/v1/sequences/order?stale=1").ok().json();
    assert_eq!(order["description"], MARK);
}

#[test]
fn a_deleted_sled_folder_is_rebuilt() {
    let mut cluster = started_with_a_record();
    let node = cluster.follower();
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    let folders = state_folders(cluster.node(node));
    assert!(!folders.is_empty(), "no checkpoint was made");
    folders
        .iter()
        .for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    assert_rebuilt(&mut cluster, node, "missing sled folder");
}

#[test]
fn a_flipped_byte_in_sled_is_found_and_the_state_rebuilt() {
    let mut cluster = started_with_a_record();
    let node = cluster.follower();
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    assert!(
        flip_a_bit_of_the_record(cluster.node(node)) > 0,
        "the record is not in sled"
    );
    assert_rebuilt(&mut cluster, node, "corrupt sled folder");
}

#[test]
fn a_damaged_pointer_to_the_checkpoint_is_no_loss() {
    let mut cluster = started_with_a_record();
    let node = cluster.follower();
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    flip_bit(&cluster.node(node).data().join("CURRENT"), 3);
    assert_rebuilt(&mut cluster, node, "damaged `CURRENT`");
}

#[test]
fn a_node_that_was_killed_starts_from_its_checkpoint_with_the_same_state() {
    let mut cluster = started_with_a_record();
    let node = cluster.follower();
    cluster.node_mut(node).kill();
    cluster.node_mut(node).start();
    cluster.wait_ready();
    cluster.wait_same_state(&[0, 1, 2]);
}
