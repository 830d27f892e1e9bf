//! The allocations of the most frequent requests, counted in a node with a real socket and folder.
//!
//! A rate depends on the machine, but these counts do not: a change that lets a frequent request
//! allocate more fails here. A bound is the count at the time of writing, rounded up.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod support;

use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use seqd_disk::OsDisk;
use seqd_node::OsClock;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The requests before counting: they fill windows, buffers and series of metrics.
const WARM_UP: usize = 200;

/// The requests that are counted together, and how often. The smallest count is the one without the
/// node's periodic tasks.
const COUNTED: usize = 100;
const TIMES: usize = 20;

const PATIENCE: Duration = Duration::from_secs(20);

/// A frequent request, and the most that the node may allocate for it. Most of the bytes are the
/// future of the request.
struct Frequent {
    request: &'static str,
    allocations: f64,
    bytes: f64,
}

const FREQUENT: [Frequent; 5] = [
    Frequent {
        request: "GET /v1/id",
        allocations: 13.5,
        bytes: 7_000.0,
    },
    Frequent {
        request: "GET /v1/ids?count=100",
        allocations: 38.5,
        bytes: 12_000.0,
    },
    Frequent {
        request: "POST /v1/sequences/segments/next",
        allocations: 18.5,
        bytes: 7_500.0,
    },
    Frequent {
        request: "POST /v1/sequences/ordered/next",
        allocations: 33.5,
        bytes: 11_500.0,
    },
    Frequent {
        request: "POST /v1/sequences/strict/next",
        allocations: 88.0,
        bytes: 23_000.0,
    },
];

/// A client that allocates nothing while it sends the same request again.
struct Client {
    stream: TcpStream,
    buffer: [u8; 4096],
}

impl Client {
    fn connect(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            buffer: [0; 4096],
        }
    }

    /// Sends a request and returns the response, which one read receives.
    fn ask(&mut self, request: &[u8]) -> &str {
        self.stream.write_all(request).unwrap();
        let length = self.stream.read(&mut self.buffer).unwrap();
        std::str::from_utf8(&self.buffer[..length]).unwrap()
    }
}

fn request(line: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn count(addr: SocketAddr) {
    let mut client = Client::connect(addr);
    let until = Instant::now() + PATIENCE;
    let ready = request("GET /readyz", "");
    while !client.ask(&ready).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < until, "the node is ready");
        client = Client::connect(addr);
    }
    for (name, mode) in [
        ("segments", "segment"),
        ("ordered", "ordered"),
        ("strict", "strict"),
    ] {
        let line = format!("PUT /v1/sequences/{name}");
        let answer = client.ask(&request(&line, &format!("{{\"mode\":\"{mode}\"}}")));
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let mut over = Vec::new();
    for frequent in &FREQUENT {
        let bytes = request(frequent.request, "");
        let mut ask = |times| {
            for _ in 0..times {
                let answer = client.ask(&bytes);
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
        };
        ask(WARM_UP);
        let counts = (0..TIMES).map(|_| {
            let region = Region::new(ALLOCATOR);
            ask(COUNTED);
            let change = region.change();
            (
                change.allocations + change.reallocations,
                change.bytes_allocated,
            )
        });
        let counts: Vec<(usize, usize)> = counts.collect();
        let each = |count: Option<usize>| count.unwrap() as f64 / COUNTED as f64;
        let allocations = each(counts.iter().map(|counted| counted.0).min());
        let bytes = each(counts.iter().map(|counted| counted.1).min());
        let found = format!(
            "{}: {allocations:.2} allocations of {bytes:.0} bytes, at most {} of {}",
            frequent.request, frequent.allocations, frequent.bytes
        );
        println!("{found}");
        if allocations > frequent.allocations || bytes > frequent.bytes {
            over.push(found);
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}

#[test]
fn frequent_requests_allocate_little() {
    let folder = tempfile::tempdir().unwrap();
    let consensus = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let clients = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let node = clients.block_on(support::start(
        folder.path(),
        "",
        Arc::new(OsClock),
        Arc::new(OsDisk),
        consensus.handle().clone(),
    ));
    count(node.http_addr());
    clients.block_on(node.stop());
}
