//! A cluster is restored from a backup, then another is recovered from one folder of three, each
//! with work after the backup: of millions of further IDs on every layout none repeats, tokens
//! rise, and sequences go on behind their floors.

use std::time::{Duration, Instant};

use seqd_tests::binary::run;
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::http::{self, Reply};
use seqd_tests::wait;
use serde_json::{Value, json};

/// Every layout that can mint, and what one worker of it makes in a second.
const LAYOUTS: [(&str, u64); 5] = [
    ("default", 4_096_000),
    ("twitter", 4_096_000),
    ("leaf", 4_096_000),
    ("sonyflake", 25_600),
    ("js53", 128_000),
];

/// IDs in one request, for a layout that makes so many in less than a second.
const BATCH: u64 = 10_000;

/// From a start to an answer, the wait for the new windows included.
const SERVED: Duration = Duration::from_secs(60);

/// What each node mints on each layout, once before the backup and once after it.
const BEFORE: u64 = 20_000;

struct Given {
    /// One list for each layout, in no order.
    ids: Vec<Vec<u64>>,
    highest_token: u64,
    highest_value: i64,
}

pub(crate) fn takeovers(ids: u64) -> Result<(), Violation> {
    for restores in [true, false] {
        let what = if restores {
            "restore"
        } else {
            "recover-quorum"
        };
        println!("{what}: {ids} further IDs on each layout");
        let begin = Instant::now();
        one_takeover(restores, ids)?;
        println!(
            "{what}: nothing repeats, {:.0} s\n",
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn one_takeover(restores: bool, ids: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::planned(3)
        .with("clock", "window", "\"3s\"")
        .ready();
    cluster.create_sequence(0, "order", &json!({"mode": "segment"}));
    let mut given = Given {
        ids: vec![Vec::new(); LAYOUTS.len()],
        highest_token: 0,
        highest_value: 0,
    };
    work(&cluster, &mut given)?;
    let file = cluster.folder().join("backup.snap").display().to_string();
    let url = cluster.node(1).url();
    succeeds(&["-e", &url, "snapshot", "save", &file]);
    work(&cluster, &mut given)?;
    (0..3).for_each(|node| cluster.node_mut(node).kill());

    let begin = Instant::now();
    let nodes = take_over(&mut cluster, restores, &file, given.highest_value + 1);
    cluster.node_mut(nodes[0]).start();
    served(|| http::get(&cluster.url(nodes[0], "/v1/id")).send().ok());
    println!(
        "  the first ID after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    for node in &nodes[1..] {
        join(&mut cluster, nodes[0], *node);
    }
    for node in nodes {
        values(&cluster, node, &mut given)?;
    }
    for (at, (layout, rate)) in LAYOUTS.into_iter().enumerate() {
        let begin = Instant::now();
        let before = given.ids[at].len();
        let batch = BATCH.min(rate / 4);
        let new = mint(&cluster, &nodes, layout, ids, batch);
        let count = new.len();
        given.ids[at].extend(new);
        unique(layout, &mut given.ids[at])?;
        println!(
            "  {layout:<10} {count:>9} IDs in {:>5.1} s, count={batch}; none repeats, nor any of \
             the {before} before",
            begin.elapsed().as_secs_f64()
        );
        given.ids[at] = Vec::new();
    }
    Ok(())
}

/// The new cluster's folder, and its nodes, the one with the folder first; none is started.
fn take_over(cluster: &mut Cluster, restores: bool, file: &str, floor: i64) -> [usize; 3] {
    let floor = format!("order={floor}");
    if restores {
        let nodes = ["r1", "r2", "r3"].map(|name| cluster.add_stranger(name));
        let (peer, url) = (cluster.node(3).peer_address(), cluster.node(3).url());
        let folder = cluster.node(3).data().display().to_string();
        succeeds(&[
            "snapshot",
            "restore",
            file,
            "--data-dir",
            &folder,
            "--name",
            "r1",
            "--peer",
            &peer,
            "--http",
            &url,
            "--floor",
            &floor,
            "--yes",
        ]);
        for node in nodes {
            cluster.node_mut(node).set_peers(&[format!("r1={peer}")]);
        }
        nodes
    } else {
        for lost in [1, 2] {
            std::fs::remove_dir_all(cluster.node(lost).data()).expect("the folder goes");
        }
        let folder = cluster.node(0).data().display().to_string();
        let line = [
            "data",
            "recover-quorum",
            "--data-dir",
            &folder,
            "--floor",
            &floor,
            "--yes",
        ];
        succeeds(&line);
        [0, 1, 2]
    }
}

/// IDs of every layout and values from every node.
fn work(cluster: &Cluster, given: &mut Given) -> Result<(), Violation> {
    for (at, (layout, _)) in LAYOUTS.into_iter().enumerate() {
        given.ids[at].extend(mint(cluster, &[0, 1, 2], layout, 3 * BEFORE, BATCH / 4));
    }
    (0..3).try_for_each(|node| values(cluster, node, given))
}

/// A grant of the sequence: its token and its values lie above all before.
fn values(cluster: &Cluster, node: usize, given: &mut Given) -> Result<(), Violation> {
    let url = cluster.url(node, "/v1/sequences/order/segments?size=1000");
    let grant = served(|| http::post(&url).send().ok()).json();
    let token = number(&grant["grant"]);
    let first = integer(&grant["first"]);
    if token <= given.highest_token || first <= given.highest_value {
        let before = (given.highest_token, given.highest_value);
        return Err(repeated(format!(
            "{grant} after token and value {before:?}"
        )));
    }
    (given.highest_token, given.highest_value) = (token, integer(&grant["last"]));
    Ok(())
}

/// `total` IDs, an equal share from each node, all at once.
fn mint(cluster: &Cluster, nodes: &[usize], layout: &str, total: u64, batch: u64) -> Vec<u64> {
    let share = total.div_ceil(nodes.len() as u64);
    std::thread::scope(|scope| {
        let minters: Vec<_> = nodes
            .iter()
            .map(|node| scope.spawn(|| share_of(&cluster.url(*node, ""), layout, share, batch)))
            .collect();
        let shares = minters.into_iter().flat_map(|m| m.join().expect("a share"));
        shares.collect()
    })
}

fn share_of(url: &str, layout: &str, share: u64, batch: u64) -> Vec<u64> {
    let mut ids = Vec::with_capacity(usize::try_from(share).unwrap_or(0));
    while (ids.len() as u64) < share {
        let count = batch.min(share - ids.len() as u64);
        let path = format!("{url}/v1/ids?layout={layout}&count={count}");
        let ask = || http::get(&path).header("accept", "text/plain").send().ok();
        let text = served(ask).body;
        ids.extend(text.lines().map(|line| line.parse::<u64>().expect("an ID")));
    }
    ids
}

fn unique(layout: &str, ids: &mut [u64]) -> Result<(), Violation> {
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(repeated(format!("{layout}: {} was minted twice", pair[0]))),
    }
}

fn repeated(detail: String) -> Violation {
    Violation::new("nothing is given out again", detail)
}

fn join(cluster: &mut Cluster, first: usize, at: usize) {
    cluster.node_mut(at).start();
    let node = cluster.node(at);
    let asks = format!("member add {}", node.name());
    wait::until("the machine to wait for its being added", READY, || {
        node.stderr().contains(&asks).then_some(())
    });
    let (name, endpoint) = (node.name(), cluster.node(first).url());
    let (peer, url) = (node.peer_address(), node.url());
    let add = [
        "-e", &endpoint, "member", "add", name, &peer, "--http", &url, "--wait",
    ];
    succeeds(&add);
    succeeds(&["-e", &endpoint, "member", "promote", name, "--wait"]);
}

fn served(ask: impl Fn() -> Option<Reply>) -> Reply {
    wait::until("an answer", SERVED, || {
        ask().filter(|reply| reply.status == 200)
    })
}

fn number(value: &Value) -> u64 {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a number as text")
}

fn succeeds(arguments: &[&str]) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}
