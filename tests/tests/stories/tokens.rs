//! The cluster's access tokens: what each permits, on every node, until it is revoked or expires.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use seqd_tests::callers::{Caller, OPERATOR, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::{binary, wait};
use serde_json::json;

/// A node applies the entries of its leader within milliseconds, and on a busy machine within this
/// time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn changes_are_logged_with_their_author_and_without_secrets() {
    let (cluster, file) = guarded(Cluster::planned(1));
    let (url, file) = (cluster.url(0, ""), file.display().to_string());
    let run = |arguments: &[&str]| {
        let output = binary::run(&[&["-e", &url, "--token-file", &file], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), words)
    };
    let create = [
        "access",
        "create",
        "--scope",
        "admin:order.",
        "--description",
        "shop",
    ];
    let (plan, _) = run(&[&create[..], &["--dry-run"]].concat());
    assert_eq!(plan, "makes a token that permits admin:order.\n");
    let (token, words) = run(&create);
    let token = token.trim().to_owned();
    let id = token.split('_').nth(1).expect("its ID").to_owned();
    assert!(words.contains(&id) && !words.contains(&token), "{words}");
    let caller = Caller::of(&cluster, &token);
    let definition = json!({"mode": "strict"});
    caller
        .send("PUT", 0, "/v1/sequences/order.eu", Some(&definition))
        .ok();
    caller
        .send("PUT", 0, "/v1/sequences/bill", Some(&definition))
        .refused(403, "forbidden");
    let operator = Caller::operator(&cluster);
    operator
        .send("DELETE", 0, "/v1/tokens?token=1A2b3C4d5E6pasted", None)
        .refused(400, "unknown-field");
    let metrics = operator.get("/metrics").ok().body;
    let config = operator.get("/v1/config").ok().body;
    let (list, _) = run(&["access", "list"]);
    assert!(
        list.contains(&id) && list.contains("admin:order."),
        "{list}"
    );
    run(&["access", "revoke", &id, "--yes"]);

    let log = cluster.node(0).stderr();
    let line = |parts: &[&str]| {
        let found = log
            .lines()
            .find(|line| parts.iter().all(|part| line.contains(part)));
        found.unwrap_or_else(|| panic!("no line of {parts:?} in\n{log}"));
    };
    let who = format!("token {id}");
    line(&["audit: POST /v1/access", "operator", "127.0.0.1", "201"]);
    line(&["audit: POST /v1/access?dry_run=1", "operator", "200"]);
    line(&["audit: PUT /v1/sequences/order.eu", &who, "201"]);
    line(&["audit: PUT /v1/sequences/bill", &who, "403"]);
    line(&[&format!("audit: DELETE /v1/access/{id}"), "operator", "200"]);
    line(&["audit: DELETE /v1/tokens?...", "operator", "400"]);
    assert!(!log.contains("pasted"), "{log}");

    let secret = token.rsplit('_').next().expect("its secret");
    let stored = binary::files_below(&cluster.node(0).data()).expect("the folder");
    assert!(!stored.is_empty());
    for path in stored {
        let bytes = std::fs::read(&path).expect("a file");
        for secret in [secret, OPERATOR] {
            let is_in = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!is_in, "{} has a token", path.display());
        }
    }
    for text in [&log, &metrics, &config, &list] {
        assert!(
            !text.contains(secret) && !text.contains(OPERATOR),
            "a token is shown: {text}"
        );
    }
    assert_eq!(core_limits(&cluster), ["1", "1"], "core dumps are on");
}

/// The soft and the hard limit for core dumps of the first node.
fn core_limits(cluster: &Cluster) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", cluster.node(0).pid()));
    let limits = limits.expect("its limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.expect("a line").split_whitespace().collect();
    [core[4].to_owned(), core[5].to_owned()]
}

#[test]
fn a_node_that_may_write_no_core_dump_at_all_leaves_its_limit_and_starts() {
    let (mut cluster, _file) = guarded(Cluster::planned(1));
    cluster.node_mut(0).stop();
    let launcher = ["sh", "-c", "ulimit -c 0 && exec \"$@\"", "sh"];
    cluster.node_mut(0).set_launcher(&launcher);
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(core_limits(&cluster), ["0", "0"]);
    let log = cluster.node(0).stderr();
    assert!(!log.contains("core dump"), "{log}");
}

#[test]
fn a_client_that_leaves_before_the_response_is_logged_too() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    let cluster = &cluster;
    let leave = |after: Duration| {
        let body = r#"{"scopes":["read"],"description":"left"}"#;
        let request = format!(
            "POST /v1/access HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {OPERATOR}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(cluster.address(0)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let asked = Instant::now();
        // A spin loop, because the time is shorter than any timer's resolution.
        while asked.elapsed() < after {
            std::hint::spin_loop();
        }
    };
    let lines = |part: &str| {
        let log = cluster.node(0).stderr();
        let lines = log
            .lines()
            .filter(|line| line.contains("audit: POST /v1/access"));
        lines.filter(|line| line.contains(part)).count()
    };
    let made = || {
        let list = Caller::operator(cluster).get("/v1/access?limit=1000").ok();
        list.json()["items"].as_array().expect("items").len()
    };
    // Some clients leave too early, before anything has happened, and some too late.
    let mut tries = 0..400;
    while lines("\"status\":0") == 0 || made() == 0 {
        let number: u64 = tries.next().expect("one that leaves while it is served");
        leave(Duration::from_micros(20 + number % 40 * 50));
    }
    wait::until("a line for each token", PATIENCE, || {
        (lines("") >= made()).then_some(())
    });
}
