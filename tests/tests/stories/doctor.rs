//! `seqd doctor` reports a healthy cluster as healthy, and names each problem of an unhealthy one.
//!
//! The command's own tests have a table of further problems.

use std::process::Command;
use std::time::Duration;

use seqd_tests::binary::{run, seqd_next};
use seqd_tests::certificates::{Certificates, DAY, Secures as _, days, for_seconds};
use seqd_tests::clock::ShiftedClock;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::links::{Condition, Pairs};
use seqd_tests::loop_disk::{FileSystem, cannot_mount};
use seqd_tests::{links, skips, wait};
use serde_json::{Value, json};

/// The node that has the problem, and the node to which the command connects.
const WRONG: usize = 2;
const ASKED: usize = 0;

/// A disk whose reserve of 128 MiB is much less than three hundredths of it.
const DISK: u64 = 8 << 30;

/// The command line, with the options that are needed to reach the node [`ASKED`].
struct Doctor(Vec<String>);

impl Doctor {
    fn of(cluster: &Cluster, options: &[&str]) -> Self {
        let url = cluster.node(ASKED).url();
        let words = [&["doctor", "-o", "json", "-e", &url], options].concat();
        Self(words.into_iter().map(str::to_owned).collect())
    }

    /// The exit code, and the checks.
    fn diagnose(&self) -> (Option<i32>, Value) {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let output = run(&words);
        let read = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), read)
    }

    fn wait_healthy(&self) {
        self.wait(|code, found| code == Some(0) && found["healthy"] == json!(true));
    }

    /// Waits until the command fails, and a check has this name and this part of the detail.
    #[track_caller]
    fn wait_named(&self, name: &str, part: &str) {
        self.wait(|code, found| code == Some(7) && fails(found, name, part));
    }

    #[track_caller]
    fn wait(&self, is_it: impl Fn(Option<i32>, &Value) -> bool) {
        let mut last = (None, Value::Null);
        let done = wait::within(READY, || {
            last = self.diagnose();
            is_it(last.0, &last.1).then_some(())
        });
        assert!(done.is_some(), "{last:?}");
    }
}

/// Returns whether the check with this name fails, with this part of the detail.
fn fails(found: &Value, name: &str, part: &str) -> bool {
    let mut checks = found["checks"].as_array().into_iter().flatten();
    checks.any(|check| {
        let detail = check["detail"].as_str().unwrap_or_default();
        check["check"] == name && check["result"] == "fail" && detail.contains(part)
    })
}

#[test]
fn one_wrong_thing_at_a_time_is_named() {
    let mut cluster = Cluster::planned(3);
    let folder = cluster.folder().to_path_buf();
    let clock = ShiftedClock::for_node(cluster.node_mut(WRONG), &folder);
    cluster.start_all();
    cluster.wait_ready();
    cluster.create_sequence(ASKED, "order", &json!({"mode": "strict"}));
    let doctor = Doctor::of(&cluster, &[]);
    doctor.wait_healthy();

    if let Some(clock) = clock {
        clock.shift_ms(2_000);
        doctor.wait_named("clock", "the clock of n3 is 2.");
        clock.shift_ms(0);
        doctor.wait_healthy();
    }

    if why_no_trace().is_none() && cluster.leader() != WRONG {
        let slow = Duration::from_millis(1_200);
        let strace = Strace::delay_fdatasync(cluster.node(WRONG), slow, &folder);
        doctor.wait(|code, found| {
            cluster.next(ASKED, "order", 1);
            code == Some(7) && fails(found, "fsync", "n3")
        });
        drop(strace);
    }

    let pid = cluster.node(WRONG).pid().as_raw_nonzero().to_string();
    let mut lower = Command::new("prlimit");
    let lowered = lower.args(["--pid", &pid, "--nofile=600:600"]).status();
    assert!(lowered.expect("prlimit of util-linux").success());
    doctor.wait_named("descriptors", "of 600");

    cluster.node_mut(WRONG).kill();
    doctor.wait_named("members", "n3 is unreachable from n1");
    let (_, found) = doctor.diagnose();
    let quorum = &found["checks"][2];
    assert_eq!(quorum["check"], "quorum", "{found}");
    assert_eq!(quorum["result"], "warn", "{found}");
}

