//! The memcached port: its bytes, its refusals and its limits.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use seqd_tests::callers::guarded;
use seqd_tests::cluster::Cluster;
use seqd_tests::ports::Port;

/// A response over loopback arrives within milliseconds, and on a busy machine within this time.
const PATIENCE: Duration = Duration::from_secs(20);

struct Client(TcpStream);

impl Client {
    fn connect(port: &Port) -> Client {
        let stream = TcpStream::connect(port.address()).expect("the memcached port");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("a request");
    }

    /// Reads until the end of the response.
    fn until(&mut self, end: &str) -> String {
        let mut read = String::new();
        while !read.ends_with(end) {
            let mut byte = [0];
            self.0
                .read_exact(&mut byte)
                .unwrap_or_else(|error| panic!("{error} after {read:?}"));
            read.push(char::from(byte[0]));
        }
        read
    }

    fn ask(&mut self, request: &str, end: &str) -> String {
        self.send(request);
        self.until(end)
    }

    /// A binary response: status, opaque, key and value.
    fn packet(&mut self) -> (u16, [u8; 4], String, String) {
        let mut head = [0; 24];
        self.0.read_exact(&mut head).expect("a header");
        assert_eq!(head[0], 0x81);
        let body = u32::from_be_bytes(head[8..12].try_into().unwrap());
        let mut rest = vec![0; body as usize];
        self.0.read_exact(&mut rest).expect("a body");
        let key = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (key, value) = rest[usize::from(head[4])..].split_at(key);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let status = u16::from_be_bytes([head[6], head[7]]);
        let opaque = head[12..16].try_into().unwrap();
        (status, opaque, text(key), text(value))
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn binary(opcode: u8, key: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    out.push((key.len() + value.len()) as u8);
    out.extend_from_slice(b"abcd\0\0\0\0\0\0\0\0");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(value.as_bytes());
    out
}

fn one_node(port: &Port) -> Cluster {
    let listen = format!("\"{}\"", port.address());
    Cluster::planned(1).with("memcached", "listen", &listen)
}

/// The IDs of a response to a get of these keys.
fn ids_of(response: &str, keys: &[&str]) -> Vec<u64> {
    let mut lines = response.split("\r\n");
    let mut ids = Vec::new();
    for key in keys {
        let (head, id) = (lines.next().unwrap(), lines.next().unwrap());
        let expected = format!("VALUE {key} 0 {}", id.len());
        assert!(
            head == expected || head == format!("{expected} {id}"),
            "{head}"
        );
        ids.push(id.parse().unwrap());
    }
    assert_eq!(lines.collect::<Vec<_>>(), ["END", ""]);
    ids
}

#[test]
fn each_key_of_a_get_is_a_fresh_id() {
    let port = Port::free();
    let cluster = one_node(&port).ready();
    let mut client = Client::connect(&port);
    let mut seen = BTreeSet::new();
    seen.extend(ids_of(&client.ask("get id\r\n", "END\r\n"), &["id"]));
    let several = client.ask("gets a b a\r\n", "END\r\n");
    seen.extend(ids_of(&several, &["a", "b", "a"]));
    client.send("get x\r\nget y\r\nversion\r\n");
    for key in ["x", "y"] {
        seen.extend(ids_of(&client.until("END\r\n"), &[key]));
    }
    assert!(client.until("\r\n").starts_with("VERSION "));
    let http: u64 = cluster.get(0, "/v1/id").ok().body.trim().parse().unwrap();
    assert!(seen.iter().all(|id| *id < http) && seen.len() == 6);

    let most = vec!["k"; 1000];
    let all = client.ask(&format!("get {}\r\n", most.join(" ")), "END\r\n");
    assert_eq!(
        ids_of(&all, &most)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len(),
        1000
    );
    assert_eq!(
        client.ask(&format!("get {} l\r\n", most.join(" ")), "\r\n"),
        "SERVER_ERROR count-too-large: a get takes at most 1000 keys\r\n"
    );
    let long = format!("get {}\r\n", "k".repeat(251));
    let refused = client.ask(&long, "\r\n");
    assert_eq!(
        refused,
        "SERVER_ERROR invalid-argument: a key has 1 to 250 bytes\r\n"
    );
    assert_eq!(
        client.ask("set a 0 0 5\r\nget b\r\n", "\r\n"),
        "ERROR\r\n",
        "data is no request"
    );
    client.send("delete a noreply\r\nincr a 1\r\n");
    assert_eq!(client.until("\r\n"), "ERROR\r\n");
    let stats = client.ask("stats\r\n", "END\r\n");
    assert!(stats.contains("STAT get_hits 1006\r\n"), "{stats}");
    client.send("quit\r\n");
    assert!(client.is_closed());

    let metrics = cluster.get(0, "/metrics").ok().body;
    let counted = metrics
        .lines()
        .any(|line| line.contains("protocol=\"memcached\"") && line.contains("command=\"get\""));
    assert!(counted, "{metrics}");
}

#[test]
fn the_binary_form_has_the_same_ids() {
    let port = Port::free();
    let _cluster = one_node(&port).ready();
    let mut client = Client::connect(&port);
    client.send([binary(13, "a", ""), binary(9, "b", ""), binary(10, "", "")].concat());
    let (status, opaque, key, first) = client.packet();
    assert_eq!((status, opaque, key.as_str()), (0, *b"abcd", "a"));
    let (_, _, key, second) = client.packet();
    assert_eq!(key, "");
    assert!(first.parse::<u64>().unwrap() < second.parse().unwrap());
    assert_eq!(client.packet(), (0, *b"abcd", String::new(), String::new()));
    client.send([binary(1, "a", "value"), binary(11, "", "")].concat());
    assert_eq!(client.packet().0, 0x81);
    assert_eq!(client.packet().0, 0);
    client.send(binary(0, "", ""));
    let (status, _, _, text) = client.packet();
    assert_eq!(status, 0x84);
    assert_eq!(text, "invalid-argument: a key has 1 to 250 bytes");
    client.send(binary(16, "", ""));
    assert_eq!(client.packet().2, "pid");
    while !client.packet().2.is_empty() {}
    client.send(binary(7, "", ""));
    assert_eq!(client.packet().0, 0);
    assert!(client.is_closed());
}

#[test]
fn ids_have_the_layout_of_the_configuration() {
    let port = Port::free();
    let cluster = one_node(&port)
        .with("memcached", "layout", "\"js53\"")
        .ready();
    let id = Client::connect(&port).ask("get id\r\n", "END\r\n");
    assert!(ids_of(&id, &["id"])[0] < 1 << 53);
    let metrics = cluster.get(0, "/metrics").ok().body;
    assert!(
        metrics.contains("seqd_ids_generated_total{layout=\"js53\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_request_is_refused_where_tokens_are_required() {
    let port = Port::free();
    let (_cluster, _file) = guarded(one_node(&port));
    let mut client = Client::connect(&port);
    for request in ["get id\r\n", "version\r\n", "stats\r\n", "flush_all\r\n"] {
        let refused = client.ask(request, "\r\n");
        assert!(
            refused.starts_with("SERVER_ERROR unauthorized: "),
            "{refused}"
        );
    }
}

#[test]
fn a_node_that_stops_answers_whole_requests_and_ends_a_connection_with_its_refusal() {
    let port = Port::free();
    let mut cluster = one_node(&port).ready();
    let mut client = Client::connect(&port);
    cluster.node_mut(0).signal(Signal::TERM);
    loop {
        // The port may already be closed: it refuses for a moment only.
        if client.0.write_all(b"get id\r\n").is_err() || client.0.peek(&mut [0]).unwrap_or(0) == 0 {
            return;
        }
        let line = client.until("\r\n");
        if line.starts_with("SERVER_ERROR ") {
            assert!(line.starts_with("SERVER_ERROR draining: "), "{line}");
            break;
        }
        client.until("END\r\n");
    }
    let _ = client.0.write_all(b"get id\r\n");
    assert!(client.is_closed(), "a second refusal");
}

#[test]
fn a_connection_without_a_line_end_is_closed() {
    let port = Port::free();
    let _cluster = one_node(&port).ready();
    let mut client = Client::connect(&port);
    client.send(vec![b'x'; 300 * 1024]);
    assert_eq!(client.until("\r\n"), "ERROR\r\n");
    assert!(client.is_closed());
}
