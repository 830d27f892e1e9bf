//! `seqd bench` measures a cluster and other servers, and finds numbers that repeat.

use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seqd_tests::callers::guarded;
use seqd_tests::certificates::{Certificates, Secures as _, days};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::echo::Echo;
use seqd_tests::{binary, wait};
use serde_json::{Value, json};

/// A short measurement, in JSON.
const SHORT: [&str; 6] = ["-o", "json", "--warm-up", "0s", "--clients", "4"];

fn bench(arguments: &[&str]) -> Output {
    binary::run(&[&["bench"], arguments, &SHORT].concat())
}

#[track_caller]
fn measured(output: &Output, code: i32) -> Value {
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{talk}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {talk}"))
}

fn of(document: &Value, pointer: &str) -> u64 {
    document
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| {
            panic!("{pointer} in {document:#}");
        })
}

#[test]
fn every_kind_is_measured_and_leaves_no_sequence() {
    let cluster = Cluster::started(3);
    let all = cluster.addresses().join(",");
    let kinds: [(&[&str], Option<u64>); 6] = [
        (&["ids"], None),
        (&["ids", "--count", "100"], None),
        (&["seq", "--count", "100"], None),
        (&["strict"], Some(0)),
        (&["ordered", "--rate", "1000"], Some(0)),
        (&["locks", "--names", "2"], Some(0)),
    ];
    for (kind, order) in kinds {
        let output = bench(&[kind, &["-e", &all, "--requests", "60"]].concat());
        let document = measured(&output, 0);
        let count: u64 = if kind.contains(&"100") { 100 } else { 1 };
        assert_eq!(document["kind"], kind[0]);
        assert_eq!(of(&document, "/targets/0/requests"), 60, "{document:#}");
        assert_eq!(of(&document, "/targets/0/values"), 60 * count);
        assert_eq!(document["targets"][0]["errors"], json!({}));
        assert_eq!(of(&document, "/targets/0/check/checked"), 60 * count);
        assert_eq!(of(&document, "/targets/0/check/repeats"), 0);
        let found = &document["targets"][0]["check"]["order_violations"];
        assert_eq!(found.as_u64(), order, "{document:#}");
        assert!(
            document["targets"][0]["latency_ms"]["p99"]
                .as_f64()
                .unwrap()
                > 0.0
        );
    }
    assert!(cluster.sequence_names(0).is_empty());
}

#[test]
fn two_measurements_leave_the_record_of_one_deleted_sequence() {
    let cluster = Cluster::started(1);
    let url = cluster.address(0);
    let short = ["strict", "-e", &url, "--requests", "50"];
    for _ in 0..2 {
        measured(&bench(&short), 0);
        assert!(cluster.sequence_names(0).is_empty());
    }
    // A deleted sequence is created again with its values used up. A name in use is left alone.
    cluster.create_sequence(0, "bench-strict", &json!({"mode": "strict", "start": "1"}));
    assert_eq!(cluster.next(0, "bench-strict", 1), (101, 101));
    measured(&bench(&short), 0);
    assert_eq!(cluster.sequence_names(0).len(), 1);
    cluster.create_sequence(
        0,
        "bench-strict-2",
        &json!({"mode": "strict", "start": "1"}),
    );
    assert_eq!(cluster.next(0, "bench-strict-2", 1), (51, 51));
}

#[test]
fn a_named_sequence_is_used_and_its_mode_is_checked() {
    let cluster = Cluster::started(1);
    let url = cluster.address(0);
    cluster.create_sequence(0, "down", &json!({"mode": "strict", "increment": "-3"}));
    let named = ["-e", &url, "--name", "down", "--requests", "50"];
    let document = measured(
        &bench(&[&["strict", "--count", "7"], &named[..]].concat()),
        0,
    );
    assert_eq!(of(&document, "/targets/0/check/checked"), 350);
    assert_eq!(of(&document, "/targets/0/check/order_violations"), 0);
    assert!(cluster.sequence_names(0).contains("down"));
    let wrong = bench(&[&["seq"], &named[..]].concat());
    let words = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{words}");
    assert!(words.contains("seqd bench strict --name down"), "{words}");
    // A sequence that cycles repeats its values.
    let around = json!({"mode": "strict", "max": "9", "cycle": true});
    cluster.create_sequence(0, "around", &around);
    let named = ["strict", "-e", &url, "--name", "around", "--requests", "50"];
    let document = measured(&bench(&named), 0);
    let reason = document["targets"][0]["not_checked"].as_str().unwrap();
    assert!(reason.contains("cycles"), "{reason}");
}

