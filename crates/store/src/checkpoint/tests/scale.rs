//! A large state: what an opening, a snapshot and an installation cost in time and memory.
//!
//! `SEQD_SCALE_ROWS=2000000 cargo test --release -p seqd-store --lib scale -- --nocapture` prints
//! the figures of two million rows; without it a few thousand show that it works.

use std::time::Instant;

use seqd_state::idgen::{Progression, WallMs};
use seqd_state::{
    ClusterCommand, ClusterMs, Command, Entry, Found, NodeId, SegmentSizes, SequenceCommand,
    SequenceDefinition, SequenceMode, SequenceName, Stamp, State, StateLoader,
};

use super::*;
use crate::snapshot_file;

fn rows_wanted() -> u64 {
    std::env::var("SEQD_SCALE_ROWS").map_or(4_000, |rows| rows.parse().unwrap())
}

/// Rows between two checkpoints: what a node under load creates in 50 ms.
const ROWS_PER_CHECKPOINT: u64 = 500;

/// Sequences with names and descriptions of mixed length, in no order of their names, and the
/// checkpoints that a node writes meanwhile.
fn large(rows: u64, store: &mut dyn StateStore) -> State {
    let mut state = State::new();
    let stamp = Stamp {
        wall_ms: WallMs(1_800_000_000_000),
        cluster_ms: ClusterMs(1),
    };
    let apply = |state: &mut State, command| {
        let commands = vec![command];
        state.apply(&Entry { stamp, commands }, None);
    };
    let mut index = 0;
    let mut checkpoint = |state: &mut State| {
        index += 1;
        let changes = state.drain_changes();
        let position = Checkpoint {
            index,
            log_id: vec![1],
            membership: vec![2],
            digest: changes.digest.0,
        };
        store.write(changes.rows, &position).unwrap();
    };
    let found = Command::Cluster(ClusterCommand::Found(Found {
        cluster_id: CLUSTER.to_owned(),
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        founders: vec![(NodeId(1), "n1".to_owned())],
    }));
    apply(&mut state, found);
    for number in 0..rows {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = format!("s{mixed:x}.{}", "n".repeat((mixed % 41) as usize));
        let created = Command::Sequences(SequenceCommand::Create {
            name: SequenceName::new(name).unwrap(),
            definition: SequenceDefinition {
                mode: SequenceMode::Segment,
                progression: Progression::with_defaults(None, None, None, None, false).unwrap(),
                segment: SegmentSizes {
                    target_ms: 60_000,
                    min: 10,
                    max: 1_000,
                },
                description: "d".repeat((mixed >> 8) as usize % 160),
            },
        });
        apply(&mut state, created);
        if number % ROWS_PER_CHECKPOINT == 0 {
            checkpoint(&mut state);
        }
    }
    checkpoint(&mut state);
    state
}

/// Resident memory now, and at its highest since the last call; bytes.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    let found = (of("VmRSS:"), of("VmHWM:"));
    let _ = fs::write("/proc/self/clear_refs", "5");
    found
}

fn measured<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (before, _) = memory();
    let began = Instant::now();
    let result = work();
    let took = began.elapsed();
    let (after, highest) = memory();
    println!(
        "{what}: {:.2} s, memory {} MiB before, {} at most, {} after",
        took.as_secs_f64(),
        before >> 20,
        highest >> 20,
        after >> 20
    );
    result
}

#[test]
fn a_state_of_any_size_is_opened_snapshotted_and_installed() {
    let rows = rows_wanted();
    let dir = temp();
    let place = place(dir.path());
    let mut store = create_empty(&place).unwrap();
    let state = measured("the state and its checkpoints", || large(rows, &mut *store));
    let digest = state.digest().0;
    drop(state);
    measured("closing it", || store.close().unwrap());
    let snapshots = dir.path().join("snap");
    fs::create_dir(&snapshots).unwrap();
    let (store, loaded) = measured("opening it, with the state", || match open::<StateLoader>(
        &place, false,
    )
    .unwrap()
    {
        Opened::Good { store, rows, .. } => (store, rows.finish()),
        Opened::Empty { .. } | Opened::SetAside { .. } => panic!("it is not good"),
    });
    assert_eq!(loaded.digest().0, digest);
    let file = measured("a snapshot", || {
        snapshot_file::take(&*store, &place.disk, &snapshots, CLUSTER, 3, &mut || Ok(())).unwrap()
    });
    println!("{} rows, {} MiB", file.rows, file.len >> 20);
    drop((store, loaded));
    let kept = measured("reading it in full", || {
        snapshot_file::recover(&*place.disk, &snapshots, CLUSTER).unwrap()
    });
    assert_eq!(kept.valid, std::slice::from_ref(&file));
    let (state, store) = measured("installing it", || {
        snapshot_file::load(&file, &place).unwrap()
    });
    assert_eq!(state.digest().0, digest);
    drop(store);
}
