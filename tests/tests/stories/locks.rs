//! Locks of real nodes: one holder at a time, in order, over nodes and clients that are killed.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seqd_tests::binary;
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http::{Failure, Reply, post};
use seqd_tests::wait::until;
use serde_json::{Value, json};

/// Longer than any wait of these stories and an election.
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
fn a_lock_is_held_by_its_token_through_any_node_and_by_nobody_else() {
    let cluster = Cluster::started(3);
    let name = "jobs%2Fnightly%201";
    let held = hold(&cluster, 0, name, "pod-1");
    assert_eq!(held["name"], "jobs/nightly 1");
    let left = held["expires_in_ms"].as_u64().expect("a time");
    assert!((1..=60_000).contains(&left), "{held}");

    let other = json!({"owner": "pod-2"});
    let refused = acquire(&cluster, 1, name, &other).refused(409, "lock-held");
    let refused = refused.json();
    assert_eq!(
        (&refused["owner"], &refused["token"]),
        (&json!("pod-1"), &held["token"])
    );
    assert_eq!(refused["retryable"], true);
    assert!(
        refused["retry_after_ms"].as_u64() <= Some(60_000),
        "{refused}"
    );
    // The owner waits like any other client without its lease.
    acquire(&cluster, 2, name, &json!({"owner": "pod-1"})).refused(409, "lock-held");
    let again = json!({"lease": held["lease"], "ttl_ms": 90_000});
    let again = acquire(&cluster, 2, name, &again).ok().json();
    assert_eq!(again["token"], held["token"]);

    let verify = |body: &Value| call(&cluster, 2, &format!("{name}/verify"), body);
    assert_eq!(
        verify(&json!({"token": held["token"]})).ok().json()["owner"],
        "pod-1"
    );
    verify(&json!({"token": "1"})).refused(409, "lease-lost");
    verify(&json!({"token": held["token"], "owner": "pod-2"})).refused(409, "lease-lost");
    let renew = |lease: &Value| {
        let body = json!({"lease": lease, "ttl_ms": 80_000});
        call(&cluster, 1, &format!("{name}/renew"), &body)
    };
    renew(&held["token"]).refused(409, "lease-lost");
    let renewed = renew(&held["lease"]).ok().json();
    assert_eq!(renewed["expires_in_ms"], 80_000, "at least");
    let kept = lock(&cluster, 1, name)["holders"][0]["expires_in_ms"].as_u64();
    assert!(kept > Some(80_000), "never shorter: {kept:?}");

    let shown = lock(&cluster, 1, name);
    assert_eq!(
        (&shown["held"], &shown["holders"][0]["owner"]),
        (&json!(1), &json!("pod-1"))
    );
    let list = cluster.get(2, "/v1/locks?prefix=jobs/").ok().json();
    assert_eq!(list["items"][0]["name"], "jobs/nightly 1");
    assert!(cluster.metric(2, "seqd_locks_held") >= 1.0);

    release(&cluster, 2, &held).ok();
    release(&cluster, 2, &held).refused(409, "lease-lost");
    assert_eq!(lock(&cluster, 0, name)["held"], 0);
    assert!(token(&hold(&cluster, 1, name, "pod-2")) > token(&held));
    acquire(&cluster, 1, "x", &json!({"owner": "a", "ttl_ms": 99}))
        .refused(400, "invalid-argument");
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
fn a_hold_that_runs_out_goes_to_the_next_behind_its_delay() {
    let cluster = Cluster::started(3);
    let short = json!({"owner": "a", "ttl_ms": 300, "lock_delay_ms": 700});
    let began = Instant::now();
    let first = acquire(&cluster, 0, "jobs", &short).ok().json();
    let wait = json!({"owner": "b", "wait_ms": 30_000, "ttl_ms": 200});
    let second = acquire(&cluster, 1, "jobs", &wait).ok().json();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1_000), "{took:?}");
    assert!(token(&second) > token(&first));
    let renew = json!({"lease": first["lease"]});
    call(&cluster, 2, "jobs/renew", &renew).refused(409, "lease-lost");
    // Nobody waits for this one, and it ends all the same.
    until("the hold ends", PATIENCE, || {
        (lock(&cluster, 2, "jobs")["held"] == 0).then_some(())
    });
    // A wait that is too short is told who holds the lock.
    let held = hold(&cluster, 0, "jobs", "c");
    let brief = json!({"owner": "d", "wait_ms": 200});
    let refused = acquire(&cluster, 1, "jobs", &brief).refused(409, "lock-held");
    assert_eq!(refused.json()["token"], held["token"]);
    assert_eq!(lock(&cluster, 1, "jobs")["waiting"], 0);
}

#[test]
fn a_lock_has_its_permits_or_is_shared() {
    let cluster = Cluster::started(1);
    let two = |owner: &str| acquire(&cluster, 0, "two", &json!({"owner": owner, "permits": 2}));
    let (first, _second) = (two("a").ok().json(), two("b").ok().json());
    two("c").refused(409, "lock-held");
    acquire(&cluster, 0, "two", &json!({"owner": "d"})).refused(412, "precondition-failed");
    release(&cluster, 0, &first).ok();
    two("c").ok();

    let shared = |owner: &str| {
        acquire(
            &cluster,
            0,
            "docs",
            &json!({"owner": owner, "shared": true}),
        )
    };
    let readers = [shared("r1").ok().json(), shared("r2").ok().json()];
    acquire(&cluster, 0, "docs", &json!({"owner": "w"})).refused(409, "lock-held");
    readers
        .iter()
        .for_each(|held| drop(release(&cluster, 0, held).ok()));
    hold(&cluster, 0, "docs", "w");
    shared("r3").refused(409, "lock-held");
}

