//! Tests of one node as it is assembled for production: real sockets, a real folder, and a clock
//! set by hand.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its story")]

mod support;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, Response};
use seqd_disk::OsDisk;
use seqd_idgen::{WallClock, WallMs};
use seqd_node::{Node, OsClock};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;

/// The operating system's clock, shifted by a number of milliseconds.
#[derive(Debug, Default)]
struct ShiftedClock(AtomicI64);

impl ShiftedClock {
    fn shift(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

impl WallClock for ShiftedClock {
    fn wall(&self) -> WallMs {
        WallMs(
            OsClock
                .wall()
                .0
                .saturating_add_signed(self.0.load(Ordering::SeqCst)),
        )
    }
}

struct Story {
    node: Node,
    url: String,
    client: Client,
}

async fn start(folder: &Path, clock: &Arc<ShiftedClock>) -> Story {
    let (clock, disk) = (Arc::clone(clock), Arc::new(OsDisk));
    let settings = "segment.min = 100";
    let node = support::start(folder, settings, clock, disk, Handle::current()).await;
    let url = format!("http://{}", node.http_addr());
    let tls = seqd_net::tls::client(&seqd_net::tls::ClientFiles::default(), false).unwrap();
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .build()
        .unwrap();
    Story { node, url, client }
}

async fn start_ready(folder: &Path) -> Story {
    let story = start(folder, &Arc::default()).await;
    story.wait_for("/readyz", 200).await;
    story
}

impl Story {
    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, None).await
    }

    async fn json(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(method, path, body).await;
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn id(&self) -> u64 {
        let text = self.get("/v1/id").await.text().await.unwrap();
        text.trim_end().parse().unwrap()
    }

    async fn wait_for(&self, path: &str, status: u16) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let response = self.get(path).await;
            if response.status().as_u16() == status {
                return;
            }
            let text = response.text().await.unwrap();
            assert!(Instant::now() < deadline, "{path} is not {status}: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn next(&self, name: &str, count: u64) -> Vec<i64> {
        let path = format!("/v1/sequences/{name}/next?expand=1&count={count}");
        let (status, body) = self.json(Method::POST, &path, None).await;
        assert_eq!(status, 200, "{body}");
        let values = body["values"].as_array().unwrap().iter();
        values
            .map(|value| value.as_str().unwrap().parse().unwrap())
            .collect()
    }
}

#[tokio::test]
async fn a_clean_stop_gives_tails_and_workers_back() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    story.json(Method::PUT, "/v1/sequences/order", None).await;
    assert_eq!(story.next("order", 30).await.last(), Some(&30));
    let before = story.id().await;
    story.node.stop().await;
    let story = start_ready(folder.path()).await;
    assert_eq!(story.next("order", 1).await, [31]);
    let after = story.id().await;
    assert!(before < after);
    let workers = story.json(Method::GET, "/v1/workers", None).await.1;
    assert_eq!(
        workers["items"].as_array().unwrap().len(),
        1,
        "the same worker again: {workers}"
    );
    story.node.stop().await;
}

