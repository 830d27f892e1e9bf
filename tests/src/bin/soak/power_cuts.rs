//! Power cuts of one node and of all three together, on loopback file systems, under load.
//!
//! The run consists of pieces, each with a cluster of its own, whose founding is cut too.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use seqd_tests::checkers::Violation;
use seqd_tests::loop_disk::{FileSystem, unavailable};
use seqd_tests::power::PowerRun;
use seqd_tests::seed::Random;

use crate::arguments::Arguments;

/// Cuts per cluster, enough for its log to need snapshots and purges.
const PIECE: usize = 150;

/// Cuts under one continuous load; then everything is judged.
const ROUND: usize = 15;

/// The environment variable that marks a process with a mount namespace of its own.
const INSIDE: &str = "SEQD_SOAK_NAMESPACE";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--fs --cuts --all-every --lie");
    let kind = arguments.text("--fs").unwrap_or("xfs");
    let kind = FileSystem::named(kind).unwrap_or_else(|| panic!("--fs {kind} is not known"));
    let cuts = arguments.value("--cuts", 300);
    let all_every = arguments.value("--all-every", 3);
    let lying = arguments.flag("--lie");
    assert!(all_every > 0, "--all-every counts from 1");
    if let Some(why) = unavailable(kind) {
        panic!("no power to cut here: {why}");
    }
    if std::env::var_os(INSIDE).is_none() {
        enter_namespace();
    }
    let mut random = Random::of_this_run("power-cuts");
    let (begin, mut done) = (Instant::now(), 0);
    while done < cuts {
        let mut run = PowerRun::new(kind, Random::seeded(random.next_u64()), lying);
        let result = piece(&mut run, (cuts - done).min(PIECE), all_every);
        if result.is_err() {
            eprintln!("{}", run.tails());
        }
        println!("{kind}: {:#?}; {}", run.figures(), run.histories());
        result?;
        done += run.figures().cuts();
        println!(
            "{kind}: {done} cuts in {:.0?}: nothing lost, nothing twice",
            begin.elapsed()
        );
    }
    Ok(())
}

fn piece(run: &mut PowerRun, cuts: usize, all_every: usize) -> Result<(), Violation> {
    run.bootstrap()?;
    while run.figures().cuts() < cuts {
        let left = cuts - run.figures().cuts();
        run.round(left.min(ROUND), all_every)?;
    }
    Ok(())
}

/// Starts this program again with mounts of its own, which end with it, however it ends.
fn enter_namespace() {
    let own = std::env::current_exe().expect("the path of this program");
    let error = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    eprintln!("no mount namespace of its own ({error}); a run that is killed leaves mounts behind");
}
