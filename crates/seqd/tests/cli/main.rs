//! Runs the binary against a stub that responds by path, and checks its output and exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod certificates;
mod configuration;
mod server;
mod stub;
mod terminal;

use std::path::Path;

use stub::{Stub, run, seqd, texts};

const ID: &str = r#"{"id":"7","layout":"default","worker":2,"node":"n2"}"#;
const IDS: &str = r#"{"ids":["7","8"],"layout":"default","worker":2,"node":"n2"}"#;
const NEXT: &str = r#"{"ranges":[{"first":"1","last":"2","count":2}],"first":"1","last":"2","count":2,"increment":"1","mode":"strict"}"#;

#[test]
fn ids_are_written_in_every_form() {
    let stub = Stub::new(vec![
        ("GET /v1/id", 200, ID.to_owned()),
        ("GET /v1/ids", 200, IDS.to_owned()),
    ]);
    let out = |args: &[&str]| {
        let (code, stdout, stderr) = run(&stub, args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
        stdout
    };
    assert_eq!(out(&["id"]), "7\n");
    assert_eq!(out(&["id", "-n", "2"]), "7\n8\n");
    assert_eq!(out(&["id", "-n", "2", "-o", "plain"]), "7\n8\n");
    assert_eq!(out(&["-o", "csv", "id", "-n", "2"]), "id\n7\n8\n");
    let line = "{\"id\":\"7\",\"layout\":\"default\",\"node\":\"n2\",\"worker\":2}\n";
    assert_eq!(out(&["id", "-o", "jsonl"]), line);
    let json: serde_json::Value =
        serde_json::from_str(&out(&["id", "-n", "2", "-o", "json"])).unwrap();
    assert_eq!(
        json,
        serde_json::from_str::<serde_json::Value>(IDS).unwrap()
    );
    let asked = stub.asked();
    assert_eq!(asked[0], "GET /v1/id");
    assert_eq!(asked[1], "GET /v1/ids?count=2");
}

#[test]
fn next_prints_a_value_a_line() {
    let stub = Stub::new(vec![(
        "POST /v1/sequences/order/next",
        200,
        NEXT.to_owned(),
    )]);
    let (code, stdout, stderr) = run(&stub, &["seq", "next", "order", "--count", "2"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "1\n2\n", ""));
    assert_eq!(
        stub.asked(),
        ["POST /v1/sequences/order/next {\"count\":2}"]
    );
}

#[test]
fn the_deadline_is_sent_to_the_server() {
    let stub = Stub::new(vec![("GET /v1/id", 200, ID.to_owned())]);
    run(&stub, &["--timeout", "2s", "id"]);
    assert_eq!(stub.asked(), ["GET /v1/id?timeout_ms=2000"]);
}

#[test]
fn each_answer_has_its_exit_code() {
    let cases = [
        (400, "invalid-argument", false, 2),
        (401, "unauthorized", false, 4),
        (404, "not-found", false, 3),
        (409, "sequence-exhausted", false, 6),
        (412, "precondition-failed", false, 6),
        (421, "wrong-cluster", false, 1),
        (429, "rate-limited", true, 5),
        (500, "internal", false, 1),
        (503, "no-quorum", true, 5),
        (504, "outcome-unknown", false, 8),
        (409, "not-known-to-this-version", false, 6),
    ];
    for (status, code, retryable, exit) in cases {
        let stub = Stub::failing(status, code, retryable);
        let (got, stdout, stderr) = run(&stub, &["seq", "next", "a"]);
        assert_eq!((got, stdout.as_str()), (exit, ""), "{code}");
        assert_eq!(
            stderr,
            format!("error: it went wrong ({code})\nhint: do this\n")
        );
    }
}

#[test]
fn more_values_than_requested_are_refused_before_they_are_listed() {
    const MANY: u64 = 1 << 63;
    let next = format!(
        r#"{{"ranges":[{{"first":"1","last":"9","count":{MANY}}}],"first":"1","last":"9",
        "count":{MANY},"increment":"1","mode":"strict"}}"#
    );
    let timestamps = format!(r#"{{"first":"1","last":"{MANY}","count":{MANY},"physical_ms":0}}"#);
    let stub = Stub::new(vec![
        ("POST /v1/sequences/order/next", 200, next),
        ("POST /v1/timestamps/next", 200, timestamps),
    ]);
    let counts = format!("the response has {MANY} values, and 1 were requested");
    for args in [&["seq", "next", "order"][..], &["timestamp"]] {
        let (code, stdout, stderr) = run(&stub, args);
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}");
        assert_eq!(stderr, format!("error: {counts} (bad-answer)\n"));
    }
}

