//! Hostile and faulty clients at the client port of a real node.

use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::Signal;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::post;
use serde_json::json;

use seqd_tests::callers::{Caller, guarded};

/// The time limit of a response, which takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A planned node whose process has the smallest limit of open files with which a node starts: 224
/// clients.
fn with_few_files() -> Cluster {
    let mut cluster = Cluster::planned(1);
    let launcher = ["sh", "-c", "ulimit -n 512; exec \"$@\"", "sh"];
    cluster.node_mut(0).set_launcher(&launcher);
    cluster
}

fn connect(cluster: &Cluster) -> TcpStream {
    let stream = TcpStream::connect(cluster.address(0)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The response of a node to these bytes, until it closes the connection or `enough` has arrived.
fn answer(cluster: &Cluster, request: &[u8], enough: &str) -> String {
    let mut stream = connect(cluster);
    // The node may close the connection before everything was sent.
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
fn more_idle_connections_than_open_files_exclude_no_client() {
    let mut cluster = with_few_files().ready().with_order();
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
    // Each on a connection of its own: the node may end one that was kept from before for one of
    // the idle ones that it has yet to accept, while the next request is on its way.
    for path in ["/livez", "/readyz", "/v1/id"] {
        assert_eq!(status_from(&cluster, 1, path, ""), "200", "{path}");
    }
    let next = b"POST /v1/sequences/order/next HTTP/1.1\r\nhost: localhost\r\n\
                 accept: application/json\r\nconnection: close\r\n\r\n";
    let response = answer(&cluster, next, "}");
    assert!(response.contains(r#""first":"1""#), "{response}");
    drop(idle);
    assert!(cluster.node_mut(0).is_running());
}

/// Opens a connection from an address of the loopback network, and sends bytes.
fn send_from(cluster: &Cluster, last: u8, bytes: &str) -> TcpStream {
    // Closed in the nodes that other tests start in the meantime.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &SocketAddrV4::new([127, 0, 0, last].into(), 0)).unwrap();
    let node: SocketAddr = cluster.address(0).parse().unwrap();
    rustix::net::connect(&socket, &node).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The node may have closed it in favour of another connection.
    let _ = stream.write_all(bytes.as_bytes());
    stream
}

/// The status of one request on a separate connection.
fn status_from(cluster: &Cluster, last: u8, path: &str, headers: &str) -> String {
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    let mut answer = String::new();
    let _ = send_from(cluster, last, &head).read_to_string(&mut answer);
    answer.get(9..12).unwrap_or_default().to_owned()
}

/// The header line with a caller's token.
fn shown(caller: &Caller<'_>) -> String {
    format!("authorization: Bearer {}\r\n", caller.token)
}

/// The bytes that a flood sends on each connection: incomplete bodies, or waits for a lock.
fn floods(headers: &str) -> [String; 2] {
    let head = "POST /v1/locks/x.job/acquire HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\n";
    let wait = r#"{"owner":"hostile","ttl_ms":600000,"wait_ms":600000}"#;
    [
        format!("{head}{headers}content-length: 20\r\n\r\n{{"),
        format!(
            "{head}{headers}content-length: {}\r\n\r\n{wait}",
            wait.len()
        ),
    ]
}

#[test]
fn bodies_that_never_come_and_waits_of_one_address_keep_no_other_out() {
    for flood in floods("") {
        let mut cluster = with_few_files().ready();
        let held: Vec<TcpStream> = (0..400).map(|_| send_from(&cluster, 2, &flood)).collect();
        for number in 0..20 {
            for path in ["/v1/id", "/v1/locks"] {
                let status = status_from(&cluster, 3, path, "");
                assert_eq!(
                    status, "200",
                    "request {number} of another client, {flood:?}"
                );
            }
        }
        assert_eq!(
            status_from(&cluster, 2, "/v1/id", ""),
            "200",
            "of the same address"
        );
        drop(held);
        assert!(cluster.node_mut(0).is_running());
    }
}

#[test]
fn the_connections_of_one_token_keep_neither_another_nor_the_operator_out() {
    let (cluster, _file) = guarded(with_few_files());
    let hostile = Caller::with(&cluster, &json!({"scopes": ["allocate:x."]})).0;
    let honest = Caller::with(&cluster, &json!({"scopes": ["allocate"]})).0;
    for flood in floods(&shown(&hostile)) {
        // From as many addresses as there are connections of an honest client.
        let held: Vec<TcpStream> = (0..400u16)
            .map(|number| send_from(&cluster, 10 + (number % 200) as u8, &flood))
            .collect();
        let mut pool: Vec<TcpStream> = Vec::new();
        for number in 0..20 {
            let head = "GET /v1/id HTTP/1.1\r\nhost: localhost\r\n";
            let stream = send_from(&cluster, 3, &format!("{head}{}\r\n", shown(&honest)));
            pool.push(stream);
            let mut status = [0; 12];
            let read = pool[number].read_exact(&mut status);
            let status = String::from_utf8_lossy(&status).into_owned();
            assert!(
                read.is_ok() && status == "HTTP/1.1 200",
                "request {number}: {status:?}"
            );
        }
        let operator = shown(&Caller::operator(&cluster));
        assert_eq!(status_from(&cluster, 4, "/v1/locks", &operator), "200");
        for stream in &mut pool {
            stream.set_nonblocking(true).unwrap();
            let is_open = stream.read_to_end(&mut Vec::new()).is_err();
            assert!(
                is_open,
                "an idle connection of the other token ended for the flood"
            );
        }
        drop(held);
    }
}

/// A client system whose connection is not accepted into the queue tries again after a second.
#[test]
fn connections_made_while_the_node_is_paused_are_not_lost() {
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
fn an_invalid_request_gets_a_response() {
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
        if status != 505 {
            let problem = answer(&cluster, request.as_bytes(), "}\n").to_ascii_lowercase();
            for part in [
                "content-type: application/problem+json",
                "x-request-id: ",
                "seqd-node: n1",
            ] {
                assert!(
                    problem.contains(part),
                    "{shown:?}: {part} is missing in {problem:?}"
                );
            }
            assert!(
                problem.contains(&format!("\"status\":{status}")),
                "{problem:?}"
            );
        }
    }
    let long = cluster.get(0, &format!("/v1/id?format={}", "x".repeat(5000)));
    long.refused(414, "uri-too-long");
}

#[test]
fn bytes_after_a_request_withhold_no_response() {
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

#[test]
fn a_host_is_required_once_and_nothing_may_be_around_it() {
    let cluster = Cluster::started(1);
    let of = |version: &str, hosts: &[&str]| {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("host: {host}\r\n"))
            .collect();
        let request = format!("GET /v1/id HTTP/{version}\r\nconnection: close\r\n{hosts}\r\n");
        answer(&cluster, request.as_bytes(), "\r\n\r\n")
            .get(9..12)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(of("1.1", &["localhost"]), "200");
    assert_eq!(of("1.0", &[]), "200");
    assert_eq!(of("1.1", &[]), "400", "without a host");
    assert_eq!(of("1.1", &["localhost", "localhost"]), "400");
    for host in [
        "127.0.0.1:22928,evil.example",
        "[::1].evil.example",
        "a@localhost",
    ] {
        assert_eq!(of("1.1", &[host]), "400", "{host}");
    }
}

#[test]
fn an_answer_to_a_request_whose_body_is_to_come_announces_the_end_of_the_connection() {
    let cluster = Cluster::started(1);
    for (line, length, status) in [
        ("POST /v1/none", 5, 404),
        ("POST /v1/layouts/a", 5, 405),
        ("POST /v1/layouts", 70_000, 413),
    ] {
        let head = format!("host: localhost\r\ncontent-length: {length}\r\n\r\n");
        let request = format!("{line} HTTP/1.1\r\n{head}");
        let got = answer(&cluster, request.as_bytes(), "}\n");
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got:?}");
        assert!(got.contains("connection: close\r\n"), "{got:?}");
    }
}

#[test]
fn a_client_that_reads_only_after_its_whole_body_receives_the_refusal() {
    let cluster = Cluster::started(1);
    for (path, status) in [("/v1/layouts", 413), ("/v1/sequences/a/next", 413)] {
        let mut stream = TcpStream::connect(cluster.address(0)).unwrap();
        let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 300000";
        let request = format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(&[b' '; 300_000]).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got:?}");
    }
}
