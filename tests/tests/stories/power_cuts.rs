//! Power cuts of real nodes on real file systems: acknowledged data is there, and every node
//! starts.
//!
//! A few of the hundreds of cuts of `soak power-cuts`. If nothing can be mounted (see
//! `seqd_tests::loop_disk`), a story is skipped.

use seqd_tests::loop_disk::{FileSystem, unavailable};
use seqd_tests::power::PowerRun;
use seqd_tests::seed::Random;
use seqd_tests::skips;

/// Returns whether a story ends here, and prints the reason on stderr.
fn cannot_cut(kind: FileSystem, story: &str) -> bool {
    skips::ends(story, unavailable(kind))
}

fn six_cuts(kind: FileSystem, story: &str) {
    if cannot_cut(kind, story) {
        return;
    }
    let mut run = PowerRun::new(kind, Random::of_this_run(story), false);
    let result = run.bootstrap().and_then(|()| run.round(5, 2));
    assert_eq!(result, Ok(()), "{}", run.tails());
    let figures = run.figures();
    println!("{figures:?}");
    assert_eq!((figures.single, figures.of_all), (3, 3));
    let given = figures.given;
    assert!(given.strict > 0 && figures.created > 0 && given.ids > 0);
}

#[test]
fn power_cuts_on_xfs_lose_nothing_that_was_acknowledged() {
    six_cuts(FileSystem::Xfs, "power cuts on xfs");
}

#[test]
fn power_cuts_on_ext4_lose_nothing_that_was_acknowledged() {
    six_cuts(FileSystem::Ext4, "power cuts on ext4");
}

/// The harness can detect a loss: on disks that never sync, the same cuts break the cluster.
#[test]
fn on_disks_that_lie_the_same_cuts_are_seen_to_lose() {
    let story = "power cuts on lying disks";
    if cannot_cut(FileSystem::Ext4, story) {
        return;
    }
    let eatmydata = std::process::Command::new("eatmydata").arg("true").status();
    let missing = eatmydata
        .is_err()
        .then(|| skips::missing("eatmydata", "eatmydata"));
    if skips::ends(story, missing) {
        return;
    }
    let mut run = PowerRun::new(FileSystem::Ext4, Random::of_this_run(story), true);
    let mut result = run.bootstrap();
    for _ in 0..3 {
        result = result.and_then(|()| run.round(3, 1));
    }
    let seen = result.expect_err("nothing was ever synced, and nobody noticed");
    println!("seen: {seen}");
}