#[test]
fn a_list_with_the_same_cursor_again_is_refused() {
    let page = || r#"{"items":[],"next_cursor":"a"}"#.to_owned();
    let stub = Stub::new(vec![
        ("GET /v1/sequences", 200, page()),
        ("GET /v1/layouts", 200, page()),
        ("GET /v1/locks", 200, page()),
    ]);
    for kind in ["seq", "layout", "lock"] {
        let (code, stdout, stderr) = run(&stub, &[kind, "list"]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{kind}: {stderr}");
        assert!(stderr.contains("(bad-answer)"), "{kind}: {stderr}");
    }
    assert_eq!(stub.asked().len(), 6);
}

#[test]
fn errors_are_json_where_data_would_be() {
    let stub = Stub::failing(404, "not-found", false);
    let (code, stdout, stderr) = run(&stub, &["seq", "next", "a", "-o", "json"]);
    let error: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert_eq!(
        (&error["code"], &error["status"]),
        (&"not-found".into(), &404.into())
    );
    let (code, _, stderr) = run(&stub, &["-o", "json", "seq", "nxt", "a"]);
    let error: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((code, &error["code"]), (2, &"usage".into()));
}

#[test]
fn a_change_that_is_not_answered_is_unknown_and_an_id_is_not() {
    let silent = Stub::new(vec![
        ("POST /v1/sequences/a/next", 0, String::new()),
        ("GET /v1/id", 0, String::new()),
    ]);
    let well = Stub::new(vec![("POST /v1/sequences/a/next", 200, NEXT.to_owned())]);
    let list = format!("{},{}", silent.address, well.address);
    let (code, stdout, stderr) = texts(&seqd(&list, &["seq", "next", "a", "--timeout", "4s"], ""));
    assert_eq!((code, stdout.as_str()), (8, ""), "{stderr}");
    assert!(well.asked().is_empty(), "it was sent again");
    let silent = Stub::new(vec![("GET /v1/id", 0, String::new())]);
    assert_eq!(run(&silent, &["id", "--timeout", "2s"]).0, 5);
}

#[test]
fn a_destructive_command_prints_its_effect_and_needs_a_yes() {
    // The response to the dry run and to the removal.
    let change = r#"{"dry_run":true,"effect":"permanently removes n3: quorum 3/3 -> 2/2, can lose 0 nodes",
        "name":"n3","id":"3","role":null,"quorum":{"voters":2,"reachable":2,"can_lose":0}}"#;
    let route = "DELETE /v1/cluster/members/n3";
    let stub = Stub::new(vec![(route, 200, change.to_owned())]);
    let effect = "permanently removes n3: quorum 3/3 -> 2/2, can lose 0 nodes\n";
    let is_asked = || stub.asked().contains(&route.to_owned());
    let (code, _, stderr) = run(&stub, &["member", "remove", "n3"]);
    assert!(code == 2 && stderr.starts_with(effect), "{code} {stderr}");
    assert!(!is_asked());
    let (code, stdout, stderr) = run(&stub, &["member", "remove", "n3", "--yes"]);
    assert_eq!(
        (code, stdout.as_str()),
        (0, "n3 removed, quorum of 2 voters\n"),
        "{stderr}"
    );
    assert!(is_asked());
}

#[test]
fn a_dry_run_only_requests_the_check_of_the_server() {
    let plan = r#"{"dry_run":true,"effect":"permanently removes n3","sequence":null}"#;
    let route = "DELETE /v1/cluster/members/n3";
    let stub = Stub::new(vec![(route, 200, plan.to_owned())]);
    let (code, stdout, stderr) = run(&stub, &["member", "remove", "n3", "--dry-run"]);
    assert_eq!(
        (code, stdout.as_str()),
        (0, "permanently removes n3\n"),
        "{stderr}"
    );
    assert_eq!(stub.asked(), [format!("{route}?dry_run=1")]);
}

#[test]
fn a_command_without_a_dry_run_refuses_it_and_sends_nothing() {
    let stub = Stub::new(Vec::new());
    for line in [
        "seq next order",
        "seq get order",
        "leader show",
        "member list",
        "snapshot save x.snap",
        "id",
    ] {
        let args: Vec<&str> = line.split(' ').chain(["--dry-run", "--yes"]).collect();
        let (code, stdout, stderr) = run(&stub, &args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{line}: {stderr}");
        assert!(
            stderr.contains("does not support --dry-run"),
            "{line}: {stderr}"
        );
    }
    assert!(stub.asked().is_empty(), "{:?}", stub.asked());
}

#[test]
fn decode_reads_stdin_and_continues_after_a_bad_id() {
    let parts = r#"{"id":"7","layout":"default","time":"2026-01-01T00:00:00.000Z","unix_ms":1,
        "tick":"0","datacenter":null,"worker":0,"sequence":7,"hex":"7","base62":"00000000007",
        "crockford":"0000000000007","holder":null}"#;
    let stub = Stub::new(vec![("GET /v1/ids/7", 200, parts.to_owned())]);
    let output = seqd(&stub.address.to_string(), &["decode"], "x7\n7\n");
    let (code, stdout, stderr) = texts(&output);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("error: \"x7\" is not an ID of the format dec"),
        "{stderr}"
    );
    assert_eq!(
        stdout,
        "  time 2026-01-01T00:00:00.000Z   worker 0   sequence 7   layout default   \
         base62 00000000007   crockford 0000000000007\n"
    );
}

