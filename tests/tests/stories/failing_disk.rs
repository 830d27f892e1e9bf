//! Disks that fail under a running process: a failed sync, no space, no response at all.
//!
//! A failed sync needs `strace` and the right to trace. A full or a hung disk needs its own file
//! system. If these are not available, a story is skipped.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::{files, row};
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::history::Values;
use seqd_tests::loop_disk::{FileSystem, ROOMY, cannot_mount};
use seqd_tests::node::Node;
use seqd_tests::workload::{Route, Workload};
use seqd_tests::{http, skips, wait};
use serde_json::json;

/// Space for a log of two segments, a checkpoint and some more.
const SMALL: u64 = 96 << 20;

/// The time after which a hung disk thaws at the latest.
const THAWS: Duration = Duration::from_secs(20);

fn cannot_trace(story: &str) -> bool {
    skips::ends(story, why_no_trace())
}

fn strict_load(cluster: &Cluster) -> Workload<Values> {
    Workload::order(cluster, 4, Route::Roaming, 1)
}

/// The file to which a node's log is written.
fn live_segment(node: &Node) -> std::path::PathBuf {
    let segments = files(&node.data().join("wal"), ".seg");
    segments.last().expect("a segment").clone()
}

#[test]
fn one_failed_sync_stops_the_leader_and_the_others_continue() {
    if cannot_trace("a failing sync") {
        return;
    }
    let mut cluster = Cluster::started(3).with_order();
    let load = strict_load(&cluster);
    load.wait_for(50, READY);
    let leader = cluster.leader();
    let segment = live_segment(cluster.node(leader));
    let strace = Strace::fail_fdatasync(cluster.node(leader), &segment, "EIO", cluster.folder());
    let begin = Instant::now();
    row("failing fsync").ends(cluster.node_mut(leader));
    let took = begin.elapsed();
    assert!(strace.had_effect(), "the failure did not bite");
    load.wait_for(20, READY);
    println!(
        "ended after {took:?}, the others serve after {:?}",
        begin.elapsed()
    );
    drop(strace);

    cluster.node_mut(leader).start();
    cluster.wait_ready();
    load.wait_for(20, READY);
    load.assert_nothing_lost(&cluster, leader);
}

/// Makes one sync of the checkpoint fail. The node must exit as the entry of the damage reference
/// states.
fn fail_checkpoint(error: &str, damage: &str) {
    if cannot_trace(damage) {
        return;
    }
    let mut cluster = Cluster::started(1).with_order();
    cluster.next(0, "order", 1);
    let sled = files(&cluster.node(0).data(), "")
        .into_iter()
        .find(|path| path.is_dir() && path.to_string_lossy().contains("/state-"))
        .expect("a checkpoint");
    let db = sled.join("db");
    let strace = Strace::fail_fdatasync(cluster.node(0), &db, error, cluster.folder());
    // The process may exit before it has sent the response.
    let sent = http::post(&cluster.url(0, "/v1/sequences/order/next")).send();
    row(damage).ends(cluster.node_mut(0));
    assert!(strace.had_effect(), "the failure did not bite");
    drop(strace);
    cluster.node_mut(0).start();
    cluster.wait_ready();
    let (next, _) = cluster.next(0, "order", 1);
    let is_acknowledged = sent.is_ok_and(|reply| reply.status == 200);
    assert!(
        next == 3 || (next == 2 && !is_acknowledged),
        "{next} is next"
    );
}

#[test]
fn a_checkpoint_whose_sync_fails_ends_the_node_too() {
    fail_checkpoint("EIO", "failing fsync of the checkpoint");
}

#[test]
fn a_write_that_does_not_fit_ends_the_node_and_loses_nothing() {
    fail_checkpoint("ENOSPC", "write that does not fit");
}

/// Lowers the limit of open files so that a running process has no unused descriptor.
fn leave_no_descriptor(node: &Node) {
    let used = |number: &u64| {
        let folder = format!("/proc/{}/fd/{number}", node.pid().as_raw_pid());
        std::fs::symlink_metadata(folder).is_ok()
    };
    let first_unused = (0..).find(|number| !used(number));
    let limits = prlimit(
        Some(node.pid()),
        Resource::Nofile,
        Rlimit {
            current: first_unused,
            ..getrlimit(Resource::Nofile)
        },
    );
    limits.expect("the limit of a child");
}

#[test]
fn a_checkpoint_for_which_no_file_can_be_opened_is_not_a_failed_sync() {
    let planned = Cluster::planned(1).with("raft", "snapshot_every", "100");
    let mut cluster = planned.ready().with_order();
    let load = strict_load(&cluster);
    load.wait_for(20, READY);
    leave_no_descriptor(cluster.node(0));
    let status = cluster.node_mut(0).exit_within(READY);
    let node = cluster.node(0);
    assert_eq!(status.code(), Some(10), "{}", node.tail());
    let last = node.last_line();
    let is_named = last.contains("code=invariant") && last.contains("Too many open files");
    assert!(is_named, "{}", node.tail());
    cluster.node_mut(0).start();
    cluster.wait_ready();
    load.wait_for(20, READY);
    load.assert_nothing_lost(&cluster, 0);
}

