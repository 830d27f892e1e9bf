//! Cuts without a violation, faults that are found, histories that repeat themselves.

use super::*;

// Two tests, for two processors; each failure prints its own seed.

#[test]
fn power_cuts_of_a_whole_folder_lose_nothing() {
    lose_nothing(1..65);
}

#[test]
fn further_power_cuts_of_a_whole_folder_lose_nothing() {
    lose_nothing(65..129);
}

fn lose_nothing(seeds: std::ops::Range<u64>) {
    let mut total = Figures::default();
    for seed in seeds {
        let figures = history(seed, CUTS_PER_HISTORY, Plant::Nothing)
            .unwrap_or_else(|violation| panic!("{violation}"));
        total.cuts += figures.cuts;
        total.cuts_while_opening += figures.cuts_while_opening;
        total.snapshots += figures.snapshots;
        total.installs += figures.installs;
        total.purges += figures.purges;
        total.truncations += figures.truncations;
    }
    assert!(total.cuts >= 1_600, "{total:?}");
    // The workload does all of what it is there for.
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

/// The first violation that a planted fault leads to.
fn found(plant: Plant) -> Violation {
    (1..60)
        .find_map(|seed| history(seed, CUTS_PER_HISTORY, plant).err())
        .map_or_else(|| panic!("{plant:?} was not found"), |found| *found)
}

#[test]
fn a_snapshot_folder_that_is_not_synced_is_found() {
    let found = found(Plant::SnapshotFolderUnsynced);
    assert!(!found.operations.is_empty() && found.to_string().contains("--seed"));
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
