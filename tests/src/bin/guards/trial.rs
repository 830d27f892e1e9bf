//! The trial of one guard: its test with the guard in place, and without it.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqd_guards::VARIABLE;
use seqd_tests::binary::workspace;
use seqd_tests::guards::Row;

use crate::build::Built;

/// The time limit of a test. Without its guard, a test may wait for an event that never occurs.
/// Every test here is far quicker.
const PATIENCE: Duration = Duration::from_secs(180);

const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TrialResult {
    /// The test failed and named the violation.
    Caught,
    /// The test fails with the guard in place.
    FailsAnyway(String),
    /// The test passes without the guard.
    NotMissed,
    /// The test failed, but with other words.
    OtherWords(String),
    /// The test did not end.
    Hung,
}

impl fmt::Display for TrialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught => write!(f, "caught"),
            Self::FailsAnyway(output) => write!(f, "FAILS WITH THE GUARD IN PLACE\n{output}\n"),
            Self::NotMissed => write!(f, "NOT MISSED: the test passes without it"),
            Self::OtherWords(output) => write!(f, "FAILS WITH OTHER WORDS\n{output}\n"),
            Self::Hung => write!(f, "DOES NOT END"),
        }
    }
}

/// The result of one run of a test.
struct Ended {
    /// `None` if the run was killed at the time limit.
    passed: Option<bool>,
    output: String,
    took: Duration,
}

/// The result of the trial, and the duration of its last run.
pub(crate) fn verdict(row: &Row, built: &Built) -> (TrialResult, Duration) {
    let sound = run(row, built, None);
    if sound.passed != Some(true) {
        return (TrialResult::FailsAnyway(sound.output), sound.took);
    }
    let without = run(row, built, Some(row.guard.name()));
    let took = without.took;
    let verdict = match without.passed {
        // Words that were printed before the test hung count, because a violation may leave other
        // threads waiting.
        _ if without.passed != Some(true) && without.output.contains(&row.violation) => {
            TrialResult::Caught
        }
        Some(true) => TrialResult::NotMissed,
        Some(false) => TrialResult::OtherWords(without.output),
        None => TrialResult::Hung,
    };
    (verdict, took)
}

fn run(row: &Row, built: &Built, out: Option<&str>) -> Ended {
    let (program, test) = built.test(row);
    let path = std::env::temp_dir().join(format!(
        "seqd-guards.{}.{}.{}.{}",
        std::process::id(),
        row.guard.name(),
        row.test,
        out.is_some()
    ));
    let file = std::fs::File::create(&path).expect("a file for the test's output");
    let again = file.try_clone().expect("a second handle of that file");
    let mut command = Command::new(&program.path);
    command
        .current_dir(workspace().join(&row.place.folder))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        // The first failure counts, and no file is written to the sources.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .env_remove(VARIABLE)
        .envs(out.map(|name| (VARIABLE, name)))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(again);
    let began = Instant::now();
    let mut child = command.spawn().expect("a test program starts");
    let until = began + PATIENCE;
    let passed = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break Some(status.success()),
            None if Instant::now() > until => {
                child.kill().expect("a child can be ended");
                child.wait().expect("a child that was ended");
                break None;
            }
            None => std::thread::sleep(LOOK),
        }
    };
    let took = began.elapsed();
    let output = std::fs::read(&path).expect("the test's output");
    let _ = std::fs::remove_file(&path);
    let output = String::from_utf8_lossy(&output).into_owned();
    Ended {
        passed,
        output,
        took,
    }
}
