//! Cuts without a violation, planted faults that are detected, and deterministic histories.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use openraft::storage::{IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use seqd_disk::Disk;
use seqd_disk::simulated::{Dice, SimulatedDisk};

use super::cluster::Cluster;
use super::node::{Node, ROOT};
use super::*;
use crate::seeds::{fresh, number_of};

/// Histories of both tests, unless the environment sets another number of cuts.
const HISTORIES: u64 = 128;

// Two tests, for two processors. Each failure prints its own seed.

#[test]
fn power_cuts_of_a_whole_folder_lose_nothing() {
    lose_nothing(0);
}

#[test]
fn further_power_cuts_of_a_whole_folder_lose_nothing() {
    lose_nothing(1);
}

/// Histories with fresh seeds, in addition to the fixed ones.
const FRESH_HISTORIES: u64 = 16;

#[test]
fn power_cuts_of_a_whole_folder_under_fresh_seeds_lose_nothing() {
    let first = fresh();
    println!("histories from seed {first} on; one alone: SEQD_FOLDER_SEED={first}");
    for seed in first..first + FRESH_HISTORIES {
        history(seed, CUTS_PER_HISTORY, Plant::Nothing)
            .unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// Runs every second history. The environment can set the first seed and the number of cuts.
fn lose_nothing(half: u64) {
    let seed = number_of("SEQD_FOLDER_SEED");
    let cuts = number_of("SEQD_FOLDER_CUTS");
    let histories = match (cuts, seed) {
        (Some(cuts), _) => cuts.div_ceil(CUTS_PER_HISTORY),
        (None, Some(_)) => 1,
        (None, None) => HISTORIES,
    };
    let first = seed.unwrap_or(1);
    let seeds: Vec<u64> = (first..first + histories)
        .filter(|seed| (seed - first) % 2 == half)
        .collect();
    let began = std::time::Instant::now();
    let mut total = Figures::default();
    for seed in &seeds {
        let seed = *seed;
        let figures = history(seed, CUTS_PER_HISTORY, Plant::Nothing)
            .unwrap_or_else(|violation| panic!("{violation}"));
        total.cuts += figures.cuts;
        total.restarts += figures.restarts;
        total.operations += figures.operations;
        total.cuts_while_opening += figures.cuts_while_opening;
        total.snapshots += figures.snapshots;
        total.installs += figures.installs;
        total.purges += figures.purges;
        total.truncations += figures.truncations;
    }
    println!("{:.1} s: {total:?}", began.elapsed().as_secs_f64());
    if histories < HISTORIES {
        return;
    }
    assert!(
        total.cuts >= seeds.len() as u64 * CUTS_PER_HISTORY,
        "{total:?}"
    );
    // The workload exercises all the rare operations.
    let seldom = [
        total.cuts_while_opening,
        total.snapshots,
        total.installs,
        total.purges,
        total.truncations,
    ];
    assert!(seldom.iter().all(|count| *count > 100), "{total:?}");
}

#[test]
fn equal_seeds_are_equal_histories() {
    for seed in [7, 8] {
        let one = history(seed, 12, Plant::Nothing).unwrap_or_else(|found| panic!("{found}"));
        let two = history(seed, 12, Plant::Nothing).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(one, two);
    }
    let other = history(9, 12, Plant::Nothing).unwrap_or_else(|found| panic!("{found}"));
    let one = history(7, 12, Plant::Nothing).unwrap_or_else(|found| panic!("{found}"));
    assert_ne!(one.fingerprint, other.fingerprint);
}

/// The first violation that a planted fault causes.
fn found(plant: Plant) -> Violation {
    (1..60)
        .find_map(|seed| history(seed, CUTS_PER_HISTORY, plant).err())
        .map_or_else(|| panic!("{plant:?} was not found"), |found| *found)
}

#[test]
fn a_snapshot_folder_that_is_not_synced_is_found() {
    let found = found(Plant::SnapshotFolderUnsynced);
    assert!(!found.operations.is_empty() && found.to_string().contains("SEQD_FOLDER_SEED"));
}

#[test]
fn a_data_folder_that_is_not_synced_after_a_rename_is_found() {
    found(Plant::DataFolderUnsynced);
}

#[test]
fn a_purge_before_the_snapshot_is_durable_is_found() {
    found(Plant::PurgeBeforeSnapshot);
}

#[test]
fn a_checkpoint_ahead_of_the_synced_log_is_found() {
    found(Plant::CheckpointAheadOfLog);
}

/// Appends and applies the committed entries up to `end`, then takes a snapshot.
fn grow(node: &mut Node, cluster: &mut Cluster, dice: &mut Dice, end: u64) {
    let mut entries = Vec::new();
    for index in cluster.next()..end {
        let entry = cluster.propose(index, dice);
        cluster.commit(entry.clone());
        entries.push(entry);
    }
    let pump = node.pump.clone();
    let appended = node.log.append(entries.clone(), IOFlushed::noop());
    Node::drive(&pump, appended).unwrap();
    pump.run();
    node.apply(entries).unwrap();
    Node::drive(&pump, async {
        let mut builder = node.machine.get_snapshot_builder().await;
        builder.build_snapshot().await
    })
    .unwrap();
}

#[test]
fn an_older_log_beside_a_checkpoint_at_a_snapshot_is_refused() {
    let disk = SimulatedDisk::holding("/");
    let (seeds, mut dice) = (Arc::new(AtomicU32::new(1)), Dice::new(1));
    let mut cluster = Cluster::new();
    let (mut node, _) = Node::open(&disk, &seeds, Plant::Nothing).unwrap_or_else(|_| panic!());
    grow(&mut node, &mut cluster, &mut dice, 10);
    let older = disk.killed();
    grow(&mut node, &mut cluster, &mut dice, 20);
    Node::drive(&node.pump, node.machine.checkpointer.stop()).unwrap();
    node.wal.close().unwrap();

    let whole = disk.kept();
    assert!(Node::open(&whole, &seeds, Plant::Nothing).is_ok());
    let mixed = disk.kept();
    let wal = Path::new(ROOT).join("wal");
    for name in mixed.list(&wal).unwrap() {
        mixed.delete(wal.join(name));
    }
    for name in older.list(&wal).unwrap() {
        let bytes = older.contents(wal.join(&name)).unwrap();
        mixed.put(wal.join(name), &bytes);
    }
    let refused = Node::open(&mixed, &seeds, Plant::Nothing).err().unwrap();
    assert_eq!(refused.code(), "corrupt");
    assert!(
        refused.message.contains("the log was lost or is older"),
        "{}",
        refused.message
    );
}
