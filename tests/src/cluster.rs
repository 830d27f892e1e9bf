//! A cluster of real processes in a temporary folder. Dropping it ends the processes and removes
//! the folder.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::damage::row;
use crate::http::{self, Reply};
use crate::links::Links;
use crate::loop_disk::{FileSystem, LoopDisk};
use crate::node::Node;
use crate::permits::{self, Permit};
use crate::wait;
use crate::workload::{Load, Route};

/// Election timeouts of a cluster that must not lose its leader.
const PATIENT: &str = "[\"2s\", \"4s\"]";

/// The time limit from the start of the last process until every node is ready: an election, a
/// worker lease and, on a loaded two-core machine with a debug build, much waiting for the
/// processor.
pub const READY: Duration = Duration::from_secs(30);

/// A text in a record, by which a test finds the record's bytes in a file.
pub const MARK: &str = "a-description-that-the-story-finds-again";

#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: processes, their links and disks, their folder, the right to run.
    nodes: Vec<Node>,
    links: Option<Links>,
    disks: Vec<LoopDisk>,
    folder: TempDir,
    _permit: Permit,
}

impl Cluster {
    /// Nodes `n1` to `nN` that list each other as founders; none is started.
    pub fn planned(count: usize) -> Self {
        Self::prepared(count, None)
    }

    /// Nodes `n1` to `nN`, each alone on a host, and further hosts for nodes that are added; none
    /// is started. Panics if such a network is unavailable (see [`crate::links::unavailable`]).
    pub fn on_links(count: usize, further: usize) -> Self {
        Self::prepared(count, Some(Links::new(count + further)))
    }

    fn prepared(count: usize, links: Option<Links>) -> Self {
        let permit = permits::acquire();
        let folder = tempfile::Builder::new()
            .prefix("seqd-test.")
            .tempdir()
            .expect("a folder");
        let nodes = (0..count)
            .map(|index| new_node(folder.path(), &format!("n{}", index + 1), &links, index))
            .collect();
        let mut cluster = Self {
            nodes,
            links,
            disks: Vec::new(),
            folder,
            _permit: permit,
        };
        let peers = cluster.peers();
        cluster
            .nodes
            .iter_mut()
            .for_each(|node| node.set_peers(&peers));
        cluster
    }

    pub fn started(count: usize) -> Self {
        Self::planned(count).ready()
    }

    #[must_use]
    pub fn ready(mut self) -> Self {
        self.start_all();
        self.wait_ready();
        self
    }

    /// Gives every node a disk of its own, which contains its data folder.
    #[must_use]
    pub fn on_disks(mut self, kind: FileSystem, bytes: u64) -> Self {
        for index in 0..self.nodes.len() {
            self = self.on_disk(index, kind, bytes);
        }
        self
    }

    /// Gives one node a disk of its own.
    #[must_use]
    pub fn on_disk(mut self, index: usize, kind: FileSystem, bytes: u64) -> Self {
        let node = &mut self.nodes[index];
        let disk = LoopDisk::create(kind, bytes, self.folder.path(), node.name());
        node.set_data(&disk.path().join("data"));
        self.disks.push(disk);
        self
    }

    /// The disk of a node that has its own.
    pub fn disk_mut(&mut self, index: usize) -> &mut LoopDisk {
        let data = self.nodes[index].data();
        let mut disks = self.disks.iter_mut();
        disks
            .find(|disk| data.starts_with(disk.path()))
            .expect("a node with a disk of its own")
    }