#[test]
fn endpoints_of_two_clusters_are_named() {
    let mut cluster = Cluster::started(1);
    let other = cluster.add_stranger("m1");
    let itself = format!("m1={}", cluster.node(other).peer_address());
    cluster.node_mut(other).set_peers(&[itself]);
    cluster.node_mut(other).start();
    cluster.wait_ready();
    let both = cluster.addresses().join(",");
    let doctor = Doctor(
        ["doctor", "-o", "json", "-e", &both]
            .map(str::to_owned)
            .to_vec(),
    );
    doctor.wait_named("endpoints", "the endpoints belong to different clusters: ");
    let (_, found) = doctor.diagnose();
    let check = &found["checks"][0];
    let detail = check["detail"].as_str().unwrap_or_default();
    for (index, name) in [(0, "n1"), (other, "m1")] {
        let view = cluster.get(index, "/v1/cluster").ok().json();
        let id = view["cluster_id"].as_str().unwrap_or_default();
        let named = format!("{} ({name}) to {id}", cluster.address(index));
        assert!(detail.contains(&named), "{named}: {check}");
    }
}

#[test]
fn a_one_way_partition_is_named() {
    if skips::ends("links doctor", links::unavailable()) {
        return;
    }
    let cluster = Cluster::on_links(3, 0).ready();
    let doctor = Doctor::of(&cluster, &[]);
    doctor.wait_healthy();

    // A firewall refuses the connections of one direction.
    let links = cluster.links();
    let refused = links.impose(Pairs::one_way(&[ASKED], &[WRONG]), Condition::Refused);
    links.break_connections(ASKED, WRONG);
    let one_way = "one-way partition: n1 does not reach n3, although n3 reaches n1";
    doctor.wait_named("links", one_way);
    refused.heal();
    doctor.wait_healthy();

    // The packets of one direction are lost, so no connection works in either.
    let lost = links.impose(Pairs::one_way(&[ASKED], &[WRONG]), Condition::Cut);
    doctor.wait_named("links", "n1 and n3 do not reach each other");
    lost.heal();
    doctor.wait_healthy();
}

#[test]
fn an_ending_certificate_a_full_disk_and_another_version_are_named() {
    seqd_next();
    let mut cluster = Cluster::planned(3);
    let has_disk = !skips::ends("doctor of a full disk", cannot_mount(FileSystem::Ext4));
    if has_disk {
        cluster = cluster.on_disk(WRONG, FileSystem::Ext4, DISK);
    }
    let certificates = Certificates::new(cluster.folder(), "certificates");
    certificates.secure(&mut cluster, days(365));
    certificates.issue_node("n3", for_seconds(3 * DAY));
    let mut cluster = cluster.ready();
    let ca = certificates.ca().display().to_string();
    let doctor = Doctor::of(&cluster, &["--cacert", &ca]);
    for port in ["client", "peer"] {
        let named = format!("n3: the certificate for the {port} port expires in 2 days");
        doctor.wait_named("certificates", &named);
    }
    certificates.issue_node("n3", days(365));
    doctor.wait_healthy();

    if has_disk {
        let full = cluster.disk_mut(WRONG).fill_but(DISK / 36);
        doctor.wait_named("disk", "n3: 97 % used");
        drop(full);
        doctor.wait_healthy();
    }

    let node = cluster.node_mut(WRONG);
    assert!(node.stop().success(), "{}", node.tail());
    node.set_binary(Some(seqd_next()));
    node.start();
    cluster.wait_ready_of(&[WRONG], READY);
    doctor.wait_named("versions", "different programs: n1, n2: ");
}
