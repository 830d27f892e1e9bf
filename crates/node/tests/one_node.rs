//! Stories of one node through its own wiring: real sockets, a real folder, a clock set by hand.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its story")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, Response};
use seqd_idgen::{WallClock, WallMs};
use seqd_node::{Layers, Node, OsClock, Ports};
use serde_json::{Value, json};

/// The operating system's clock, off by a number of milliseconds.
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
    let http_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = [
        ("node.name", "n1".to_owned()),
        ("node.data_dir", folder.display().to_string()),
        (
            "http.listen",
            http_listener.local_addr().unwrap().to_string(),
        ),
        (
            "peer.listen",
            peer_listener.local_addr().unwrap().to_string(),
        ),
        ("segment.min", "100".to_owned()),
    ];
    let flags = flags.map(|(key, value)| (key.to_owned(), value));
    let resolved = Layers::default()
        .flags(flags)
        .unwrap()
        .resolve("localhost")
        .unwrap();
    let ports = Ports {
        clock: clock.clone(),
        disk: Arc::new(seqd_disk::OsDisk),
        http_listener: http_listener.into(),
        peer_listener: peer_listener.into(),
    };
    let node = Node::start(resolved.config, ports).await.unwrap();
    let url = format!("http://{}", node.http_addr());
    Story {
        node,
        url,
        client: Client::new(),
    }
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
async fn ids_come_as_text_and_as_json_from_any_form_of_asking() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    let response = story.get("/v1/id").await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("seqd-node"), "n1");
    assert_eq!(header("cache-control"), "no-store");
    assert!(!header("x-request-id").is_empty());
    let first: u64 = response.text().await.unwrap().trim_end().parse().unwrap();

    let (status, body) = story.json(Method::POST, "/v1/ids?count=5000", None).await;
    assert_eq!(
        (status, body["node"].as_str(), body["layout"].as_str()),
        (200, Some("n1"), Some("default"))
    );
    let ids = body["ids"].as_array().unwrap().iter();
    let ids: Vec<u64> = ids
        .map(|id| id.as_str().unwrap().parse().unwrap())
        .collect();
    assert!(first < ids[0] && ids.windows(2).all(|pair| pair[0] < pair[1]));

    let (_, parts) = story
        .json(Method::GET, &format!("/v1/ids/{first}"), None)
        .await;
    assert_eq!(
        (parts["id"].as_str(), parts["holder"]["node"].as_str()),
        (Some(&*first.to_string()), Some("n1"))
    );
    let hex = story
        .get("/v1/id?format=hex&pad=20&id_prefix=x-")
        .await
        .text()
        .await
        .unwrap();
    assert!(hex.starts_with("x-0000") && hex.len() == 23, "{hex}");
    let (_, small) = story
        .json(Method::GET, "/v1/ids?layout=js53&numeric=1", None)
        .await;
    assert!(small["ids"][0].is_u64(), "{small}");
    let uuids = story
        .get("/v1/uuids?count=100")
        .await
        .json::<Value>()
        .await
        .unwrap();
    let uuids: Vec<&str> = uuids["uuids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|uuid| uuid.as_str().unwrap())
        .collect();
    assert!(uuids.len() == 100 && uuids.is_sorted());
    story.node.stop().await;
}

