//! Situations at a terminal: nodes that hang, readers that close the pipe, text with control
//! characters, values that cannot be parsed.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::stub::{Stub, run, seqd, texts};
use crate::{ID, NEXT};

#[test]
fn a_node_that_hangs_is_passed_by_every_command() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let well = Stub::new(vec![
        ("POST /v1/sequences/a/next", 200, NEXT.to_owned()),
        ("GET /v1/id", 200, ID.to_owned()),
    ]);
    let list = format!("{},{}", hung.local_addr().unwrap(), well.address);
    let run = |line: &[&str]| texts(&seqd(&list, &[line, &["--timeout", "10s"]].concat(), ""));
    let (code, stdout, stderr) = run(&["seq", "next", "a", "--count", "2"]);
    assert_eq!((code, stdout.as_str()), (0, "1\n2\n"), "{stderr}");
    let (code, stdout, stderr) = run(&["id"]);
    assert_eq!((code, stdout.as_str()), (0, "7\n"), "{stderr}");
}

const CLUSTER: &str = r#"{"cluster_id":"c","node":"n1","applied":1,"digest":"","leader":"n1","term":1,
    "quorum":{"voters":1,"reachable":1,"can_lose":0},"members":[{"name":"n1","id":"1","role":"leader",
    "state":"ready","http":null,"peer":"a:1"}]}"#;

#[test]
fn a_watch_ends_with_its_reader() {
    let stub = Stub::new(vec![("GET /v1/cluster", 200, CLUSTER.to_owned())]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_seqd"))
        .args(["-e", &stub.address.to_string(), "status", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0_u8; 5];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"NODE ");
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("it watches on for nobody");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_node_that_is_not_a_member_yet_is_shown_with_the_reason() {
    let nobody = r#"{"cluster_id":null,"node":"n1","applied":0,"digest":"","leader":null,"term":0,
        "quorum":{"voters":0,"reachable":0,"can_lose":0},"members":[]}"#;
    let waits = r#"{"status":503,"code":"no-quorum","detail":"waiting for quorum: seen 1/3 (b:1 refused)","retryable":true}"#;
    let stub = Stub::new(vec![
        ("GET /v1/cluster", 200, nobody.to_owned()),
        ("GET /readyz", 503, waits.to_owned()),
    ]);
    let (code, stdout, stderr) = run(&stub, &["status"]);
    let expected =
        "n1 is not a member of a cluster yet: waiting for quorum: seen 1/3 (b:1 refused)\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (7, expected, ""));
}

#[test]
fn a_restarted_member_is_shown_with_its_own_reason() {
    let waiting = r#"{"cluster_id":"01J9","node":"n1","applied":0,"digest":"","leader":null,
        "term":0,"quorum":{"voters":0,"reachable":0,"can_lose":0},"members":[]}"#;
    let problem = |detail: &str| {
        format!(r#"{{"status":503,"code":"no-quorum","detail":"{detail}","retryable":true}}"#)
    };
    let stub = |detail| {
        Stub::new(vec![
            ("GET /v1/cluster", 200, waiting.to_owned()),
            ("GET /readyz", 503, problem(detail)),
        ])
    };
    let (one, other) = (stub("waiting for the others"), stub("a reason of n2"));
    let both = format!("{},{}", one.address, other.address);
    let (code, stdout, _) = run(&one, &["status", "-e", &both]);
    let expected = "n1 does not serve its cluster 01J9 yet: waiting for the others\n\
        start the other members; only if a majority";
    assert!(stdout.starts_with(expected), "{stdout}");
    assert_eq!(code, 7);
}

#[test]
fn text_from_a_server_cannot_move_the_cursor() {
    let evil = r#"{"name":"a","mode":"strict","start":"1","increment":"1","min":"1","max":"9",
        "cycle":false,"next":"1","allocated":"0","remaining":"9","description":"\u001b[2J\u009bH\nnext  99"}"#;
    let problem = r#"{"status":404,"code":"not-found","detail":"\u001b[31mnone","retryable":false,"hint":"\u0007"}"#;
    let stub = Stub::new(vec![
        ("GET /v1/sequences/a", 200, evil.to_owned()),
        ("GET /v1/sequences/b", 404, problem.to_owned()),
    ]);
    for form in ["table", "json", "jsonl", "csv", "plain"] {
        let (_, out, _) = run(&stub, &["seq", "get", "a", "-o", form]);
        let (_, _, err) = run(&stub, &["seq", "get", "b", "-o", form]);
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(
            !out.contains(acts) && !err.contains(acts),
            "{form}: {out:?} {err:?}"
        );
    }
    let (_, out, _) = run(&stub, &["seq", "get", "a"]);
    assert!(!out.contains("\nnext  99"), "{out}");
}

#[test]
fn an_unreadable_value_is_answered_with_the_allowed_values() {
    let cases = [
        ("--timeout 5 id", "with its unit, such as 3s or 500ms"),
        ("id -n x", "a whole number, such as 100"),
        ("uuid -n -5", "a whole number, such as 100"),
        ("seq next a -n 1.5", "a whole number, such as 100"),
        ("seq advance a x", "from -9223372036854775808 to"),
        ("seq create a --start x", "such as 500000"),
    ];
    for (line, expected) in cases {
        let line: Vec<&str> = line.split(' ').collect();
        let (code, _, stderr) = texts(&seqd("x", &line, ""));
        assert_eq!(code, 2, "{line:?}");
        assert!(stderr.contains(expected), "{line:?}: {stderr}");
    }
}

#[test]
fn an_unknown_variable_is_an_error_that_names_the_nearest() {
    let output = Command::new(env!("CARGO_BIN_EXE_seqd"))
        .args(["config", "show"])
        .env("SEQD_HTTP_LISEN", "127.0.0.1:1")
        .output()
        .unwrap();
    let (code, _, stderr) = texts(&output);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("did you mean SEQD_HTTP_LISTEN?"),
        "{stderr}"
    );
}
