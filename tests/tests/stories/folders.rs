//! Data folders with which a node must not start: emptied, foreign, or in use.

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::{copy_folder, flip_bit, row};
use seqd_tests::loop_disk::{FileSystem, ROOMY, cannot_mount};
use seqd_tests::node::Node;
use seqd_tests::{skips, wait};

fn wipe(node: &Node) {
    std::fs::remove_dir_all(node.data()).expect("the folder of a stopped node goes");
}

#[test]
fn an_emptied_folder_is_refused_and_the_way_out_is_printed() {
    let mut cluster = Cluster::started(3).with_order();
    let victim = cluster.follower();
    cluster.node_mut(victim).kill();
    wipe(cluster.node(victim));
    cluster.node_mut(victim).start();
    row("empty folder of a known voter").ends(cluster.node_mut(victim));
    assert_eq!(cluster.next((victim + 1) % 3, "order", 1), (1, 1));
}

#[test]
fn two_emptied_folders_found_no_second_cluster() {
    let mut cluster = Cluster::started(3).with_order();
    let identity = cluster.get(2, "/v1/cluster").json()["cluster_id"].clone();
    assert_eq!(cluster.next(0, "order", 7), (1, 7));
    (0..3).for_each(|i| cluster.node_mut(i).kill());
    wipe(cluster.node(0));
    wipe(cluster.node(1));
    cluster.start_all();
    for i in [0, 1] {
        row("empty folder of a known voter").ends(cluster.node_mut(i));
    }
    let view = wait::until("its view", READY, || cluster.node(2).cluster_view());
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

    // The other cluster's node has the same name: nothing on the node itself differs.
    let mut cluster = Cluster::started(3);
    let victim = 0;
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    wipe(cluster.node(victim));
    copy_folder(kept.path(), &cluster.node(victim).data());
    cluster.node_mut(victim).start();
    row("folder of another cluster").ends(cluster.node_mut(victim));
}

#[test]
fn a_folder_of_another_node_is_refused() {
    let mut cluster = Cluster::started(3);
    for node in [0, 1] {
        assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    }
    wipe(cluster.node(0));
    copy_folder(&cluster.node(1).data(), &cluster.node(0).data());
    cluster.node_mut(0).start();
    row("folder of another node").ends(cluster.node_mut(0));
}

#[test]
fn a_folder_of_another_program_is_refused() {
    let mut cluster = Cluster::planned(1);
    let data = cluster.node(0).data();
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("ibdata1"), "somebody else's").unwrap();
    cluster.node_mut(0).start();
    row("folder of another program").ends(cluster.node_mut(0));
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
    row("folder in use by another process").ends(&mut second);
    assert!(cluster.node_mut(0).is_running());
    cluster.get(0, "/v1/id").ok();
}

#[test]
fn a_folder_of_a_newer_version_is_refused() {
    let mut cluster = Cluster::started(1);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    std::fs::write(cluster.node(0).data().join("format"), "seqd-data 2\n").unwrap();
    cluster.node_mut(0).start();
    row("newer format version").ends(cluster.node_mut(0));
}

#[test]
fn a_folder_that_this_user_may_not_use_is_left_alone() {
    let is_root = rustix::process::geteuid().is_root();
    let why = (!is_root).then(|| "making one needs root".to_owned());
    if skips::ends("a folder of another user", why) {
        return;
    }
    let mut cluster = Cluster::started(1);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(cluster.folder(), closed).unwrap();
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    cluster.node_mut(0).set_launcher(&nobody);
    cluster.node_mut(0).start();
    row("no permission").ends(cluster.node_mut(0));
    cluster.node_mut(0).set_launcher(&[]);
    cluster.node_mut(0).start();
    cluster.wait_ready();
}

#[test]
fn a_folder_on_a_file_system_for_reading_alone_is_left_alone() {
    if skips::ends("a read-only file system", cannot_mount(FileSystem::Ext4)) {
        return;
    }
    let mut cluster = Cluster::planned(1)
        .on_disks(FileSystem::Ext4, ROOMY)
        .ready();
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    cluster.disk_mut(0).unmount();
    cluster.disk_mut(0).mount_read_only();
    cluster.node_mut(0).start();
    row("read-only").ends(cluster.node_mut(0));
    cluster.disk_mut(0).unmount();
    cluster.disk_mut(0).mount();
    cluster.node_mut(0).start();
    cluster.wait_ready();
}

#[test]
fn damage_in_a_small_file_is_reported_by_its_name() {
    let mut cluster = Cluster::started(1);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    let data = cluster.node(0).data();
    for (name, damage) in [
        ("identity", "damaged `identity`"),
        ("boot", "damaged `boot`"),
        ("format", "damaged `format`"),
    ] {
        let path = data.join(name);
        let good = std::fs::read(&path).unwrap();
        flip_bit(&path, 5);
        cluster.node_mut(0).start();
        row(damage).ends(cluster.node_mut(0));
        std::fs::write(&path, good).unwrap();
    }
}

/// The stored last tick is an aid, and correctness does not depend on it.
#[test]
fn a_damaged_mark_of_the_clock_is_reported_and_nothing_more() {
    let mut cluster = Cluster::started(1);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    // Centuries ahead, if it were used.
    flip_bit(&cluster.node(0).data().join("last-tick"), 7);
    cluster.start_repaired(0, "damaged `last-tick`");
    cluster.get(0, "/v1/id").ok();
}
