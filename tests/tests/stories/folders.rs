//! Data folders that a node must not start with: emptied, foreign, or in use.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::node::Node;
use seqd_tests::wait;
use serde_json::json;

/// The exit code of a folder that is refused: starting again does not help.
const REFUSED: Option<i32> = Some(9);

#[track_caller]
fn assert_refused(node: &Node, status: ExitStatus, code: &str) {
    assert_eq!(status.code(), REFUSED, "{}", node.tail());
    let last = node.last_line();
    assert!(last.contains(&format!("code={code}")), "{}", node.tail());
}

fn wipe(node: &Node) {
    std::fs::remove_dir_all(node.data()).expect("the folder of a stopped node goes");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn an_emptied_folder_is_refused_and_the_way_out_is_said() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let victim = cluster.follower();
    cluster.node_mut(victim).kill();
    wipe(cluster.node(victim));
    cluster.node_mut(victim).start();
    let status = cluster.node_mut(victim).exit_within(READY);
    assert_refused(cluster.node(victim), status, "wiped-voter");
    let said = cluster.node(victim).stderr();
    assert!(said.contains("member remove"), "no way out in: {said}");
    assert_eq!(cluster.next((victim + 1) % 3, "order", 1), (1, 1));
}

#[test]
fn two_emptied_folders_found_no_second_cluster() {
    let mut cluster = Cluster::started(3);
    let identity = cluster.get(2, "/v1/cluster").json()["cluster_id"].clone();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    assert_eq!(cluster.next(0, "order", 7), (1, 7));
    (0..3).for_each(|i| cluster.node_mut(i).kill());
    wipe(cluster.node(0));
    wipe(cluster.node(1));
    cluster.start_all();
    for i in [0, 1] {
        let status = cluster.node_mut(i).exit_within(READY);
        assert_refused(cluster.node(i), status, "wiped-voter");
    }
    let view = cluster.get(2, "/v1/cluster").ok().json();
    assert_eq!(view["cluster_id"], identity);
    assert_eq!(cluster.get(2, "/readyz").status, 503);
}

#[test]
fn a_folder_of_another_cluster_is_refused() {
    let mut other = Cluster::started(1);
    assert_eq!(other.node_mut(0).stop().code(), Some(0));
    let kept = tempfile::tempdir().unwrap();
    copy_folder(&other.node(0).data(), kept.path());
    drop(other);

    let mut cluster = Cluster::started(3);
    let victim = cluster.follower();
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    wipe(cluster.node(victim));
    copy_folder(kept.path(), &cluster.node(victim).data());
    cluster.node_mut(victim).start();
    let status = cluster.node_mut(victim).exit_within(READY);
    assert_refused(cluster.node(victim), status, "foreign-folder");
}

#[test]
fn a_folder_in_use_is_refused_and_its_user_serves_on() {
    let mut cluster = Cluster::started(1);
    let mut second = Node::new(cluster.folder(), "second");
    second.set_peers(&cluster.peers());
    second.set("node", "name", "\"n1\"");
    let data = cluster.node(0).data();
    second.set(
        "node",
        "data_dir",
        &format!("{:?}", data.display().to_string()),
    );
    second.start();
    let status = second.exit_within(Duration::from_secs(15));
    assert_refused(&second, status, "folder-in-use");
    assert!(cluster.node_mut(0).is_running());
    cluster.get(0, "/v1/id").ok();
}

#[test]
fn a_name_that_is_no_member_waits_and_says_the_command() {
    let mut cluster = Cluster::started(3);
    let stranger = cluster.add_stranger("n4");
    cluster.node_mut(stranger).start();
    wait::until("the command that adds it", READY, || {
        let said = cluster.node(stranger).stderr();
        said.contains("member add n4").then_some(())
    });
    assert!(cluster.node_mut(stranger).is_running());
    assert!(!cluster.node(stranger).is_ready());
}