/// Requests that are refused, each with the status and the code that it meets.
#[rustfmt::skip]
fn refused() -> Vec<(Method, &'static str, Option<Value>, u64, &'static str)> {
    vec![
        (Method::GET, "/v1/nothing", None, 404, "not-found"),
        (Method::GET, "/v1/ids?count=0", None, 400, "invalid-argument"),
        (Method::GET, "/v1/ids?count=10001", None, 400, "count-too-large"),
        (Method::GET, "/v1/ids?cuont=1", None, 400, "unknown-field"),
        (Method::GET, "/v1/id?count=1", None, 400, "unknown-field"),
        (Method::GET, "/v1/id?layout=nope", None, 404, "not-found"),
        (Method::GET, "/v1/id?pad=3", None, 400, "invalid-argument"),
        (Method::GET, "/v1/id?numeric=1", None, 400, "invalid-argument"),
        (Method::GET, "/v1/id?layout=uid-generator", None, 409, "layout-exhausted"),
        (Method::DELETE, "/v1/id", None, 405, "method-not-allowed"),
        (Method::POST, "/v1/sequences/none/next", None, 404, "not-found"),
        (Method::POST, "/v1/sequences/-x/next", None, 400, "invalid-argument"),
        (Method::PUT, "/v1/sequences/a", Some(json!({"mod": "strict"})), 400, "unknown-field"),
        (Method::PUT, "/v1/sequences/a", Some(json!({"increment": 0})), 400, "invalid-argument"),
        (Method::GET, "/v1/workers?limit=0", None, 400, "invalid-argument"),
        (Method::GET, "/problems/nope", None, 404, "not-found"),
        (Method::DELETE, "/v1/cluster/members/n9", None, 404, "not-found"),
        (Method::PATCH, "/v1/sequences/a", Some(json!({})), 405, "method-not-allowed"),
        (Method::POST, "/v1/locks/a/acquire", None, 404, "not-found"),
        (Method::GET, "/v1/id?timeout_ms=0", None, 400, "invalid-argument"),
        (Method::POST, "/v1/ids?count=1", Some(json!({"count": 1})), 400, "invalid-argument"),
    ]
}

#[tokio::test]
async fn refusals_are_problems_with_the_published_codes() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    for (method, path, body, status, code) in refused() {
        let response = story.send(method.clone(), path, body).await;
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json",
            "{path}"
        );
        assert!(response.headers().contains_key("x-request-id"));
        let problem: Value = response.json().await.unwrap();
        assert_eq!(
            (problem["status"].as_u64(), problem["code"].as_str()),
            (Some(status), Some(code)),
            "{method} {path}: {problem}"
        );
    }
    let head = story.send(Method::HEAD, "/v1/id", None).await;
    assert_eq!(
        (
            head.status().as_u16(),
            head.headers()["allow"].to_str().unwrap()
        ),
        (405, "GET, POST")
    );
    assert_eq!(story.send(Method::HEAD, "/livez", None).await.status(), 200);
    let missing = story
        .json(Method::POST, "/v1/sequences/none/next", None)
        .await
        .1;
    assert_eq!(missing["hint"], "seqd seq create none");
    story.node.stop().await;
}

#[tokio::test]
async fn sequences_of_both_modes_count_from_one() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    let strict = json!({"mode": "strict", "max": "100"});
    let path = "/v1/sequences/strict";
    assert_eq!(
        story.json(Method::PUT, path, Some(strict.clone())).await.0,
        201
    );
    assert_eq!(story.json(Method::PUT, path, Some(strict)).await.0, 200);
    let other = story
        .json(Method::PUT, path, Some(json!({"mode": "strict"})))
        .await;
    assert_eq!(
        (other.0, other.1["code"].as_str()),
        (409, Some("already-exists"))
    );
    assert_eq!(story.next("strict", 3).await, [1, 2, 3]);

    assert_eq!(
        story.json(Method::PUT, "/v1/sequences/fast", None).await.0,
        201
    );
    assert_eq!(
        story.next("fast", 250).await,
        (1..=250).collect::<Vec<i64>>()
    );
    let body = Some(json!({"to": "5000"}));
    let (status, advanced) = story
        .json(Method::POST, "/v1/sequences/fast/advance", body)
        .await;
    assert_eq!(
        (status, advanced["next"].as_str()),
        (200, Some("5000")),
        "{advanced}"
    );
    assert_eq!(story.next("fast", 1).await, [5000]);
    let back = story
        .json(
            Method::POST,
            "/v1/sequences/fast/advance",
            Some(json!({"to": 7})),
        )
        .await;
    assert_eq!(
        (back.0, back.1["code"].as_str()),
        (409, Some("would-go-backwards"))
    );

    let response = story.get(path).await;
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    let shown: Value = response.json().await.unwrap();
    assert_eq!(
        (shown["next"].as_str(), shown["remaining"].as_str()),
        (Some("4"), Some("97")),
        "{shown}"
    );
    let delete = |tag: String| {
        story
            .client
            .delete(format!("{}{path}", story.url))
            .header("if-match", tag)
            .send()
    };
    assert_eq!(delete("\"999\"".to_owned()).await.unwrap().status(), 412);
    assert_eq!(delete(etag).await.unwrap().status(), 200);
    assert_eq!(story.get(path).await.status(), 404);
    let list = story
        .get("/v1/sequences")
        .await
        .json::<Value>()
        .await
        .unwrap();
    assert_eq!(
        (
            list["items"][0]["name"].as_str(),
            list["items"].as_array().unwrap().len()
        ),
        (Some("fast"), 1)
    );
    story.node.stop().await;
}

