//! The sled folder is a materialisation of the state: if it is missing or damaged, the node
//! rebuilds the same state from the log.

use std::path::PathBuf;

use seqd_tests::binary::files_below;
use seqd_tests::cluster::{Cluster, MARK};
use seqd_tests::damage::{flip_bit, flip_text};
use seqd_tests::node::Node;

fn state_folders(node: &Node) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(node.data()).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("state-"))
        .map(|entry| entry.path())
        .collect()
}

/// Flips a bit of the record in every place to which sled has written it.
fn flip_a_bit_of_the_record(node: &Node) -> usize {
    let files = state_folders(node)
        .iter()
        .flat_map(|folder| files_below(folder).unwrap())
        .collect::<Vec<_>>();
    files.iter().map(|file| flip_text(file, MARK)).sum()
}

fn assert_rebuilt(cluster: &mut Cluster, node: usize, damage: &str) {
    cluster.start_repaired(node, damage);
    assert_eq!(cluster.metric(node, "seqd_checkpoint_rebuilds_total"), 1.0);
    assert_eq!(cluster.next(node, "order", 1), (11, 11));
    cluster.wait_same_state(&[0, 1, 2]);
    let order = cluster.get(node, "/v1/sequences/order?stale=1").ok().json();
    assert_eq!(order["description"], MARK);
}

#[test]
fn a_deleted_sled_folder_is_rebuilt() {
    let mut cluster = Cluster::started(3).with_a_record();
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
    let mut cluster = Cluster::started(3).with_a_record();
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
    let mut cluster = Cluster::started(3).with_a_record();
    let node = cluster.follower();
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    flip_bit(&cluster.node(node).data().join("CURRENT"), 3);
    assert_rebuilt(&mut cluster, node, "damaged `CURRENT`");
}
