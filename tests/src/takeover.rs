//! A cluster that ends and the cluster that takes its place, with a record of the numbers that both
//! issued: no ID, token or value may be issued twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::binary::run;
use crate::checkers::Violation;
use crate::cluster::{Cluster, integer};
use crate::http::{self, Reply};
use crate::wait;

/// Every layout that can mint, and the largest number of IDs in one request: a quarter of the IDs
/// of one worker in a second, and at most 10,000.
const LAYOUTS: [(&str, u64); 5] = [
    ("default", 10_000),
    ("twitter", 10_000),
    ("leaf", 10_000),
    ("sonyflake", 6_400),
    ("js53", 10_000),
];

/// A short window, so that the new cluster mints soon.
const WINDOW: &str = "\"3s\"";

/// The window and four times the default skew, and time for the start.
const MINTS: Duration = Duration::from_secs(45);

/// IDs of each layout from a node that joins the new cluster.
const JOINED: u64 = 2_000;

#[derive(Debug)]
pub struct Takeover {
    pub cluster: Cluster,
    /// The IDs of each layout, unsorted.
    ids: [Vec<u64>; LAYOUTS.len()],
    tokens: BTreeSet<u64>,
    highest_token: u64,
    values: BTreeMap<&'static str, BTreeSet<i64>>,
}

impl Takeover {
    /// A cluster of three with the sequences `order` and `bill`. `ids` is as in [`Takeover::work`].
    pub fn begin(ids: u64) -> Self {
        let cluster = Cluster::planned(3).with("clock", "window", WINDOW).ready();
        cluster.create_sequence(0, "order", &json!({"mode": "segment"}));
        cluster.create_sequence(0, "bill", &json!({"mode": "strict"}));
        let mut takeover = Self {
            cluster,
            ids: Default::default(),
            tokens: BTreeSet::new(),
            highest_token: 0,
            values: BTreeMap::new(),
        };
        takeover.work(ids);
        takeover
    }

    /// Allocates `ids` IDs of each layout, values and a token from each of the three nodes.
    #[track_caller]
    pub fn work(&mut self, ids: u64) {
        self.mint(&[0, 1, 2], ids);
        (0..3).for_each(|node| self.count(node));
    }

    /// Saves a backup of everything acknowledged so far.
    pub fn backup(&self) -> String {
        let file = self.cluster.folder().join("backup.snap");
        let (file, url) = (file.display().to_string(), self.cluster.node(1).url());
        let saved = run(&["-e", &url, "snapshot", "save", &file]);
        assert!(saved.status.success(), "{saved:?}");
        file
    }

    pub fn kill_all(&mut self) {
        (0..3).for_each(|node| self.cluster.node_mut(node).kill());
    }

    /// The command that restores a backup into a folder as the first node.
    pub fn restore_line(&self, file: &str, folder: &str) -> Vec<String> {
        restore_line(&self.cluster, file, folder)
    }

    /// `--floor` with the first value of a sequence that was never granted.
    pub fn floor(&self, name: &str) -> [String; 2] {
        let floor = self.first_ungranted(name);
        ["--floor".to_owned(), format!("{name}={floor}")]
    }

    pub fn first_ungranted(&self, name: &str) -> i64 {
        self.values[name].last().expect("values were granted") + 1
    }