#[tokio::test]
async fn a_start_before_its_last_id_refuses_ids_and_serves_all_else() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ShiftedClock::default());
    let story = start(folder.path(), &clock).await;
    story.wait_for("/readyz", 200).await;
    story
        .json(
            Method::PUT,
            "/v1/sequences/strict",
            Some(json!({"mode": "strict"})),
        )
        .await;
    let minted = Instant::now();
    story.get("/v1/ids?count=1000").await;
    story.node.stop().await;

    clock.shift(-60_000);
    let story = start(folder.path(), &clock).await;
    story.wait_for("/readyz?for=ids", 503).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let problem = loop {
        let (status, problem) = story.json(Method::GET, "/v1/id", None).await;
        assert_eq!(status, 503, "{problem}");
        if problem["code"] == "clock-behind" {
            break problem;
        }
        assert!(Instant::now() < deadline, "{problem}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let behind = Duration::from_millis(problem["behind_ms"].as_u64().unwrap());
    let (shift, passed) = (Duration::from_secs(60), minted.elapsed());
    let rounded = Duration::from_millis(50);
    assert!(
        behind <= shift && behind + passed + rounded >= shift,
        "{passed:?}: {problem}"
    );
    assert!(problem["until"].is_string(), "{problem}");
    story.wait_for("/v1/sequences/strict", 200).await;
    let ready = story.json(Method::GET, "/readyz", None).await.1;
    assert_eq!(ready["code"], "clock-behind", "{ready}");
    assert_eq!(story.next("strict", 2).await, [1, 2]);
    clock.shift(0);
    story.wait_for("/readyz", 200).await;
    assert_eq!(story.get("/v1/id").await.status(), 200);
    story.node.stop().await;
}

#[tokio::test]
async fn a_node_reports_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    story.get("/v1/id").await;
    let cluster = story.json(Method::GET, "/v1/cluster", None).await.1;
    assert_eq!(
        (cluster["node"].as_str(), cluster["leader"].as_str()),
        (Some("n1"), Some("n1")),
        "{cluster}"
    );
    assert_eq!(
        cluster["quorum"],
        json!({"voters": 1, "reachable": 1, "can_lose": 0})
    );
    assert_eq!(cluster["members"][0]["state"], "ready", "{cluster}");
    assert_eq!(cluster["members"][0]["clock_offset_ms"], Value::Null);
    let verbose = story.get("/readyz?verbose").await.text().await.unwrap();
    assert!(
        verbose.contains("[+] leader: n1 leads") && verbose.contains("mints until 2"),
        "{verbose}"
    );
    let metrics = story.get("/metrics").await.text().await.unwrap();
    for line in [
        "seqd_ids_generated_total{layout=\"default\"} 1",
        "seqd_http_requests_total{route=\"/v1/id\",method=\"GET\",status=\"200\"} 1",
        "seqd_raft_is_leader 1.0",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    for name in [
        "seqd_raft_fsync_duration_seconds_count",
        "seqd_build_info{",
        "seqd_worker_id{",
    ] {
        assert!(metrics.contains(name), "{name} is missing");
    }
    let (_, version) = story.json(Method::GET, "/version", None).await;
    assert!(version["version"].is_string(), "{version}");
    let config = story.get("/v1/config").await.text().await.unwrap();
    assert!(config.contains("seqd.toml"), "{config}");
    let wrong = story
        .client
        .get(format!("{}/v1/id", story.url))
        .header("seqd-cluster", "other");
    assert_eq!(wrong.send().await.unwrap().status(), 421);
    story.node.stop().await;
}

/// A head that arrives in one piece can be longer than the buffer whose size the limit determines.
#[tokio::test]
async fn a_head_longer_than_its_limit_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    for (length, is_served) in [(16 << 10, true), ((16 << 10) + 1, false), (60_000, false)] {
        let request = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: ";
        let value = "a".repeat(length - request.len() - "\r\n\r\n".len());
        let addr = story.node.http_addr();
        let answer = tokio::task::spawn_blocking(move || {
            let mut connection = TcpStream::connect(addr).unwrap();
            // The server may close the connection before a refused request is completely sent.
            let _ = connection.write_all(format!("{request}{value}\r\n\r\n").as_bytes());
            let mut answer = Vec::new();
            let _ = connection.read_to_end(&mut answer);
            answer
        });
        let answer = answer.await.unwrap();
        let status = answer.starts_with(b"HTTP/1.1 200");
        assert_eq!(
            status,
            is_served,
            "{length}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    story.node.stop().await;
}

#[tokio::test]
async fn a_request_that_outlasts_the_grace_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    let addr = story.node.http_addr();
    let mut stalled = tokio::net::TcpStream::connect(addr).await.unwrap();
    // The body of the second request never arrives. The request itself has arrived when the first
    // is answered.
    let heads = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n\
                 POST /v1/id HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n";
    stalled.write_all(heads.as_bytes()).await.unwrap();
    let mut first = [0; 4096];
    let read = stalled.read(&mut first).await.unwrap();
    assert!(first[..read].starts_with(b"HTTP/1.1 200"));
    let began = Instant::now();
    story.node.stop().await;
    let grace = Duration::from_secs(5);
    assert!(began.elapsed() >= grace, "{:?}", began.elapsed());
    match stalled.read(&mut first).await {
        Ok(read) => assert_eq!(read, 0, "closed without an answer"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}
