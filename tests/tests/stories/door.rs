//! Clients that mean no good, or know no better, at the clients' port of a real node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{get, post};
use seqd_tests::wait;
use serde_json::json;

/// Answers come within milliseconds; on a busy machine within this.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node alone whose process may have the fewest open files that a node starts with: 224 clients.
fn with_few_files() -> Cluster {
    let mut cluster = Cluster::planned(1);
    let launcher = ["sh", "-c", "ulimit -n 512; exec \"$@\"", "sh"];
    cluster.node_mut(0).set_launcher(&launcher);
    cluster.ready()
}

fn connect(cluster: &Cluster) -> TcpStream {
    let stream = TcpStream::connect(cluster.address(0)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What a node sends to these bytes, until it closes or `enough` is there.
fn answer(cluster: &Cluster, request: &[u8], enough: &str) -> String {
    let mut stream = connect(cluster);
    // The node may close before all was sent.
    let _ = stream.write_all(request);
    let (mut all, mut part) = (String::new(), [0; 4096]);
    while !all.contains(enough) {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(read) => all.push_str(&String::from_utf8_lossy(&part[..read])),
        }
    }
    all
}

#[test]
fn more_idle_connections_than_open_files_keep_nobody_out() {
    let mut cluster = with_few_files();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    // Half of them have begun a head.
    let idle: Vec<TcpStream> = (0..600)
        .map(|number| {
            let mut stream = connect(&cluster);
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET /v1/id HTTP/1.1\r\nhost: loc");
            }
            stream
        })
        .collect();
    for path in ["/livez", "/readyz", "/v1/id"] {
        cluster.get(0, path).ok();
    }
    assert_eq!(cluster.next(0, "order", 1), (1, 1));
    drop(idle);
    assert!(cluster.node_mut(0).is_running());
}

#[test]
fn health_is_told_and_all_else_is_overloaded_while_all_connections_are_answered() {
    let cluster = with_few_files();
    // Their bodies never come.
    let head = b"POST /v1/id HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\n\r\n";
    let began = Instant::now();
    let mut busy = Vec::new();
    // A connection of its own each time: an idle one would be closed for another.
    let ask = |path: &str| {
        let request = get(&cluster.url(0, path));
        request.header("connection", "close").reply()
    };
    while ask("/v1/id").status != 503 {
        assert!(
            began.elapsed() < PATIENCE,
            "{} are not too many",
            busy.len()
        );
        for _ in 0..32 {
            let mut stream = connect(&cluster);
            let _ = stream.write_all(head);
            busy.push(stream);
        }
    }
    let refused = ask("/v1/id").refused(503, "overloaded");
    assert!(refused.retryable() && refused.header("retry-after").is_some());
    assert_eq!(refused.header("connection"), Some("close"));
    for path in ["/livez", "/readyz", "/metrics"] {
        ask(path).ok();
    }
    drop(busy);
    wait::until("requests are served again", PATIENCE, || {
        (ask("/v1/id").status == 200).then_some(())
    });
}

/// A system whose connection is not taken into the queue tries again after a second.
#[test]
fn connections_of_a_moment_in_which_the_node_stands_still_are_not_lost() {
    let cluster = Cluster::started(1);
    let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let count = limit.trim().parse::<usize>().unwrap().min(600);
    let address = cluster.address(0).parse().unwrap();
    cluster.node(0).signal(Signal::STOP);
    let waiting: Vec<TcpStream> = (0..count)
        .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(900)).ok())
        .collect();
    cluster.node(0).signal(Signal::CONT);
    assert_eq!(waiting.len(), count);
    cluster.get(0, "/livez").ok();
}

#[test]
fn what_is_no_request_has_an_answer() {
    let cluster = Cluster::started(1);
    let long = |length: usize| {
        format!(
            "GET /v1/{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "x".repeat(length)
        )
    };
    let header = format!(
        "GET /v1 HTTP/1.1\r\nhost: localhost\r\na: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let many = format!(
        "GET /v1 HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "a: b\r\n".repeat(100)
    );
    let lengths =
        "POST /v1/id HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    for (request, status) in [
        ("\0\u{1}\r\n\r\n", 400),
        ("G@T / HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\nhost: localhost\r\n\r\n", 400),
        (lengths, 400),
        (&long(5000), 414),
        (&long(20_000), 431),
        (&header, 431),
        (&many, 431),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0", 505),
    ] {
        let got = answer(&cluster, request.as_bytes(), "\r\n\r\n");
        let start = format!("HTTP/1.1 {status} ");
        let shown: String = request.chars().take(60).collect();
        assert!(got.starts_with(&start), "{shown:?}: {got:?}");
    }
    let long = cluster.get(0, &format!("/v1/id?format={}", "x".repeat(5000)));
    long.refused(414, "uri-too-long");
}

#[test]
fn what_follows_a_request_withholds_no_answer() {
    let cluster = Cluster::started(1);
    for behind in ["\r\n", "G", "GET /v1/id HTTP/1.1\r\nhos"] {
        let request =
            format!("POST /v1/id HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n{behind}");
        let began = Instant::now();
        let got = answer(&cluster, request.as_bytes(), "\n");
        assert!(got.starts_with("HTTP/1.1 200 "), "{behind:?}: {got:?}");
        assert!(began.elapsed() < PATIENCE, "{behind:?}");
    }
    post(&cluster.url(0, "/v1/id")).reply().ok();
}
