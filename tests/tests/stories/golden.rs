//! A folder that an earlier version left is served by this one.

use std::path::Path;

use seqd_tests::binary::workspace;
use seqd_tests::cluster::Cluster;
use serde_json::Value;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for found in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(found.file_name());
        if found.path().is_dir() {
            copy(&found.path(), &to);
        } else {
            std::fs::copy(found.path(), to).unwrap();
        }
    }
}

#[test]
fn a_folder_of_version_1_goes_on_where_it_ended() {
    let mut cluster = Cluster::planned(1);
    let golden = workspace().join("crates/raft/tests/golden/data-v1");
    copy(&golden, &cluster.node(0).data());
    cluster.start_all();
    cluster.wait_ready();
    let view: Value = cluster.node(0).cluster_view().unwrap();
    assert_eq!(view["cluster_id"], "01KGOLDEN00000000000000001");
    let names = cluster.sequence_names(0);
    assert!(names.iter().eq(["orders", "tickets"]), "{names:?}");
    assert_eq!(cluster.next(0, "orders", 10), (3160, 3169));
    assert!(cluster.next(0, "tickets", 1).0 >= 5001);
    cluster.get(0, "/v1/id").ok();
    // And it stays: what this version wrote, it reads again.
    cluster.node_mut(0).stop();
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(0, "orders", 1), (3170, 3170));
}