#[test]
fn a_request_that_is_repeated_at_another_node_is_the_same_one() {
    let cluster = Cluster::started(3);
    let body = json!({"owner": "a", "nonce": "2f1c", "ttl_ms": 60_000});
    let held: BTreeSet<String> = (0..6)
        .map(|turn| acquire(&cluster, turn % 3, "jobs", &body).ok().json()["lease"].to_string())
        .collect();
    assert_eq!(held.len(), 1, "{held:?}");
    // One that waited at a node that is killed keeps its place at another.
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

/// One turn of a client: its hold, with the times between which it counts itself as its holder.
fn turn(cluster: &Cluster, nodes: &[usize], client: usize, nonce: &str) -> (i64, Instant, Instant) {
    let owner = format!("client-{client}");
    let body = json!({"owner": owner, "nonce": nonce, "wait_ms": 50_000, "ttl_ms": 30_000});
    let held = nodes.iter().cycle().skip(client).find_map(|node| {
        let reply = ask(cluster, *node, "hot/acquire", &body).ok()?;
        if reply.status != 200 {
            thread::sleep(Duration::from_millis(20));
            return None;
        }
        Some(reply.json())
    });
    let held = held.expect("a node serves it");
    let from = Instant::now();
    thread::sleep(Duration::from_millis(3));
    let to = Instant::now();
    let is_over = |reply: Reply| reply.status == 200 || reply.code() == "lease-lost";
    let request = json!({"lease": held["lease"]});
    let released = nodes.iter().cycle().find(|node| {
        let reply = ask(cluster, **node, "hot/release", &request);
        reply.is_ok_and(is_over)
    });
    released.expect("a node serves it");
    (token(&held), from, to)
}

#[test]
fn nobody_holds_a_lock_beside_another_while_leaders_are_killed() {
    let mut cluster = Cluster::started(3);
    let victim = cluster.leader();
    let nodes: Vec<usize> = (0..3).filter(|node| *node != victim).collect();
    let turns = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..6 {
            let (cluster, turns, nodes) = (&cluster, &turns, &nodes);
            scope.spawn(move || {
                for number in 0..30 {
                    let turn = turn(cluster, nodes, client, &format!("{client}-{number}"));
                    turns.lock().expect("the list").push(turn);
                }
            });
        }
        until("some turns are over", PATIENCE, || {
            (turns.lock().expect("the list").len() >= 40).then_some(())
        });
        cluster.node(victim).signal(Signal::KILL);
    });
    cluster.node_mut(victim).kill();
    let mut turns = turns.into_inner().expect("the list");
    assert_eq!(turns.len(), 180);
    turns.sort_by_key(|(_, from, _)| *from);
    for pair in turns.windows(2) {
        let [(before, _, to), (after, from, _)] = pair else {
            continue;
        };
        assert!(
            before < after,
            "tokens {before} and {after} are out of order"
        );
        assert!(to <= from, "tokens {before} and {after} were held at once");
    }
}

#[test]
fn another_client_cannot_renew_or_release_a_hold_with_its_owner_and_token() {
    let cluster = Cluster::started(1);
    let held = hold(&cluster, 0, "jobs", "victim");
    let refused = acquire(&cluster, 0, "jobs", &json!({"owner": "thief"}));
    let refused = refused.refused(409, "lock-held");
    let shown = refused.json();
    assert_eq!(
        (&shown["owner"], &shown["token"]),
        (&held["owner"], &held["token"])
    );
    let lease = held["lease"].as_str().expect("a text");
    let public = [
        refused.body,
        cluster.get(0, "/v1/locks/jobs").ok().body,
        cluster.get(0, "/v1/locks").ok().body,
        cluster.get(0, "/metrics").ok().body,
    ];
    assert!(
        public.iter().all(|text| !text.contains(lease)),
        "a lease is shown"
    );

    let old = json!({"owner": shown["owner"], "token": shown["token"]});
    let guess = json!({"lease": shown["token"]});
    for verb in ["release", "renew"] {
        let path = format!("jobs/{verb}");
        call(&cluster, 0, &path, &old).refused(400, "unknown-field");
        call(&cluster, 0, &path, &guess).refused(409, "lease-lost");
    }
    assert_eq!(
        lock(&cluster, 0, "jobs")["held"],
        1,
        "a hold was taken over"
    );

    // An operator can, and sees the effect first.
    let url = cluster.url(0, "");
    let seqd = |line: &str| {
        let words: Vec<&str> = ["-e", url.as_str()]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        binary::run(&words)
    };
    let planned = seqd("lock break jobs --dry-run");
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");
    assert_eq!(
        seqd("lock break jobs").status.code(),
        Some(2),
        "without a terminal"
    );
    assert_eq!(
        seqd("lock break jobs --token 1 --yes").status.code(),
        Some(3)
    );
    assert_eq!(lock(&cluster, 0, "jobs")["held"], 1);
    assert_eq!(seqd("lock break jobs --yes").status.code(), Some(0));
    assert_eq!(seqd("lock break jobs --yes").status.code(), Some(3));
    release(&cluster, 0, &held).refused(409, "lease-lost");
}