    /// `NAME=HOST:PORT` of each node.
    pub fn peers(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|n| format!("{}={}", n.name(), n.peer_address()))
            .collect()
    }

    /// Adds a node that is not a founder: it is not among the peers of the others and is not
    /// started.
    pub fn add_stranger(&mut self, name: &str) -> usize {
        let index = self.nodes.len();
        let mut node = new_node(self.folder.path(), name, &self.links, index);
        node.set_peers(&self.peers());
        self.nodes.push(node);
        index
    }

    /// Starts a node that is not a member, and waits until it prints the command that adds it.
    pub fn start_stranger(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let (before, command) = (node.stderr().len(), format!("member add {}", node.name()));
        node.start();
        wait::until("the command that adds the node", READY, || {
            let text = node.stderr();
            text[before..].contains(&command).then_some(())
        });
    }

    #[must_use]
    pub fn with(mut self, section: &str, key: &str, value: &str) -> Self {
        self.nodes
            .iter_mut()
            .for_each(|node| node.set(section, key, value));
        self
    }

    /// Makes elections so late that no pause of a busy machine causes one, for stories that must
    /// not lose a leader.
    pub fn patient(self) -> Self {
        self.with("raft", "election", PATIENT)
    }

    /// The links of a cluster that has some.
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("a cluster on links")
    }

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Node::url).collect()
    }

    /// `HOST:PORT` of a node's clients' port.
    pub fn address(&self, index: usize) -> String {
        self.nodes[index].http_address().to_owned()
    }

    pub fn addresses(&self) -> Vec<String> {
        (0..self.size()).map(|index| self.address(index)).collect()
    }

    /// The addresses of all nodes, the leader's first.
    pub fn leader_first(&self) -> Vec<String> {
        let mut addresses = self.addresses();
        addresses.rotate_left(self.leader());
        addresses
    }

    pub fn load(&self, clients: usize, route: Route, count: u64, pause_ms: u64) -> Load {
        Load {
            urls: self.urls(),
            clients,
            route,
            count,
            pause: Duration::from_millis(pause_ms),
            token: None,
        }
    }

    pub fn start_all(&mut self) {
        self.nodes.iter_mut().for_each(Node::start);
    }

    pub fn wait_ready(&self) {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.wait_ready_of(&all, READY);
    }

    /// Waits until these nodes are ready. Returns how long that took.
    pub fn wait_ready_of(&self, indices: &[usize], deadline: Duration) -> Duration {
        let begin = Instant::now();
        for &index in indices {
            let node = &self.nodes[index];
            let left = deadline.saturating_sub(begin.elapsed());
            let ready = wait::within(left, || node.is_ready().then_some(()));
            if ready.is_none() {
                let readiness = http::get(&format!("{}/readyz?verbose", node.url())).send();
                panic!(
                    "{} is not ready within {deadline:?}: {readiness:?}",
                    node.name()
                );
            }
        }
        begin.elapsed()
    }

    /// GET of a path at a node, which must answer.
    #[track_caller]
    pub fn get(&self, index: usize, path: &str) -> Reply {
        http::get(&self.url(index, path)).reply()
    }

    /// POST without a body to a node, which must answer.
    #[track_caller]
    pub fn post(&self, index: usize, path: &str) -> Reply {
        http::post(&self.url(index, path)).reply()
    }

    pub fn url(&self, index: usize, path: &str) -> String {
        format!("{}{path}", self.nodes[index].url())
    }

    #[track_caller]
    pub fn create_sequence(&self, index: usize, name: &str, definition: &Value) {
        let url = self.url(index, &format!("/v1/sequences/{name}"));
        http::request("PUT", &url).json(definition).reply().ok();
    }

    /// Creates the strict sequence `order`.
    #[must_use]
    pub fn with_order(self) -> Self {
        self.create_sequence(0, "order", &json!({"mode": "strict"}));
        self
    }

    /// Takes the next values of a sequence through a node; returns the first and the last.
    #[track_caller]
    pub fn next(&self, index: usize, name: &str, count: u64) -> (i64, i64) {
        let reply = self
            .post(index, &format!("/v1/sequences/{name}/next?count={count}"))
            .ok();
        let body = reply.json();
        (integer(&body["first"]), integer(&body["last"]))
    }

    /// The names of all sequences in a node's own state.
    pub fn sequence_names(&self, index: usize) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/sequences?stale=1&limit=1000{cursor}");
            let page = self.get(index, &path).ok().json();
            let items = page["items"].as_array().expect("a page");
            let name = |item: &Value| item["name"].as_str().expect("a name").to_owned();
            names.extend(items.iter().map(name));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return names,
            }
        }
    }

    /// A metric without labels.
    #[track_caller]
    pub fn metric(&self, index: usize, name: &str) -> f64 {
        let metrics = self.get(index, "/metrics").ok().body;
        let mut values = metrics.lines().filter_map(|line| line.split_once(' '));
        let value = values.find(|(key, _)| *key == name);
        let value = value.unwrap_or_else(|| panic!("no {name} in {metrics}")).1;
        value.parse().expect("a number")
    }

    /// Starts a node whose folder was damaged. It must serve, and report the damage in the words of
    /// the entry of this name in [`crate::damage::DOCUMENT`].
    #[track_caller]
    pub fn start_repaired(&mut self, index: usize, damage: &str) {
        let before = self.nodes[index].stderr().len();
        self.nodes[index].start();
        self.wait_ready();
        row(damage).assert_repaired(&self.nodes[index].stderr()[before..]);
    }

    /// Creates the strict sequence `order`, described by [`MARK`], and takes its values 1 to 10.
    #[must_use]
    pub fn with_a_record(self) -> Self {
        self.create_sequence(0, "order", &json!({"mode": "strict", "description": MARK}));
        assert_eq!(self.next(0, "order", 10), (1, 10));
        self
    }

    /// Removes a member whose folder is refused and adds its machine again as a new member.
    pub fn replace_member(&mut self, index: usize, asked: usize) {
        let name = self.nodes[index].name();
        let member = self.url(asked, &format!("/v1/cluster/members/{name}"));
        http::request("DELETE", &member).reply().ok();
        std::fs::remove_dir_all(self.nodes[index].data()).expect("the folder of a stopped node");
        self.nodes[index].start();
        self.add_member(index, asked);
        self.promote(index, asked);
    }

    /// Adds a started node as a learner, as soon as it waits for that.
    pub fn add_member(&self, index: usize, asked: usize) {
        let node = &self.nodes[index];
        let new = json!({"name": node.name(), "peer": node.peer_address(), "http": node.url()});
        let members = self.url(asked, "/v1/cluster/members");
        let mut may_be_added = false;
        wait::until("the node is added", READY, || {
            let reply = http::post(&members).json(&new).reply();
            let is_member = may_be_added && reply.code() == "already-exists";
            // A request that timed out may be carried out later.
            may_be_added |= reply.status >= 500;
            (reply.status < 300 || is_member).then_some(())
        });
    }

    /// Makes a learner a voter, as soon as it is ready.
    pub fn promote(&self, index: usize, asked: usize) {
        self.wait_ready_of(&[index], READY);
        let name = self.nodes[index].name();
        let promote = self.url(asked, &format!("/v1/cluster/members/{name}/promote"));
        wait::until("the learner votes", READY, || {
            let reply = http::post(&promote).reply();
            assert!(reply.status == 200 || reply.retryable(), "{reply:?}");
            (reply.status == 200).then_some(())
        });
    }

    /// The index of the leader that at least one running node names; waits for one.
    pub fn leader(&self) -> usize {
        wait::until("a leader that says so itself", READY, || {
            self.leader_claims()
        })
    }

    /// The index of the node that names itself as the leader, if there is one. Of several, the
    /// leader of the latest term, since a node that was cut off or stopped may have no record of
    /// its successor.
    pub fn leader_claims(&self) -> Option<usize> {
        let claims = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let view = node.cluster_view()?;
            (view["leader"].as_str()? == node.name()).then_some((view["term"].as_u64()?, index))
        });
        claims.max().map(|(_, index)| index)
    }

    /// A member in the view of the node `by`.
    pub fn member(&self, by: usize, index: usize) -> Option<Value> {
        let name = self.nodes[index].name();
        let view = self.nodes[by].cluster_view()?;
        let mut members = view["members"].as_array()?.iter();
        members.find(|member| member["name"] == name).cloned()
    }

    /// The highest term of the running nodes.
    pub fn term(&self) -> u64 {
        let term = |node: &Node| node.cluster_view()?["term"].as_u64();
        self.nodes.iter().filter_map(term).max().unwrap_or_default()
    }

    pub fn follower(&self) -> usize {
        let leader = self.leader();
        (0..self.nodes.len())
            .find(|&i| i != leader && self.nodes[i].cluster_view().is_some())
            .expect("a node beside the leader")
    }

    /// Waits until these nodes have applied the same entries and show the same digest.
    pub fn wait_same_state(&self, indices: &[usize]) {
        wait::until("all nodes at the same applied entry", READY, || {
            let mut seen = Vec::new();
            for &index in indices {
                let view = self.nodes[index].cluster_view()?;
                seen.push((
                    view["applied"].as_u64()?,
                    view["digest"].as_str()?.to_owned(),
                ));
            }
            for (applied, digest) in &seen {
                for (other, theirs) in &seen {
                    assert!(
                        applied != other || digest == theirs,
                        "states differ: {seen:?}"
                    );
                }
            }
            seen.iter().all(|one| one == &seen[0]).then_some(())
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                eprintln!("{}", node.tail());
            }
            if std::env::var_os("SEQD_TEST_KEEP").is_some() {
                self.folder.disable_cleanup(true);
                eprintln!("kept: {}", self.folder.path().display());
            }
        }
    }
}

/// A node with this index in the cluster, on the host with the same index if there are links.
fn new_node(root: &Path, name: &str, links: &Option<Links>, index: usize) -> Node {
    match links {
        None => Node::new(root, name),
        Some(links) => Node::on_host(root, name, links, index),
    }
}

/// An integer that JSON carries as a string or a number.
#[track_caller]
pub fn integer(value: &Value) -> i64 {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    text.parse()
        .unwrap_or_else(|_| panic!("{value} is no integer"))
}
