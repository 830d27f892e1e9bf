//! A cluster ends, and another takes its place: from a snapshot, or from what one node still has.
//! Nothing that the old one gave out, before the backup or after it, is given out again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seqd_tests::binary::run;
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::http::Reply;
use seqd_tests::{http, wait};
use serde_json::{Value, json};

/// Every layout that can mint.
const LAYOUTS: [&str; 5] = ["default", "twitter", "leaf", "sonyflake", "js53"];

/// A short window, so that the new cluster mints soon.
const WINDOW: &str = "\"3s\"";

/// The window and four times the default skew, and time to start.
const MINTS: Duration = Duration::from_secs(45);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything that was given out, over all clusters.
#[derive(Default)]
struct Given {
    ids: BTreeMap<&'static str, BTreeSet<u64>>,
    tokens: BTreeSet<u64>,
    highest_token: u64,
    values: BTreeMap<&'static str, BTreeSet<i64>>,
}

impl Given {
    /// Mints with every layout on a node; none was minted before.
    #[track_caller]
    fn mint(&mut self, cluster: &Cluster, node: usize, count: usize) {
        for layout in LAYOUTS {
            let path = format!("/v1/ids?count={count}&layout={layout}");
            let reply = served(|| cluster.get(node, &path));
            let seen = self.ids.entry(layout).or_default();
            for id in reply.json()["ids"].as_array().unwrap() {
                let id = id.as_str().unwrap().parse().unwrap();
                assert!(seen.insert(id), "{layout}: {id} was minted twice");
            }
        }
    }

    /// Takes values of both sequences, and a token.
    #[track_caller]
    fn count(&mut self, cluster: &Cluster, node: usize) {
        for name in ["order", "bill"] {
            let path = format!("/v1/sequences/{name}/next?count=37");
            let reply = served(|| cluster.post(node, &path)).json();
            let ranges = reply["ranges"].as_array().unwrap();
            for range in ranges {
                let values = integer(&range["first"])..=integer(&range["last"]);
                self.values(name, values);
            }
        }
        let path = "/v1/sequences/order/segments?size=10";
        let granted = served(|| cluster.post(node, path)).json();
        self.values(
            "order",
            integer(&granted["first"])..=integer(&granted["last"]),
        );
        self.token(&granted["grant"]);
    }

    #[track_caller]
    fn values(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        let seen = self.values.entry(name).or_default();
        for value in values {
            assert!(seen.insert(value), "{name}: {value} was granted twice");
        }
    }

    #[track_caller]
    fn token(&mut self, token: &Value) {
        let token = token.as_str().unwrap().parse().unwrap();
        assert!(self.tokens.insert(token), "token {token} was granted twice");
        assert!(token > self.highest_token, "token {token} fell");
        self.highest_token = token;
    }

    /// The leases that are live on a node's view.
    fn leases(&mut self, cluster: &Cluster, node: usize) -> BTreeSet<u64> {
        let workers = cluster.get(node, "/v1/workers?limit=1000").json();
        let workers = workers["items"].as_array().unwrap().clone();
        let live = workers.iter().filter(|worker| worker["live"] == true);
        live.map(|worker| worker["lease"].as_str().unwrap().parse().unwrap())
            .collect()
    }

    /// The first value that was never granted.
    fn floor(&self, name: &str) -> i64 {
        self.values[name].last().unwrap() + 1
    }
}

/// What is answered once the node serves it.
#[track_caller]
fn served(ask: impl Fn() -> Reply) -> Reply {
    wait::until("an answer", MINTS, || {
        let reply = ask();
        assert!(reply.status == 200 || reply.retryable(), "{reply:?}");
        (reply.status == 200).then_some(reply)
    })
}

fn begun() -> (Cluster, Given) {
    let cluster = Cluster::planned(3).with("clock", "window", WINDOW).ready();
    cluster.create_sequence(0, "order", &json!({"mode": "segment"}));
    cluster.create_sequence(0, "bill", &json!({"mode": "strict"}));
    let mut given = Given::default();
    for node in 0..3 {
        given.mint(&cluster, node, 300);
        given.count(&cluster, node);
    }
    (cluster, given)
}