#[tokio::test]
async fn a_clean_stop_gives_tails_and_workers_back() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    story.json(Method::PUT, "/v1/sequences/order", None).await;
    assert_eq!(story.next("order", 30).await.last(), Some(&30));
    let before: u64 = story
        .get("/v1/id")
        .await
        .text()
        .await
        .unwrap()
        .trim_end()
        .parse()
        .unwrap();
    story.node.stop().await;
    let story = start_ready(folder.path()).await;
    assert_eq!(story.next("order", 1).await, [31]);
    let after: u64 = story
        .get("/v1/id")
        .await
        .text()
        .await
        .unwrap()
        .trim_end()
        .parse()
        .unwrap();
    assert!(before < after);
    let workers = story
        .get("/v1/workers")
        .await
        .json::<Value>()
        .await
        .unwrap();
    assert_eq!(
        workers["items"].as_array().unwrap().len(),
        1,
        "the same worker again: {workers}"
    );
    story.node.stop().await;
}

#[tokio::test]
async fn a_start_behind_its_last_id_refuses_ids_and_serves_all_else() {
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
    story.get("/v1/ids?count=1000").await;
    story.node.stop().await;

    clock.shift(-10_000);
    let story = start(folder.path(), &clock).await;
    story.wait_for("/readyz?for=ids", 503).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    let problem = loop {
        let (status, problem) = story.json(Method::GET, "/v1/id", None).await;
        assert_eq!(status, 503, "{problem}");
        if problem["code"] == "clock-behind" {
            break problem;
        }
        assert!(Instant::now() < deadline, "{problem}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let behind = problem["behind_ms"].as_u64().unwrap();
    assert!(
        (8_000..=10_000).contains(&behind) && problem["until"].is_string(),
        "{problem}"
    );
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
async fn a_node_tells_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    story.get("/v1/id").await;
    let cluster = story
        .get("/v1/cluster")
        .await
        .json::<Value>()
        .await
        .unwrap();
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
    assert!(
        story
            .get("/v1/config")
            .await
            .text()
            .await
            .unwrap()
            .contains("--name")
    );
    let wrong = story
        .client
        .get(format!("{}/v1/id", story.url))
        .header("seqd-cluster", "other");
    assert_eq!(wrong.send().await.unwrap().status(), 421);
    story.node.stop().await;
}

#[tokio::test]
async fn a_request_that_outlasts_the_grace_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let story = start_ready(folder.path()).await;
    let mut stalled = TcpStream::connect(story.node.http_addr()).unwrap();
    // The body never comes.
    let head = "POST /v1/id HTTP/1.1\r\nhost: n1\r\ncontent-length: 2\r\n\r\n";
    stalled.write_all(head.as_bytes()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    story.node.stop().await;
    stalled
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    match stalled.read(&mut [0; 64]) {
        Ok(read) => assert_eq!(read, 0, "closed without an answer"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}
