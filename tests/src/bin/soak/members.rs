//! Changes of members under load, with TLS, access tokens, and clients that use every endpoint. Two
//! nodes are added, the leader is removed, and a dead node is replaced by a command that is killed
//! half-way. Then the cluster shrinks to one node and grows to three again.

use std::path::PathBuf;

use seqd_client::api::ErrorCode;
use seqd_tests::binary;
use seqd_tests::callers::{Caller, OPERATOR, require_tokens};
use seqd_tests::certificates::{Certificates, Secures as _, days};
use seqd_tests::checkers::{Violation, linearizable, lost, pauses, require, unique};
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::history::{At, Op, Outcome, Timeline, reasons, tally};
use seqd_tests::wait;
use seqd_tests::workload::{Load, Route, Workload};
use serde_json::Value;

/// Acknowledgements of each load before, between and after the steps.
const BETWEEN: usize = 100;

/// The founders, and the nodes that are added: two, the replacement, and two at the end.
const FOUNDERS: usize = 3;
const NODES: usize = 8;

/// A step with its beginning and its end.
struct Step {
    name: &'static str,
    from: At,
    to: At,
    /// True if a process was killed, so that requests in flight have an unknown outcome.
    kills: bool,
}

/// The name of a step, whether it kills a process, and the step.
type Planned = (&'static str, bool, fn(&mut Run));

struct Run {
    cluster: Cluster,
    cacert: PathBuf,
    token: PathBuf,
}

pub(crate) fn run() -> Result<(), Violation> {
    let mut run = Run::start();
    Caller::operator(&run.cluster).create_sequence("order");
    let timeline = Timeline::begin();
    let load = |run: &Run, pause_ms| Load {
        token: Some(OPERATOR.to_owned()),
        ..run.cluster.load(6, Route::Roaming, 1, pause_ms)
    };
    let ids = Workload::ids(load(&run, 5), timeline);
    let values = Workload::next(load(&run, 5), timeline, "order");
    let mut steps = Vec::new();
    let plan: [Planned; 5] = [
        ("two nodes are added", false, |run| {
            run.add(3);
            run.add(4);
        }),
        ("the leader is removed", false, Run::remove_leader),
        ("a dead node is replaced", true, Run::replace_dead),
        ("down to one node", false, Run::shrink),
        ("up to three nodes", false, |run| {
            run.add(6);
            run.add(7);
        }),
    ];
    for (name, kills, carry_out) in plan {
        ids.wait_for(BETWEEN, READY);
        values.wait_for(BETWEEN, READY);
        let from = timeline.at();
        carry_out(&mut run);
        values.wait_for(BETWEEN, READY);
        let to = timeline.at();
        steps.push(Step {
            name,
            from,
            to,
            kills,
        });
    }
    let (ids, values) = (ids.finish(), values.finish());
    let view = run.view().expect("a node that responds");
    require(
        view["quorum"]["reachable"] == 3,
        "three voters",
        view["quorum"].to_string(),
    )?;
    for step in &steps {
        let span = step.to.since(step.from);
        let (id_pause, _) = pauses::longest_of_all(&ids, step.from, step.to);
        let (value_pause, _) = pauses::longest_of_all(&values, step.from, step.to);
        println!(
            "{} ({span:.1?}): longest pause of IDs {id_pause:.0?}, of values {value_pause:.0?}",
            step.name
        );
    }
    println!("ids {:?} {:?}", tally(&ids), reasons(&ids));
    println!("values {:?} {:?}", tally(&values), reasons(&values));
    check_failures(&ids, &steps)?;
    check_failures(&values, &steps)?;
    let minted = unique::numbers(&ids)?;
    let count = linearizable::strict(&values)?;
    lost::strict(&values, 1, run.next())?;
    println!("{minted} IDs without a duplicate, {count} values without a duplicate or a loss");
    Ok(())
}

/// Every failed request was retryable, or its node was killed while it was in flight.
fn check_failures<T>(history: &[Op<T>], steps: &[Step]) -> Result<(), Violation> {
    let is_retryable = |code: &str| {
        let mut codes = ErrorCode::ALL.iter();
        code == "connection refused"
            || codes.any(|known| known.as_str() == code && known.row().retryable)
    };
    for op in history {
        let killed = || {
            let mut killing = steps.iter().filter(|step| step.kills);
            killing.any(|step| step.from <= op.back && op.call <= step.to)
        };
        let failed = match &op.outcome {
            Outcome::Ok(_) => continue,
            Outcome::Refused(code) if is_retryable(code) => continue,
            Outcome::Unknown(_) if killed() => continue,
            Outcome::Refused(why) | Outcome::Unknown(why) => why,
        };
        let detail = format!(
            "a request to node {} at {:?}: {failed}",
            op.node + 1,
            op.call
        );
        return Err(Violation::new("failures are retryable", detail));
    }
    Ok(())
}

impl Run {
    /// Starts the founders; the other nodes have certificates and are not started.
    fn start() -> Self {
        let mut cluster = Cluster::planned(FOUNDERS);
        for index in FOUNDERS..NODES {
            cluster.add_stranger(&format!("n{}", index + 1));
        }
        let certificates = Certificates::new(cluster.folder(), "certificates");
        certificates.secure(&mut cluster, days(365));
        let token = require_tokens(&mut cluster);
        let founders: Vec<usize> = (0..FOUNDERS).collect();
        for &index in &founders {
            cluster.node_mut(index).start();
        }
        cluster.wait_ready_of(&founders, READY);
        let cacert = certificates.ca();
        Self {
            cluster,
            cacert,
            token,
        }
    }

    /// The words of a command with every endpoint.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let shown = |path: &PathBuf| path.display().to_string();
        let endpoints = self.cluster.urls().join(",");
        let (cacert, token) = (shown(&self.cacert), shown(&self.token));
        let global = [
            "-e",
            &endpoints,
            "--cacert",
            &cacert,
            "--token-file",
            &token,
            "--yes",
        ];
        let words = global.iter().chain(words);
        words.map(|word| (*word).to_owned()).collect()
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let words = self.words(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        binary::command(&words)
    }

    fn done(&self, words: &[&str]) {
        let output = self.command(words).output().expect("seqd runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// The cluster in the view of the first node that responds.
    fn view(&self) -> Option<Value> {
        let mut command = self.command(&["status", "-o", "json"]);
        serde_json::from_slice(&command.output().ok()?.stdout).ok()
    }

    /// The index of the leader, and those of the other voters.
    fn voters(&self) -> (usize, Vec<usize>) {
        wait::until("a leader", READY, || {
            let view = self.view()?;
            let index = |name: &str| {
                (0..self.cluster.size()).find(|&index| self.cluster.node(index).name() == name)
            };
            let leader = index(view["leader"].as_str()?)?;
            let members = view["members"].as_array()?.iter();
            let voters = members.filter(|member| member["role"] != "learner");
            let voters = voters.filter_map(|member| index(member["name"].as_str()?));
            Some((leader, voters.filter(|&voter| voter != leader).collect()))
        })
    }

    fn name(&self, index: usize) -> String {
        self.cluster.node(index).name().to_owned()
    }

    fn add(&mut self, index: usize) {
        self.cluster.start_stranger(index);
        let (name, peer) = (self.name(index), self.cluster.node(index).peer_address());
        self.done(&["member", "add", &name, &peer, "--wait"]);
        self.done(&["member", "promote", &name, "--wait"]);
    }

    fn remove(&mut self, index: usize) {
        let name = self.name(index);
        self.done(&["member", "remove", &name, "--wait"]);
        let status = self.cluster.node_mut(index).exit_within(READY);
        assert_eq!(
            status.code(),
            Some(9),
            "{}",
            self.cluster.node(index).tail()
        );
    }

    fn remove_leader(&mut self) {
        let (leader, _) = self.voters();
        self.remove(leader);
    }

    /// A voter dies, and n6 replaces it. The command is killed after its first step.
    fn replace_dead(&mut self) {
        let (_, others) = self.voters();
        let (dead, new) = (others[0], 5);
        self.cluster.node_mut(dead).kill();
        self.cluster.start_stranger(new);
        let (old, peer) = (self.name(dead), self.cluster.node(new).peer_address());
        let replace = ["member", "replace", &old, "n6", &peer];
        let line = "n6 is added as a learner";
        assert!(binary::kill_at_line(self.command(&replace), line));
        self.done(&replace);
    }

    /// All voters except one are removed, and the leader is among them.
    fn shrink(&mut self) {
        let (leader, others) = self.voters();
        self.remove(leader);
        for &index in &others[1..] {
            self.remove(index);
        }
    }

    /// The next value of the sequence.
    fn next(&self) -> i64 {
        let mut command = self.command(&["seq", "next", "order", "-o", "json"]);
        let output = command.output().expect("seqd runs");
        let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        integer(&reply["first"])
    }
}
