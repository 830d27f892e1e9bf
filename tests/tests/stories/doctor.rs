//! `seqd doctor` finds a healthy cluster healthy, and names one wrong thing at a time.
//!
//! The other wrong things are rows of a table of the command's own tests.

use std::process::Command;
use std::time::Duration;

use seqd_tests::binary::run;
use seqd_tests::clock::ShiftedClock;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::wait;
use serde_json::{Value, json};

/// The node at which things go wrong, and the node that is asked.
const WRONG: usize = 2;
const ASKED: usize = 0;

/// The exit code, and the checks.
fn diagnose(cluster: &Cluster) -> (Option<i32>, Value) {
    let output = run(&["doctor", "-o", "json", "-e", &cluster.address(ASKED)]);
    let read = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), read)
}

fn wait_healthy(cluster: &Cluster) {
    wait::until("a healthy cluster", READY, || {
        let (code, found) = diagnose(cluster);
        (code == Some(0) && found["healthy"] == json!(true)).then_some(())
    });
}

/// Waits until the command fails, and a check has this name and this part of the detail.
fn wait_named(cluster: &Cluster, name: &str, part: &str) {
    wait::until(&format!("{name} to name {part:?}"), READY, || {
        let (code, found) = diagnose(cluster);
        let checks = found["checks"].as_array()?;
        let check = checks.iter().find(|check| check["check"] == name)?;
        let detail = check["detail"].as_str()?;
        let is_named = code == Some(7) && check["result"] == "fail" && detail.contains(part);
        is_named.then_some(())
    });
}

#[test]
fn one_wrong_thing_at_a_time_is_named() {
    let mut cluster = Cluster::planned(3);
    let folder = cluster.folder().to_path_buf();
    let clock = ShiftedClock::for_node(cluster.node_mut(WRONG), &folder);
    cluster.start_all();
    cluster.wait_ready();
    cluster.create_sequence(ASKED, "order", &json!({"mode": "strict"}));
    wait_healthy(&cluster);

    if let Some(clock) = clock {
        clock.shift_ms(2_000);
        wait_named(&cluster, "clock", "the clock of n3 is 2.");
        clock.shift_ms(0);
        wait_healthy(&cluster);
    }

    if why_no_trace().is_none() && cluster.leader() != WRONG {
        let slow = Duration::from_millis(1_200);
        let strace = Strace::delay_fdatasync(cluster.node(WRONG), slow, &folder);
        wait::until("n3 to be slow", READY, || {
            cluster.next(ASKED, "order", 1);
            let (code, found) = diagnose(&cluster);
            let checks = found["checks"].as_array()?;
            let fsync = checks.iter().find(|check| check["check"] == "fsync")?;
            let is_named = fsync["detail"].as_str()?.contains("n3");
            (code == Some(7) && is_named && fsync["result"] == "fail").then_some(())
        });
        drop(strace);
    }

    let pid = cluster.node(WRONG).pid().as_raw_nonzero().to_string();
    let mut lower = Command::new("prlimit");
    let lowered = lower.args(["--pid", &pid, "--nofile=600:600"]).status();
    assert!(lowered.expect("prlimit of util-linux").success());
    wait_named(&cluster, "descriptors", "of 600");

    cluster.node_mut(WRONG).kill();
    wait_named(&cluster, "members", "n3 is unreachable from n1");
    let (_, found) = diagnose(&cluster);
    let quorum = &found["checks"][2];
    assert_eq!(quorum["check"], "quorum", "{found}");
    assert_eq!(quorum["result"], "warn", "{found}");
}
