//! Stories of three nodes in one process, each with its own folder, sockets and wiring.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its story")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use seqd_node::{Layers, Node, OsClock, Ports};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Cluster {
    nodes: Vec<Node>,
    client: Client,
    _folders: Vec<TempDir>,
}

async fn start(window: &str) -> Cluster {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<_> = (0..3).map(|_| (bind(), bind())).collect();
    let peers = listeners.iter().enumerate();
    let peers = peers.map(|(at, (_, peer))| format!("n{}={}", at + 1, peer.local_addr().unwrap()));
    let peers = peers.collect::<Vec<_>>().join(",");
    let folders: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut nodes = Vec::new();
    for (at, (http_listener, peer_listener)) in listeners.into_iter().enumerate() {
        let flags = [
            ("node.name", format!("n{}", at + 1)),
            ("node.data_dir", folders[at].path().display().to_string()),
            (
                "http.listen",
                http_listener.local_addr().unwrap().to_string(),
            ),
            (
                "peer.listen",
                peer_listener.local_addr().unwrap().to_string(),
            ),
            ("peer.peers", peers.clone()),
            ("clock.window", window.to_owned()),
        ];
        let flags = flags.map(|(key, value)| (key.to_owned(), value));
        let resolved = Layers::default()
            .flags(flags)
            .unwrap()
            .resolve("localhost")
            .unwrap();
        let clock = Arc::new(OsClock);
        let ports = Ports {
            disk: Arc::new(seqd_disk::OsDisk),
            clock,
            http_listener: http_listener.into(),
            peer_listener: peer_listener.into(),
        };
        nodes.push(Node::start(resolved.config, ports).await.unwrap());
    }
    let cluster = Cluster {
        nodes,
        client: Client::new(),
        _folders: folders,
    };
    for node in 0..3 {
        cluster.wait_for(node, "/readyz", 200).await;
    }
    cluster
}

impl Cluster {
    async fn ask(
        &self,
        node: usize,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let url = format!("http://{}{path}", self.nodes[node].http_addr());
        let request = self
            .client
            .request(method, url)
            .header("accept", "application/json");
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn wait_for(&self, node: usize, path: &str, status: u16) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (found, body) = self.ask(node, Method::GET, path, None).await;
            if found == status {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{path} of node {node} is not {status}: {body}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn next(&self, node: usize, name: &str, count: u64) -> Vec<i64> {
        let path = format!("/v1/sequences/{name}/next?expand=1&count={count}");
        let (status, body) = self.ask(node, Method::POST, &path, None).await;
        assert_eq!(status, 200, "{body}");
        let values = body["values"].as_array().unwrap().iter();
        values
            .map(|value| value.as_str().unwrap().parse().unwrap())
            .collect()
    }

    async fn leader(&self, asked: usize) -> usize {
        let (_, cluster) = self.ask(asked, Method::GET, "/v1/cluster", None).await;
        let name = cluster["leader"].as_str().unwrap();
        self.nodes
            .iter()
            .position(|node| node.name() == name)
            .unwrap()
    }

    async fn stop(self) {
        for node in &self.nodes {
            node.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_answers_any_request_and_nothing_comes_twice() {
    let cluster = start("30s").await;
    let mut ids = BTreeSet::new();
    for node in 0..3 {
        let (_, body) = cluster
            .ask(node, Method::GET, "/v1/ids?count=1000", None)
            .await;
        for id in body["ids"].as_array().unwrap() {
            assert!(ids.insert(id.as_str().unwrap().to_owned()));
        }
    }
    let strict = Some(json!({"mode": "strict"}));
    assert_eq!(
        cluster
            .ask(1, Method::PUT, "/v1/sequences/strict", strict)
            .await
            .0,
        201
    );
    let mut last = 0;
    for round in 0..30 {
        for value in cluster.next(round % 3, "strict", 2).await {
            assert_eq!(value, last + 1, "in order in real time, without a gap");
            last = value;
        }
    }
    assert_eq!(
        cluster
            .ask(2, Method::PUT, "/v1/sequences/fast", None)
            .await
            .0,
        201
    );
    let mut values = BTreeSet::new();
    for round in 0..30 {
        for value in cluster.next(round % 3, "fast", 40).await {
            assert!(values.insert(value), "{value} twice");
        }
    }
    let forward = Some(json!({"to": "100000"}));
    let (status, advanced) = cluster
        .ask(0, Method::POST, "/v1/sequences/fast/advance", forward)
        .await;
    assert_eq!(
        (status, advanced["next"].as_str()),
        (200, Some("100000")),
        "{advanced}"
    );
    let confirmed = advanced["unconfirmed"].as_array().unwrap().is_empty();
    for node in 0..3 {
        let value = cluster.next(node, "fast", 1).await[0];
        assert!(value >= 100_000 || !confirmed, "{value} after {advanced}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_one_mints_until_its_window_ends_and_says_so() {
    let cluster = start("3s").await;
    let strict = Some(json!({"mode": "strict"}));
    cluster
        .ask(0, Method::PUT, "/v1/sequences/strict", strict)
        .await;
    let leader = cluster.leader(0).await;
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    let survivor = others[0];
    // Both at once: stopped one after the other, the first to go would hand over in peace.
    tokio::join!(
        cluster.nodes[leader].stop(),
        cluster.nodes[others[1]].stop()
    );
    let (status, _) = cluster.ask(survivor, Method::GET, "/v1/id", None).await;
    assert_eq!(status, 200);
    cluster.wait_for(survivor, "/readyz", 503).await;
    let (_, ready) = cluster
        .ask(survivor, Method::GET, "/readyz?verbose", None)
        .await;
    assert_eq!(ready["code"], "no-quorum", "{ready}");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let asked = Instant::now();
        let (status, body) = cluster.ask(survivor, Method::GET, "/v1/id", None).await;
        assert!(
            asked.elapsed() < Duration::from_millis(3500),
            "{:?}",
            asked.elapsed()
        );
        if status == 503 {
            assert_eq!(body["code"], "no-quorum", "{body}");
            break;
        }
        assert!(Instant::now() < deadline, "the window has to end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let asked = Instant::now();
    let (_, body) = cluster
        .ask(survivor, Method::POST, "/v1/sequences/strict/next", None)
        .await;
    assert_eq!(body["code"], "no-quorum", "{body}");
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    let (_, body) = cluster
        .ask(survivor, Method::GET, "/v1/sequences/strict", None)
        .await;
    assert_eq!(body["code"], "no-quorum", "{body}");
    let (status, _) = cluster
        .ask(survivor, Method::GET, "/v1/sequences/strict?stale=1", None)
        .await;
    assert_eq!(status, 200);
    cluster.nodes[survivor].stop().await;
}