    /// Waits for the started first node of the new cluster, adds the others as new members, and
    /// mints `ids` IDs of each layout on all of them.
    pub fn go_on(&mut self, first: usize, joining: &[usize], ids: u64) -> Result<(), Violation> {
        let took = self.cluster.wait_ready_of(&[first], MINTS);
        println!("  the first node is ready after {took:.1?}");
        self.mint(&[first], JOINED);
        self.count(first);
        self.assert_new_leases(first);
        for &at in joining {
            let node = self.cluster.node_mut(at);
            if node.data().exists() {
                std::fs::remove_dir_all(node.data()).expect("the folder of a node that ended");
            }
            node.start();
            self.cluster.add_member(at, first);
            self.cluster.promote(at, first);
            self.mint(&[at], JOINED);
            self.count(at);
        }
        let all: Vec<usize> = [&[first], joining].concat();
        self.cluster.wait_same_state(&all);
        self.mint(&all, ids);
        all.iter().for_each(|&node| self.count(node));
        for ((layout, _), ids) in LAYOUTS.into_iter().zip(&mut self.ids) {
            ids.sort_unstable();
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
                let detail = format!("{layout}: {} was minted twice", pair[0]);
                return Err(Violation::new("nothing is given out again", detail));
            }
            println!("  {layout}: {} IDs, none repeats", ids.len());
        }
        Ok(())
    }

    /// All granted values of a strict sequence.
    pub fn values(&self, name: &str) -> &BTreeSet<i64> {
        &self.values[name]
    }

    /// Mints `ids` IDs of each layout on each of these nodes, on all of them at once.
    fn mint(&mut self, nodes: &[usize], ids: u64) {
        for (at, (layout, batch)) in LAYOUTS.into_iter().enumerate() {
            let (cluster, begin) = (&self.cluster, Instant::now());
            let minted: Vec<u64> = std::thread::scope(|scope| {
                let minters: Vec<_> = nodes
                    .iter()
                    .map(|&node| scope.spawn(move || mint_on(cluster, node, layout, ids, batch)))
                    .collect();
                let shares = minters.into_iter().flat_map(|m| m.join().expect("IDs"));
                shares.collect()
            });
            println!(
                "  {layout}: {} IDs in {:.1?}",
                minted.len(),
                begin.elapsed()
            );
            self.ids[at].extend(minted);
        }
    }

    /// Allocates values of both sequences, and a token.
    #[track_caller]
    fn count(&mut self, node: usize) {
        for name in ["order", "bill"] {
            let path = format!("/v1/sequences/{name}/next?count=37");
            let reply = served(|| self.cluster.post(node, &path)).json();
            for range in reply["ranges"].as_array().expect("ranges") {
                self.granted(name, range);
            }
        }
        let path = "/v1/sequences/order/segments?size=10";
        let grant = served(|| self.cluster.post(node, path)).json();
        self.granted("order", &grant);
        // The token is the upper half, above the code by which clients refer to the grant.
        let grant = grant["grant"].as_str().expect("a grant's name");
        let grant: u128 = grant.parse().expect("an integer of 128 bits");
        let token = u64::try_from(grant >> 64).expect("the upper half");
        assert!(self.tokens.insert(token), "token {token} was granted twice");
        assert!(token > self.highest_token, "token {token} fell");
        self.highest_token = token;
    }

    #[track_caller]
    fn granted(&mut self, name: &'static str, range: &Value) {
        let granted = self.values.entry(name).or_default();
        for value in integer(&range["first"])..=integer(&range["last"]) {
            assert!(granted.insert(value), "{name}: {value} was granted twice");
        }
    }

    /// Asserts that no live lease of the new cluster was a token of the old one.
    fn assert_new_leases(&mut self, node: usize) {
        let workers = self.cluster.get(node, "/v1/workers?limit=1000").json();
        let workers = workers["items"].as_array().expect("workers").iter();
        let live = workers.filter(|worker| worker["live"] == true);
        let leases: BTreeSet<u64> = live
            .map(|worker| integer(&worker["lease"]).cast_unsigned())
            .collect();
        assert!(!leases.is_empty());
        for lease in leases {
            assert!(
                lease > self.highest_token || self.tokens.insert(lease),
                "lease {lease} was a token before"
            );
        }
    }
}

/// The command that restores a backup into a folder as the first node of a cluster.
pub fn restore_line(cluster: &Cluster, file: &str, folder: &str) -> Vec<String> {
    let node = cluster.node(0);
    let line = [
        "snapshot",
        "restore",
        file,
        "--data-dir",
        folder,
        "--name",
        "n1",
    ];
    let more = ["--peer", &node.peer_address(), "--http", &node.url()];
    line.iter()
        .chain(&more)
        .map(|word| (*word).to_owned())
        .collect()
}

fn mint_on(cluster: &Cluster, node: usize, layout: &str, ids: u64, batch: u64) -> Vec<u64> {
    let mut minted = Vec::new();
    while (minted.len() as u64) < ids {
        let count = batch.min(ids - minted.len() as u64);
        let path = format!("/v1/ids?layout={layout}&count={count}");
        let url = cluster.url(node, &path);
        let reply = served(|| http::get(&url).header("accept", "text/plain").reply());
        let lines = reply.body.lines();
        minted.extend(lines.map(|line| line.parse::<u64>().expect("an ID")));
    }
    minted
}

/// Retries until the node serves the request, and returns the response.
#[track_caller]
fn served(ask: impl Fn() -> Reply) -> Reply {
    wait::until("an answer", MINTS, || {
        let reply = ask();
        assert!(reply.status == 200 || reply.retryable(), "{reply:?}");
        (reply.status == 200).then_some(reply)
    })
}
