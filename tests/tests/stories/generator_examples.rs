//! The documents' examples of external generators, run as they are printed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use seqd_tests::binary::{seqd, workspace};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::Paused;
use seqd_tests::generators::{self, create_layout, of_nodes, runtime, unique};
use seqd_tests::{python, skips, wait};
use serde_json::Value;

#[path = "../../../crates/client/examples/batch.rs"]
mod batch;
#[path = "../../../crates/client/examples/pod.rs"]
mod pod;
#[path = "../../../crates/client/examples/service.rs"]
mod service;

#[test]
fn the_examples_in_rust_make_unique_ids() {
    let cluster = Cluster::started(3);
    let endpoints = cluster.addresses().join(",");
    let runtime = runtime();
    let mut all = batch::run(&endpoints, 50_000).unwrap();
    assert_eq!(all.len(), 50_000);
    all.extend(runtime.block_on(service::run(&endpoints, 500)).unwrap());
    all.extend(of_nodes(&cluster, "default", 20, 1000));
    runtime.block_on(async {
        let client = generators::client(&cluster.addresses());
        create_layout(&client, "pods", 2, 10).await;
        let mut pods = BTreeSet::new();
        for number in 0..20 {
            pods.insert(
                pod::run(&endpoints, "pods", &format!("pod-{number}"))
                    .await
                    .unwrap(),
            );
        }
        assert_eq!(pods.len(), 20);
    });
    assert!(unique(all).unwrap() > 50_500);
    assert_eq!(
        live(&cluster, "orders-1") + live(&cluster, "nightly-import"),
        0
    );
}

/// The number of live leases of an owner.
fn live(cluster: &Cluster, owner: &str) -> usize {
    let page = cluster
        .get(0, &format!("/v1/workers?prefix={owner}"))
        .ok()
        .json();
    let items = page["items"].as_array().expect("workers").clone();
    items
        .iter()
        .filter(|item| item["live"] == Value::Bool(true))
        .count()
}

fn generator(cluster: &Cluster, owner: &str, count: usize, layout: &str) -> Child {
    python::example("generator.py")
        .args([
            &cluster.addresses().join(","),
            owner,
            &count.to_string(),
            layout,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts")
}

/// Waits until the program has ended. Returns the IDs that it printed.
fn printed(child: Child) -> Vec<u64> {
    let output = child.wait_with_output().expect("an own child");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| line.parse().expect("an ID"))
        .collect()
}

#[test]
fn the_example_in_python_shares_a_layout_with_nodes_over_a_killed_leader() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let mut cluster = Cluster::started(3);
    let children = ["one", "two"].map(|owner| generator(&cluster, owner, 60_000, "default"));
    wait::until("both hold a worker", READY, || {
        (live(&cluster, "one") + live(&cluster, "two") == 2).then_some(())
    });
    let leader = cluster.leader();
    let mut all = of_nodes(&cluster, "default", 30, 1000);
    cluster.node_mut(leader).kill();
    let readers = children.map(|child| std::thread::spawn(move || printed(child)));
    cluster.node_mut(leader).start();
    cluster.wait_ready();
    all.extend(of_nodes(&cluster, "default", 30, 1000));
    for reader in readers {
        let ids = reader.join().unwrap();
        assert_eq!(ids.len(), 60_000);
        assert!(ids.is_sorted_by(|one, next| one < next));
        all.extend(ids);
    }
    let count = unique(all).unwrap();
    println!("{count} IDs of two programs and three nodes, no duplicate");
    wait::until("both gave their worker back", READY, || {
        (live(&cluster, "one") + live(&cluster, "two") == 0).then_some(())
    });
}

#[test]
fn the_example_in_python_that_is_stopped_past_its_window_shares_no_id_with_the_next_holder() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let cluster = Cluster::planned(3)
        .with("clock", "window", "\"3s\"")
        .ready();
    let (runtime, client) = (runtime(), generators::client(&cluster.addresses()));
    runtime.block_on(create_layout(&client, "tiny", 1, 10));
    let mut child = generator(&cluster, "stopped", 100_000_000, "tiny");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || lines.next()?.ok()?.parse::<u64>().ok();
    let mut all: Vec<u64> = (0..2000).map(|_| next().expect("an ID")).collect();
    let pause = Paused::process(Pid::from_child(&child));
    // Two other generators lease both workers. One of these is the stopped program's own, which is
    // available after its window has ended.
    let mut pods = Vec::new();
    for owner in ["first", "second"] {
        let options = seqd_client::GeneratorOptions {
            layout: "tiny".to_owned(),
            patience: READY,
            ..seqd_client::GeneratorOptions::new(owner)
        };
        let _inside = runtime.enter();
        let pod = seqd_client::IdGenerator::start(client.clone(), options).unwrap();
        let ids = runtime.block_on(pod.ids(5000)).unwrap();
        all.extend(ids.iter().map(|id| id.get()));
        pods.push(pod);
    }
    drop(pause);
    // The program refuses, releases only its own lease, and ends: `id` has a timeout of 5 s.
    let rest: Vec<u64> = std::iter::from_fn(next).collect();
    let status = child.wait().unwrap();
    println!(
        "{} more IDs after it was stopped, then {status}",
        rest.len()
    );
    all.extend(rest);
    assert!(!status.success());
    unique(all).unwrap();
}

