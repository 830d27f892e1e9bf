//! Old copies of a data folder, put back or started next to the running node, and nodes that
//! restart from their own folders, none of which may be mistaken for a copy.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use seqd_tests::checkers::linearizable;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::{copy_folder, flip_bit, row};
use seqd_tests::node::Node;
use seqd_tests::seed::Random;
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};

/// The longest time until a peer has received and stored what was acknowledged: a heartbeat, a
/// second, and a margin.
const HEARD_AND_STORED: Duration = Duration::from_secs(2);

/// The number of times that all nodes are killed and started again.
const ROUNDS: u32 = 5;

fn worked(count: usize) -> Cluster {
    let cluster = Cluster::started(count).with_order();
    cluster.next(0, "order", 5);
    cluster
}

fn work(cluster: &Cluster, at: usize) {
    for _ in 0..20 {
        cluster.next(at, "order", 1);
    }
}

fn copy_of(cluster: &Cluster, at: usize) -> PathBuf {
    let to = cluster.folder().join("kept");
    copy_folder(&cluster.node(at).data(), &to);
    to
}

fn put_back(cluster: &Cluster, at: usize, kept: &Path) {
    let data = cluster.node(at).data();
    std::fs::remove_dir_all(&data).expect("the folder of a stopped node goes");
    copy_folder(kept, &data);
}

fn written(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// Waits until a node's file `peers` was written sufficiently later than this call.
fn wait_stored(cluster: &Cluster, at: usize) {
    let now = cluster.folder().join("now");
    std::fs::write(&now, []).expect("a file that tells the time");
    let heard = written(&now).expect("its time") + HEARD_AND_STORED;
    let path = cluster.node(at).data().join("peers");
    wait::until("what was acknowledged is stored", READY, || {
        (written(&path)? >= heard).then_some(())
    });
}

#[test]
fn a_copy_of_a_stopped_node_s_folder_is_refused_and_the_machine_returns_as_a_new_node() {
    let mut cluster = worked(3);
    let victim = cluster.follower();
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    let kept = copy_of(&cluster, victim);
    cluster.node_mut(victim).start();
    cluster.wait_ready();
    work(&cluster, victim);
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    put_back(&cluster, victim, &kept);
    for _ in 0..2 {
        cluster.node_mut(victim).start();
        row("older copy of a folder that was started since").ends(cluster.node_mut(victim));
    }
    let leader = cluster.leader();
    cluster.replace_member(victim, leader);
    work(&cluster, victim);
}

#[test]
fn a_copy_of_a_running_node_s_folder_is_refused_also_by_one_peer_alone() {
    let mut cluster = worked(3);
    let leader = cluster.leader();
    for victim in [(leader + 1) % 3, leader] {
        let witness = (leader + 2) % 3;
        let third = 3 - victim - witness;
        let kept = copy_of(&cluster, victim);
        work(&cluster, victim);
        wait_stored(&cluster, witness);
        for at in 0..3 {
            cluster.node_mut(at).kill();
        }
        let spare = cluster.folder().join("spare");
        std::fs::rename(cluster.node(victim).data(), &spare).unwrap();
        copy_folder(&kept, &cluster.node(victim).data());
        // One witness is enough, even if it was killed and started too.
        cluster.node_mut(witness).start();
        cluster.node_mut(victim).start();
        row("older copy of its own folder").ends(cluster.node_mut(victim));
        // The node's true folder is accepted.
        std::fs::remove_dir_all(cluster.node(victim).data()).unwrap();
        std::fs::remove_dir_all(&kept).unwrap();
        std::fs::rename(&spare, cluster.node(victim).data()).unwrap();
        cluster.node_mut(victim).start();
        cluster.node_mut(third).start();
        cluster.wait_ready();
    }
}

/// Another process with a copy of a node's folder, under the node's name.
fn twin(cluster: &Cluster, at: usize, data: &Path) -> Node {
    let mut twin = Node::new(cluster.folder(), "twin");
    twin.set("node", "name", &format!("{:?}", cluster.node(at).name()));
    twin.set_peers(&cluster.peers());
    twin.set_data(data);
    twin
}

#[test]
fn a_copy_started_next_to_the_running_node_is_refused_without_disturbance() {
    let cluster = worked(3);
    let victim = cluster.follower();
    let kept = copy_of(&cluster, victim);
    work(&cluster, victim);
    for other in (0..3).filter(|at| *at != victim) {
        wait_stored(&cluster, other);
    }
    let mut twin = twin(&cluster, victim, &kept);
    twin.start();
    row("copy of a live node's folder started beside it").ends(&mut twin);
    work(&cluster, victim);
    cluster.wait_ready();
}

#[test]
fn of_two_processes_with_copies_of_one_folder_at_most_one_serves() {
    let mut cluster = worked(3);
    let victim = cluster.follower();
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    let kept = copy_of(&cluster, victim);
    let mut twin = twin(&cluster, victim, &kept);
    twin.start();
    cluster.node_mut(victim).start();
    let row = row("two copies of one folder started at once");
    wait::until("one of them ends", READY, || {
        let own = cluster.node_mut(victim);
        // If one process ends between two probes, both were not ready at the same time.
        let both = twin.is_ready() && own.is_ready() && twin.is_ready();
        assert!(!both, "both serve");
        (!twin.is_running() || !own.is_running()).then_some(())
    });
    // A process that has ended does not come back, so two processes cannot serve from now on.
    for node in [&mut twin, cluster.node_mut(victim)] {
        if !node.is_running() {
            row.ends(node);
        }
    }
    work(&cluster, (victim + 1) % 3);
}

#[test]
fn nodes_killed_at_any_moment_and_started_all_at_once_are_never_taken_for_copies() {
    let mut random = Random::of_this_run("nodes_killed_at_any_moment_are_welcome");
    let mut cluster = worked(3).with("raft", "snapshot_every", "500");
    let values = Workload::order(&cluster, 4, Route::Roaming, 0);
    for round in 0..ROUNDS {
        values.wait_for(20, READY);
        let moment = Duration::from_micros(random.below(400_000));
        let until = Instant::now() + moment;
        while Instant::now() < until {
            std::thread::yield_now();
        }
        // Kill all nodes, or all but one, so that terms and leaders change between the rounds.
        let spared = random.below(4);
        let mut killed: Vec<usize> = (0..3).filter(|at| *at as u64 != spared).collect();
        random.shuffle(&mut killed);
        for at in &killed {
            cluster.node_mut(*at).kill();
        }
        for at in &killed {
            cluster.node_mut(*at).start();
        }
        println!("round {round}: {killed:?} after {moment:?}");
        cluster.wait_ready();
    }
    linearizable::strict(&values.finish()).unwrap();
}

#[test]
fn a_damaged_table_of_peers_is_replaced_and_hurts_nothing() {
    let mut cluster = worked(3);
    let victim = cluster.follower();
    work(&cluster, victim);
    wait_stored(&cluster, victim);
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    flip_bit(&cluster.node(victim).data().join("peers"), 9);
    cluster.start_repaired(victim, "damaged `peers`");
    wait_stored(&cluster, victim);
}