/// A backup of all that was acknowledged so far.
fn backup(cluster: &Cluster) -> PathBuf {
    let file = cluster.folder().join("backup.snap");
    let url = cluster.node(1).url();
    let saved = run(&["-e", &url, "snapshot", "save", &file.display().to_string()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    file
}

/// More work on the new cluster and on machines that join it.
fn goes_on(cluster: &mut Cluster, first: usize, joining: &[usize], given: &mut Given) {
    cluster.wait_ready_of(&[first], MINTS);
    given.mint(cluster, first, 2_000);
    given.count(cluster, first);
    let before = given.highest_token;
    let leases = given.leases(cluster, first);
    assert!(!leases.is_empty());
    for lease in leases {
        assert!(
            lease > before || given.tokens.insert(lease),
            "lease {lease} was a token before"
        );
    }
    for &at in joining {
        let node = cluster.node_mut(at);
        if node.data().exists() {
            std::fs::remove_dir_all(node.data()).unwrap();
        }
        node.start();
        cluster.add_member(at, first);
        cluster.promote(at, first);
        given.mint(cluster, at, 2_000);
        given.count(cluster, at);
    }
    let all: Vec<usize> = [&[first], joining].concat();
    cluster.wait_same_state(&all);
    for &node in &all {
        given.mint(cluster, node, 2_000);
        given.count(cluster, node);
    }
}

fn restore_line<'a>(file: &'a str, folder: &'a str, peer: &'a str, url: &'a str) -> Vec<&'a str> {
    let place = [
        "--data-dir",
        folder,
        "--name",
        "n1",
        "--peer",
        peer,
        "--http",
        url,
    ];
    [&["snapshot", "restore", file][..], &place].concat()
}

#[test]
fn nothing_is_given_out_again_after_a_restore() {
    let (mut cluster, mut given) = begun();
    let file = backup(&cluster).display().to_string();
    for node in 0..3 {
        given.mint(&cluster, node, 3_000);
        given.count(&cluster, node);
    }
    (0..3).for_each(|node| cluster.node_mut(node).kill());

    // The machine of n1 gets the new folder; the others have their old ones.
    let folder = cluster.folder().join("restored").display().to_string();
    let first = 0;
    let (peer, url) = (
        cluster.node(first).peer_address(),
        cluster.node(first).url(),
    );
    let line = restore_line(&file, &folder, &peer, &url);
    let silent = run(&[&line[..], &["--yes"]].concat());
    assert_eq!(silent.status.code(), Some(2), "{silent:?}");
    let said = text(&silent.stderr);
    assert!(
        said.contains("order: segment") && said.contains("--margin"),
        "{said}"
    );

    let floor = format!("order={}", given.floor("order"));
    let line = [&line[..], &["--floor", &floor, "--margin", "5000"]].concat();
    let unasked = run(&line);
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    let said = text(&unasked.stderr);
    for promise in [
        "not a guarantee",
        "superseded",
        "ago",
        "floor",
        "margin 5000",
    ] {
        let said = said.to_lowercase();
        assert!(said.contains(promise), "{promise} is missing: {said}");
    }
    assert!(!Path::new(&folder).join("identity").exists());
    let done = run(&[&line[..], &["--yes", "-o", "json"]].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        told["sequences"][1]["next_after"],
        given.floor("order").to_string()
    );
    let again = run(&[&line[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(6), "{again:?}");

    cluster.node_mut(first).set_data(Path::new(&folder));
    cluster.node_mut(first).start();
    let sequence = cluster.url(first, "/v1/sequences/invoice");
    let bare = wait::until("the new node to answer", READY, || {
        let ask = http::request("PUT", &sequence).json(&json!({"mode": "strict"}));
        let reply = ask.send().ok()?;
        (!reply.retryable()).then_some(reply)
    });
    bare.refused(400, "invalid-argument");
    for old in [1, 2] {
        for _ in 0..2 {
            cluster.node_mut(old).start();
            let status = cluster.node_mut(old).exit_within(READY);
            let node = cluster.node(old);
            assert_eq!(status.code(), Some(9), "{}", node.tail());
            assert!(
                node.last_line().contains("code=superseded"),
                "{}",
                node.tail()
            );
        }
    }
    goes_on(&mut cluster, first, &[1, 2], &mut given);
    let stated = json!({"mode": "strict", "start": 70});
    http::request("PUT", &sequence).json(&stated).reply().ok();
    assert_eq!(cluster.next(first, "invoice", 1), (70, 70));
}

#[test]
fn nothing_is_given_out_again_after_a_lost_majority_is_recovered() {
    let (mut cluster, mut given) = begun();
    for node in 0..3 {
        given.mint(&cluster, node, 3_000);
        given.count(&cluster, node);
    }
    (0..3).for_each(|node| cluster.node_mut(node).kill());
    for lost in [0, 1] {
        std::fs::remove_dir_all(cluster.node(lost).data()).unwrap();
    }

    let folder = cluster.node(2).data().display().to_string();
    let bill = format!("bill={}", given.floor("bill"));
    let floor = format!("order={}", given.floor("order"));
    let line = [
        "data",
        "recover-quorum",
        "--data-dir",
        &folder,
        "--floor",
        &floor,
        "--floor",
    ];
    let line = [&line[..], &[&bill]].concat();
    let dry = run(&[&line[..], &["--dry-run"]].concat());
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    let done = run(&[&line[..], &["--yes"]].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    let kept = std::fs::read_dir(&folder).unwrap().flatten();
    let kept: Vec<_> = kept
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().contains("before-"))
        .collect();
    assert!(kept.len() == 1 && kept[0].join("wal").is_dir(), "{kept:?}");

    cluster.node_mut(2).start();
    goes_on(&mut cluster, 2, &[0, 1], &mut given);
    let bill = &given.values["bill"];
    let first = *bill.first().unwrap();
    let whole = first..=*bill.last().unwrap();
    assert!(
        whole.eq(bill.iter().copied()),
        "a strict sequence has no gap at its floor"
    );
}