const FORK: &str = "
import os, sys
sys.path.insert(0, sys.argv[2])
from generator import Generator, Refused
parent = Generator(sys.argv[1].split(','), 'parent')
first = parent.id()
child = os.fork()
if child == 0:
    try:
        parent.id()
    except Refused as refused:
        own = Generator(sys.argv[1].split(','), 'child')
        print('refused', refused, own.id() != first, flush=True)
        own.close()
    parent.close()
    os._exit(0)
os.waitpid(child, 0)
print('parent', parent.id() > first)
parent.close()
";

#[test]
fn a_fork_of_the_example_in_python_makes_a_generator_of_its_own() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let cluster = Cluster::started(1);
    let output = Command::new("python3")
        .args(["-c", FORK, &cluster.addresses().join(",")])
        .arg(workspace().join("docs/examples"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("refused this process is a fork"),
        "{text} {output:?}"
    );
    assert!(text.contains("generator of its own True"), "{text}");
    assert!(text.contains("parent True"), "{text}");
}

/// The shell example, which runs a shell program.
fn with_worker(cluster: &Cluster, owner: &str, program: &str) -> Command {
    let folder = cluster.folder().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    if !folder.join("seqd").exists() {
        std::os::unix::fs::symlink(seqd(), folder.join("seqd")).unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .arg(workspace().join("docs/examples/with-worker.sh"))
        .args([owner, "sh", "-c", program])
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("SEQD_ENDPOINTS", cluster.address(0))
        .stdout(Stdio::piped());
    command
}

/// Lets `date` show a time that is wrong by this many seconds.
fn set_clock(cluster: &Cluster, command: &mut Command, offset: i64) {
    let folder = cluster.folder().join(format!("clock{offset}"));
    // A running program may have the script already, and it cannot be written while it is executed.
    if !folder.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let real = Command::new("sh").args(["-c", "command -v date"]).output();
        let real = String::from_utf8(real.unwrap().stdout).unwrap();
        let real = real.trim();
        let script = format!("#!/bin/sh\nexec {real} -d '{offset} seconds' \"$@\"\n");
        std::fs::write(folder.join("date"), script).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("date"), mode).unwrap();
    }
    let path = command.get_envs().find(|(name, _)| *name == "PATH");
    let path = path.and_then(|(_, path)| path).unwrap().to_owned();
    command.env("PATH", format!("{}:{}", folder.display(), path.display()));
}

#[test]
fn the_shell_script_holds_a_worker_while_its_program_runs() {
    let cluster = Cluster::started(1);
    let program = "echo worker=$SEQD_WORKER from=$SEQD_FROM_TICK until=$SEQD_FENCE_TICK; sleep 1";
    let output = with_worker(&cluster, "importer", program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let number = |name: &str| {
        let word = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name));
        word.and_then(|word| word.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(
        number("worker=") < 1024 && number("from=") < number("until="),
        "{text}"
    );
    let deadline = Duration::from_secs(5);
    wait::until("the worker is given back", deadline, || {
        (live(&cluster, "importer") == 0).then_some(())
    });
}

/// The window is the shortest that the script accepts: a third of it is five seconds.
#[test]
fn the_shell_script_whose_renewals_fail_ends_its_program_before_the_fence() {
    let mut cluster = Cluster::planned(1)
        .with("clock", "window", "\"15s\"")
        .ready();
    let begins = "echo $SEQD_FENCE_TICK; ";
    let asked = "trap 'echo asked; exit 3' TERM; while :; do sleep 0.1; done";
    let deaf = "trap '' TERM; while :; do date +%s%3N; sleep 0.1; done";
    let children = [("asked", asked, 0), ("deaf", deaf, 0), ("ahead", deaf, 4)].map(
        |(owner, program, offset)| {
            let program = format!("{begins}{program}");
            let mut command = with_worker(&cluster, owner, &program);
            set_clock(&cluster, &mut command, offset);
            command.spawn().unwrap()
        },
    );
    let owners = ["asked", "deaf", "ahead"];
    wait::until("all hold a worker", Duration::from_secs(10), || {
        let all = owners.iter().all(|owner| live(&cluster, owner) == 1);
        all.then_some(())
    });
    cluster.node_mut(0).kill();
    let [asked, deaf, ahead] = children.map(|child| child.wait_with_output().unwrap());
    let lines = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked.status.code(), Some(3), "{asked:?}");
    assert_eq!(lines(&asked)[1..], ["asked"], "{asked:?}");
    for deaf in [deaf, ahead] {
        assert_eq!(deaf.status.code(), Some(128 + 9), "{deaf:?}");
        let times = lines(&deaf);
        // The ticks are milliseconds since the layout's epoch, 2026-01-01.
        let fence: u64 = times[0].parse().unwrap();
        let last: u64 = times.last().unwrap().parse().unwrap();
        assert!(times.len() > 50, "it ran on for a while: {}", times.len());
        assert!(
            last < 1_767_225_600_000 + fence,
            "ran past its fence: {times:?}"
        );
    }
}

#[test]
fn the_shell_script_does_not_start_its_program_if_the_clock_is_wrong_by_a_window() {
    let cluster = Cluster::started(1);
    for (offset, expected) in [(60, "ahead of"), (-60, "behind")] {
        let owner = format!("clock-{}", if offset > 0 { "ahead" } else { "behind" });
        let mut command = with_worker(&cluster, &owner, "echo started");
        set_clock(&cluster, &mut command, offset);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(live(&cluster, &owner), 0);
    }
}
