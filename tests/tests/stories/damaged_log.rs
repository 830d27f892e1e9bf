//! A damaged log: a torn write is cut off; missing synced records are detected and the folder is
//! refused, and the machine comes back as a new member.

use std::time::Duration;

use seqd_tests::cluster::{Cluster, MARK};
use seqd_tests::damage::{copy_folder, files, flip_text, row};
use seqd_tests::load::Target;
use seqd_tests::node::Node;
use seqd_tests::wait;

/// The time limit for filling the log's first segment of 16 MiB on a busy machine.
const FILLED: Duration = Duration::from_secs(120);

fn log_of(node: &Node) -> std::path::PathBuf {
    node.data().join("wal")
}

#[test]
fn a_torn_tail_is_cut_off_and_nothing_is_missed() {
    let mut cluster = Cluster::started(1).with_a_record();
    cluster.node_mut(0).kill();
    let segments = files(&log_of(cluster.node(0)), ".seg");
    let segment = segments.last().expect("a segment");
    let bytes = std::fs::read(segment).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    // Half a batch, as a power cut in the middle of a write would leave it.
    let file = std::fs::File::options().write(true).open(segment).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xAB; 100], end + 8).unwrap();
    cluster.start_repaired(0, "torn tail");
    assert_eq!(cluster.metric(0, "seqd_log_torn_tails_total"), 1.0);
    assert_eq!(cluster.next(0, "order", 1), (11, 11));
}

#[test]
fn a_flipped_bit_in_a_synced_record_is_refused_and_the_way_out_works() {
    let mut cluster = Cluster::started(3).with_a_record();
    let victim = cluster.follower();
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    let segments = files(&log_of(cluster.node(victim)), ".seg");
    let flipped: usize = segments.iter().map(|file| flip_text(file, MARK)).sum();
    assert_eq!(flipped, 1, "the record is not in the log");
    cluster.node_mut(victim).start();
    row("flipped bit in a synced record").ends(cluster.node_mut(victim));

    // The remedy in the message: the member is removed, its folder emptied, and it is added again.
    let other = (victim + 1) % 3;
    cluster.replace_member(victim, other);
    cluster.wait_ready();
    cluster.wait_same_state(&[0, 1, 2]);
    assert_eq!(cluster.next(victim, "order", 1), (11, 11));
}

/// A node whose log has two segments. The same definition is written repeatedly, so the log grows
/// and the state does not.
fn with_two_segments() -> Cluster {
    let cluster = Cluster::started(1).with_a_record();
    let path = format!(
        "/v1/sequences/made?mode=strict&description={}",
        "d".repeat(1000)
    );
    let target = Target::put(cluster.addresses(), &path);
    wait::until("two segments", FILLED, || {
        target.closed(32, Duration::from_millis(500));
        (files(&log_of(cluster.node(0)), ".seg").len() == 2).then_some(())
    });
    cluster
}

#[test]
fn a_missing_segment_is_refused() {
    let mut cluster = with_two_segments();
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    let segments = files(&log_of(cluster.node(0)), ".seg");
    let aside = segments[0].with_extension("aside");
    std::fs::rename(&segments[0], &aside).unwrap();
    cluster.node_mut(0).start();
    row("missing segment").ends(cluster.node_mut(0));
    // The folder was refused and left unchanged. After the segment is put back, everything is
    // there.
    std::fs::rename(&aside, &segments[0]).unwrap();
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(0, "order", 1), (11, 11));

    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    std::fs::rename(&segments[1], &aside).unwrap();
    cluster.node_mut(0).start();
    row("missing last segment").ends(cluster.node_mut(0));
    std::fs::rename(&aside, &segments[1]).unwrap();
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(0, "order", 1), (12, 12));
}

#[test]
fn a_log_that_is_gone_is_refused() {
    let mut cluster = Cluster::started(3).with_a_record();
    let victim = cluster.follower();
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    std::fs::remove_dir_all(log_of(cluster.node(victim))).unwrap();
    cluster.node_mut(victim).start();
    row("missing log").ends(cluster.node_mut(victim));
}

#[test]
fn a_log_that_is_older_than_the_checkpoint_is_refused() {
    let mut cluster = Cluster::started(1).with_a_record();
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    let log = log_of(cluster.node(0));
    let kept = cluster.folder().join("older-log");
    copy_folder(&log, &kept);
    cluster.node_mut(0).start();
    cluster.wait_ready();
    cluster.next(0, "order", 10);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    std::fs::remove_dir_all(&log).unwrap();
    copy_folder(&kept, &log);
    cluster.node_mut(0).start();
    row("older copy of the log alone").ends(cluster.node_mut(0));
}
