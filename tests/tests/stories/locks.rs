//! Locks of real nodes: one holder at a time, in order, across killed nodes and clients.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use seqd_tests::binary;
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http::{Failure, Reply, post};
use seqd_tests::wait::until;
use serde_json::{Value, json};

/// Longer than any wait of these stories plus an election.
const PATIENCE: Duration = Duration::from_secs(60);

fn ask(cluster: &Cluster, node: usize, path: &str, body: &Value) -> Result<Reply, Failure> {
    let request = post(&cluster.url(node, &format!("/v1/locks/{path}")));
    request.json(body).patience(PATIENCE).send()
}

fn call(cluster: &Cluster, node: usize, path: &str, body: &Value) -> Reply {
    ask(cluster, node, path, body).expect("an answer")
}

fn acquire(cluster: &Cluster, node: usize, name: &str, body: &Value) -> Reply {
    call(cluster, node, &format!("{name}/acquire"), body)
}

fn hold(cluster: &Cluster, node: usize, name: &str, owner: &str) -> Value {
    let body = json!({"owner": owner, "ttl_ms": 60_000});
    acquire(cluster, node, name, &body).ok().json()
}

fn release(cluster: &Cluster, node: usize, held: &Value) -> Reply {
    let name = held["name"].as_str().expect("a name").replace('/', "%2F");
    let body = json!({"lease": held["lease"]});
    call(cluster, node, &format!("{name}/release"), &body)
}

fn token(held: &Value) -> i64 {
    integer(&held["token"])
}

fn lock(cluster: &Cluster, node: usize, name: &str) -> Value {
    cluster.get(node, &format!("/v1/locks/{name}")).ok().json()
}

fn wait_for_waiters(cluster: &Cluster, node: usize, name: &str, waiting: u64) {
    until("so many wait", PATIENCE, || {
        let found = lock(cluster, node, name)["waiting"].as_u64();
        (found == Some(waiting)).then_some(())
    });
}

#[test]
fn those_that_wait_at_three_nodes_are_served_in_the_order_in_which_they_came() {
    let cluster = Cluster::started(3);
    let first = hold(&cluster, 0, "jobs", "first");
    let served = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for place in 0..6_u64 {
            let (cluster, served) = (&cluster, &served);
            let node = (place as usize * 2) % 3;
            scope.spawn(move || {
                let body = json!({"owner": format!("w{place}"), "wait_ms": 60_000});
                let held = acquire(cluster, node, "jobs", &body).ok().json();
                let mut served = served.lock().expect("the list");
                served.push((place, token(&held)));
                release(cluster, (node + 1) % 3, &held).ok();
            });
            wait_for_waiters(cluster, 0, "jobs", place + 1);
        }
        release(&cluster, 1, &first).ok();
    });
    let served = served.into_inner().expect("the list");
    assert!(served.is_sorted() && served.len() == 6, "{served:?}");
    let tokens: Vec<i64> = served.iter().map(|(_, token)| *token).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn a_waiter_whose_client_is_killed_never_holds() {
    let cluster = Cluster::started(3);
    let first = hold(&cluster, 0, "jobs", "first");
    let endpoint = cluster.url(1, "");
    let line = [
        "-e", &endpoint, "lock", "acquire", "jobs", "--owner", "gone", "--wait", "1m",
    ];
    let mut client = binary::command(&line);
    let mut client = client.stdout(Stdio::null()).spawn().expect("a client");
    wait_for_waiters(&cluster, 2, "jobs", 1);
    client.kill().expect("it runs");
    client.wait().expect("it ran");
    wait_for_waiters(&cluster, 2, "jobs", 0);
    release(&cluster, 0, &first).ok();
    let next = hold(&cluster, 2, "jobs", "next");
    assert_eq!(token(&next), token(&first) + 1, "nobody held it in between");
}

/// Some clients end a body with an empty line.
#[test]
fn a_waiter_that_disconnects_after_empty_lines_leaves_the_queue() {
    let cluster = Cluster::started(1);
    hold(&cluster, 0, "jobs", "first");
    let body = json!({"owner": "gone", "wait_ms": 60_000}).to_string();
    let address = &cluster.addresses()[0];
    let head = format!(
        "POST /v1/locks/jobs/acquire HTTP/1.1\r\nhost: {address}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    for lines in ["\r\n", "\r\n\r\n"] {
        let mut client = TcpStream::connect(address).expect("a connection");
        let request = [&head, body.as_str(), lines].concat();
        client.write_all(request.as_bytes()).expect("it is read");
        wait_for_waiters(&cluster, 0, "jobs", 1);
        client.write_all(lines.as_bytes()).expect("it is read");
        drop(client);
        wait_for_waiters(&cluster, 0, "jobs", 0);
    }
}

#[test]
fn a_client_whose_node_is_killed_keeps_its_place_at_the_next() {
    let mut cluster = Cluster::started(3);
    let follower = cluster.follower();
    let other = (follower + 1) % 3;
    let first = hold(&cluster, other, "jobs", "first");
    let endpoints = [cluster.url(follower, ""), cluster.url(other, "")].join(",");
    let line = "lock acquire jobs --owner keeps --wait 1m -o json";
    let words: Vec<&str> = ["-e", &endpoints]
        .into_iter()
        .chain(line.split(' '))
        .collect();
    let client = binary::command(&words).stdout(Stdio::piped()).spawn();
    let client = client.expect("a client");
    wait_for_waiters(&cluster, other, "jobs", 1);
    cluster.node_mut(follower).kill();
    release(&cluster, other, &first).ok();
    let output = client.wait_with_output().expect("it ran");
    let held: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!(token(&held), token(&first) + 1, "{held}");
    assert_eq!(lock(&cluster, other, "jobs")["held"], 1);
}

#[test]
fn a_request_that_is_repeated_at_another_node_is_the_same_one() {
    let cluster = Cluster::started(3);
    let body = json!({"owner": "a", "nonce": "2f1c", "ttl_ms": 60_000});
    let held: BTreeSet<String> = (0..6)
        .map(|turn| acquire(&cluster, turn % 3, "jobs", &body).ok().json()["lease"].to_string())
        .collect();
    assert_eq!(held.len(), 1, "{held:?}");
    // A client that waited at a killed node keeps its place at another one.
    let mut cluster = cluster;
    let follower = cluster.follower();
    let others: Vec<usize> = (0..3).filter(|node| *node != follower).collect();
    let wait =
        |owner: &str| json!({"owner": owner, "nonce": "w", "wait_ms": 50_000, "ttl_ms": 60_000});
    thread::scope(|scope| {
        let lost = scope.spawn(|| ask(&cluster, follower, "jobs/acquire", &wait("first")));
        wait_for_waiters(&cluster, others[0], "jobs", 1);
        let later = scope.spawn(|| acquire(&cluster, others[1], "jobs", &wait("later")));
        wait_for_waiters(&cluster, others[0], "jobs", 2);
        cluster.node(follower).signal(Signal::KILL);
        assert!(lost.join().expect("a result").is_err());
        let again = scope.spawn(|| acquire(&cluster, others[0], "jobs", &wait("first")));
        let lease = held.first().expect("one").trim_matches('"');
        let held = json!({"name": "jobs", "lease": lease});
        release(&cluster, others[0], &held).ok();
        let first = again.join().expect("a result").ok().json();
        assert!(!later.is_finished());
        release(&cluster, others[1], &first).ok();
        let later = later.join().expect("a result").ok().json();
        assert_eq!(token(&later), token(&first) + 1);
    });
    cluster.node_mut(follower).kill();
}