/// The number of bytes that are left free on a full disk: below the floor and the requirement of a
/// start, and enough for the little that a node writes for itself.
const LEFT: u64 = 4 << 20;

/// Fills the disks of these nodes while the cluster works, then frees the space.
fn full_disks(choose: impl FnOnce(&Cluster) -> Vec<usize>) {
    if skips::ends("a full disk", cannot_mount(FileSystem::Ext4)) {
        return;
    }
    let planned = Cluster::planned(3).on_disks(FileSystem::Ext4, SMALL);
    let mut cluster = planned.ready().with_order();
    // Not the sequence of the load, whose history must contain every value.
    cluster.create_sequence(0, "other", &json!({"mode": "strict"}));
    let load = strict_load(&cluster);
    load.wait_for(50, READY);
    let full = choose(&cluster);
    let ballast: Vec<_> = full
        .iter()
        .map(|&node| cluster.disk_mut(node).fill_but(LEFT))
        .collect();
    for &node in &full {
        wait::until("writes are refused", READY, || {
            let refused = cluster.post(node, "/v1/sequences/other/next");
            (refused.code() == "overloaded").then_some(())
        });
        row("full disk").assert_repaired(&cluster.node(node).stderr());
        let told = cluster.get(node, "/readyz?verbose");
        assert!(
            told.body.contains("the disk is nearly full"),
            "{}",
            told.body
        );
        let ids = cluster.get(node, "/v1/ids?count=2");
        assert_eq!(ids.status, 200, "{}", ids.body);
    }
    if full.len() == 1 {
        // The other nodes lead and serve.
        load.wait_for(200, READY);
    }
    // A start waits for space, and reports it.
    let node = full[0];
    cluster.node_mut(node).kill();
    cluster.node_mut(node).start();
    wait::until("a start waits for room", READY, || {
        let waits = cluster.node(node).tail().contains("waiting for room");
        waits.then_some(())
    });
    for &node in &full {
        assert!(
            cluster.node_mut(node).is_running(),
            "{}",
            cluster.node(node).tail()
        );
    }
    drop(ballast);
    cluster.wait_ready();
    load.wait_for(20, READY);
    load.assert_nothing_lost(&cluster, full[0]);
}

#[test]
fn a_follower_whose_disk_is_full_refuses_writes_and_room_brings_it_back() {
    full_disks(|cluster| vec![cluster.follower()]);
}

#[test]
fn a_leader_whose_disk_is_full_makes_way_and_room_brings_it_back() {
    full_disks(|cluster| vec![cluster.leader()]);
}

#[test]
fn full_disks_everywhere_refuse_writes_and_lose_nothing() {
    full_disks(|_| vec![0, 1, 2]);
}

/// A disk that neither responds nor fails: it is frozen, and a timer thaws it in any case.
#[test]
fn a_leader_whose_disk_hangs_steps_down_and_reports_why() {
    if skips::ends("a hung disk", cannot_mount(FileSystem::Ext4)) {
        return;
    }
    let planned = Cluster::planned(3).on_disks(FileSystem::Ext4, ROOMY);
    let mut cluster = planned.ready().with_order();
    let load = strict_load(&cluster);
    load.wait_for(50, READY);
    let hung = cluster.leader();
    let before = cluster.node(hung).stderr().len();
    let frozen = cluster.disk_mut(hung).freeze(THAWS);
    let begin = Instant::now();
    let name = cluster.node(hung).name().to_owned();
    let new_leader = wait::until("another leader", READY, || {
        let other = cluster.node((hung + 1) % 3).cluster_view()?;
        let leader = other["leader"].as_str()?.to_owned();
        (leader != name).then_some(leader)
    });
    println!(
        "{new_leader} leads instead of {name} after {:?}",
        begin.elapsed()
    );
    load.wait_for(20, READY);
    wait::until("the hung node says why it is not ready", READY, || {
        let reply = http::get(&cluster.url(hung, "/readyz?verbose"))
            .send()
            .ok()?;
        (reply.status == 503 && reply.body.contains("the disk hangs")).then_some(())
    });
    assert!(begin.elapsed() < THAWS, "it thawed before that was seen");
    let stalled = cluster.metric(hung, "seqd_raft_disk_stalled_seconds");
    assert!(stalled >= 1.0, "stalled for {stalled} s");
    drop(frozen);
    row("hung disk").assert_repaired(&cluster.node(hung).stderr()[before..]);
    cluster.wait_ready();
    load.wait_for(20, READY);
    load.assert_nothing_lost(&cluster, hung);
}