#[test]
fn create_reports_a_new_and_an_existing_sequence() {
    let sequence = r#"{"name":"order","mode":"strict","start":"1","increment":"1","min":"1",
        "max":"9","cycle":false,"next":"1","allocated":"0","remaining":"9"}"#;
    for (status, said) in [
        (
            201,
            "created the strict sequence order; its next value is 1\n",
        ),
        (
            200,
            "order already exists with the same definition; its next value is 1\n",
        ),
    ] {
        let stub = Stub::new(vec![(
            "PUT /v1/sequences/order",
            status,
            sequence.to_owned(),
        )]);
        let (code, stdout, stderr) = run(
            &stub,
            &[
                "seq",
                "create",
                "order",
                "--mode",
                "strict",
                "--increment",
                "-1",
            ],
        );
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", said));
        let body = r#"{"mode":"strict","increment":"-1"}"#;
        assert_eq!(stub.asked(), [format!("PUT /v1/sequences/order {body}")]);
    }
}

#[test]
fn input_without_an_end_is_refused() {
    let check = ["config", "check", "--config", "/dev/zero"];
    let (code, _, stderr) = texts(&seqd("x", &check, ""));
    assert_eq!(code, 2);
    assert!(stderr.contains("larger than 1048576 bytes"), "{stderr}");
    let (code, _, stderr) = texts(&seqd("x", &["decode"], &"7".repeat((16 << 20) + 1)));
    assert_eq!(code, 2);
    assert!(stderr.contains("larger than 16777216 bytes"), "{stderr}");
}

#[test]
fn an_interrupted_recovery_is_announced_again_and_cannot_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("successor");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("LOCK"), "").unwrap();
    std::fs::write(inside.join("said"), "makes it\n  IDs  unique").unwrap();
    let path = folder.path().to_str().unwrap();
    let recover = |more: &[&str]| {
        let line = ["data", "recover-quorum", "--data-dir", path];
        texts(&seqd("x:1", &[&line[..], more].concat(), ""))
    };
    for said in [&["--margin", "5"][..], &["--floor", "order=7"]] {
        let (code, stdout, stderr) = recover(&[said, &["--yes"]].concat());
        assert_eq!((code, stdout.as_str()), (2, ""), "{said:?} {stderr}");
        assert!(stderr.contains("they cannot be changed"), "{stderr}");
        let way_out = "repeat the command without --floor, --margin and --written to finish it";
        assert!(stderr.contains(way_out), "{stderr}");
    }
    let (code, stdout, stderr) = recover(&["--dry-run"]);
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(
        stderr.starts_with("finishes the interrupted recovery of "),
        "{stderr}"
    );
    let again = "confirmed when the recovery began:\nmakes it\n  IDs  unique\ndry run:";
    assert!(stderr.contains(again), "{stderr}");
    assert!(inside.join("said").is_file(), "nothing was done");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(&source, &target).unwrap();
        }
    }
}

#[test]
fn unchecked_facts_of_a_takeover_are_part_of_the_confirmation() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../raft/tests/golden/data-v1");
    let folder = tempfile::tempdir().unwrap();
    copy(&golden, folder.path());
    let path = folder.path().to_str().unwrap();
    let plan = || {
        let line = [
            "data",
            "recover-quorum",
            "--data-dir",
            path,
            "--margin",
            "0",
        ];
        let line = [&line[..], &["--dry-run", "-o", "json"]].concat();
        let (code, stdout, stderr) = texts(&seqd("x:1", &line, ""));
        assert_eq!(code, 0, "{stderr}");
        let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        (json["notes"].as_array().unwrap().len(), stderr)
    };
    let (notes, people) = plan();
    assert_eq!(notes, 0, "{people}");
    assert!(!people.contains("\n  note "), "{people}");
    std::fs::remove_file(folder.path().join("CURRENT")).unwrap();
    let (notes, people) = plan();
    assert_eq!(notes, 1, "{people}");
    let note = "\n  note         the checkpoint cannot be read (CURRENT: it is missing)";
    assert!(people.contains(note), "{people}");
}

#[test]
fn a_bad_endpoint_is_a_usage_error() {
    assert_eq!(texts(&seqd("ftp://n1", &["id"], "")).0, 2);
    assert_eq!(texts(&seqd("n1/path", &["id"], "")).0, 2);
}
