//! This version serves a folder that an earlier version left.

use seqd_tests::binary::workspace;
use seqd_tests::cluster::Cluster;
use seqd_tests::damage::copy_folder;
use serde_json::Value;

#[test]
fn a_folder_of_version_1_continues_where_it_ended() {
    let mut cluster = Cluster::planned(1);
    let golden = workspace().join("crates/raft/tests/golden/data-v1");
    copy_folder(&golden, &cluster.node(0).data());
    cluster.start_all();
    cluster.wait_ready();
    let view: Value = cluster.node(0).cluster_view().unwrap();
    assert_eq!(view["cluster_id"], "01KGOLDEN00000000000000001");
    let names = cluster.sequence_names(0);
    assert!(names.iter().eq(["orders", "tickets"]), "{names:?}");
    assert_eq!(cluster.next(0, "orders", 10), (3160, 3169));
    assert!(cluster.next(0, "tickets", 1).0 >= 5001);
    cluster.get(0, "/v1/id").ok();
    // This version can also read the folder after its own writes.
    cluster.node_mut(0).stop();
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(0, "orders", 1), (3170, 3170));
}