#[test]
fn two_targets_alternate_and_get_a_ratio() {
    let cluster = Cluster::started(3);
    let [one, other] = [cluster.address(0), cluster.address(1)];
    let short = ["--duration", "600ms", "--round", "200ms"];
    let against = [&["ordered", "-e", &one, "--vs", &other], &short[..]].concat();
    let document = measured(&bench(&against), 0);
    assert_eq!(of(&document, "/ratio/rounds"), 3, "{document:#}");
    for kind in ["rate", "p50", "p99"] {
        let spread = &document["ratio"][kind];
        let [min, median, max] = ["min", "median", "max"].map(|at| spread[at].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max, "{document:#}");
    }
    let labels: Vec<&Value> = document["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| &target["target"])
        .collect();
    assert_eq!(labels, [&one, &other]);
    assert!(cluster.sequence_names(2).is_empty());
}

#[test]
fn any_server_of_numbers_is_measured_and_repeats_are_found() {
    let echo = Echo::start();
    let url = |path: &str| echo.url(path);
    let many = ["--requests", "3000"];
    let text = bench(&[&["url", &url("/next"), "--order"], &many[..]].concat());
    let document = measured(&text, 0);
    assert_eq!(of(&document, "/targets/0/check/checked"), 3000);
    assert_eq!(of(&document, "/targets/0/check/repeats"), 0);

    let body = ["--body", "{\"tenant\":1}", "--json-field", "data.id"];
    let json = bench(&[&["url", &url("/next")], &body[..], &many[..]].concat());
    assert_eq!(of(&measured(&json, 0), "/targets/0/check/checked"), 3000);

    let repeating = bench(&[&["url", &url("/repeating")], &many[..]].concat());
    let document = measured(&repeating, 7);
    assert_eq!(of(&document, "/targets/0/check/repeats"), 3, "{document:#}");

    let falling = bench(&[&["url", &url("/falling"), "--order"], &many[..]].concat());
    let document = measured(&falling, 7);
    assert_eq!(of(&document, "/targets/0/check/repeats"), 0);
    assert!(
        of(&document, "/targets/0/check/order_violations") > 2000,
        "{document:#}"
    );
    let falling = url("/falling");
    let unchecked = ["url", &falling, "--order", "--no-check"];
    measured(&bench(&[&unchecked[..], &many[..]].concat()), 0);

    let wrong = bench(&[&["url", &url("/nosuch")], &many[..]].concat());
    let document = measured(&wrong, 3);
    assert_eq!(of(&document, "/targets/0/errors/status-404"), 3000);
}

#[test]
fn an_interrupted_measurement_deletes_its_sequence() {
    let cluster = Cluster::started(1);
    let url = cluster.address(0);
    let arguments = [
        "bench",
        "strict",
        "-e",
        &url,
        "--duration",
        "10m",
        "-o",
        "json",
    ];
    let mut command = binary::command(&arguments);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait::until("the sequence of the measurement", READY, || {
        let names = cluster.sequence_names(0);
        (!names.is_empty()).then_some(())
    });
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let document = measured(&child.wait_with_output().unwrap(), 1);
    assert_eq!(document["interrupted"], true);
    assert!(cluster.sequence_names(0).is_empty());
}

#[test]
fn tls_and_tokens_are_those_of_every_command() {
    let mut cluster = Cluster::planned(1);
    let certificates = Certificates::new(cluster.folder(), "certificates");
    certificates.issue_node("n1", days(365));
    certificates.serve_clients(cluster.node_mut(0), "n1");
    let (cluster, token) = guarded(cluster);
    let ca = certificates.ca().display().to_string();
    let endpoint = cluster.node(0).url();
    let with = ["-e", &endpoint, "--cacert", &ca, "--requests", "20"];
    let stranger = bench(&[&["ids"], &with[..]].concat());
    assert_eq!(
        of(&measured(&stranger, 4), "/targets/0/errors/unauthorized"),
        20
    );
    let token = token.display().to_string();
    let known = bench(&[&["strict", "--token-file", &token], &with[..]].concat());
    assert_eq!(of(&measured(&known, 0), "/targets/0/requests"), 20);
}
