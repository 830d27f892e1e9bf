//! `seqd lock run` and `seqd elect run` run a command while a lock is held. No two commands run at
//! the same time, even if the process that holds the lock fails or its links to the nodes are cut.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use seqd_tests::binary::seqd;
use seqd_tests::cluster::Cluster;
use seqd_tests::links::{self, Condition, Pairs};
use seqd_tests::{http, skips, wait};
use serde_json::json;

const TTL: &str = "3s";

/// Longer than a hold, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command that records the times at which it runs, in milliseconds, until it is asked to end. It
/// runs for at least a minute, but not forever if a story fails.
const WORK: &str =
    "trap 'exit 3' TERM; for n in $(seq 1200); do date +%s%3N >> \"$0\"; sleep 0.05; done";

/// Like [`WORK`], but only SIGKILL ends it.
const STUBBORN: &str =
    "trap '' TERM; for n in $(seq 1200); do date +%s%3N >> \"$0\"; sleep 0.05; done";

/// The index of a host without a node.
const HOST: usize = 3;

struct Held {
    child: Child,
    notes: PathBuf,
}

impl Held {
    /// Requests the lock for [`WORK`].
    fn start(cluster: &Cluster, words: &[&str], name: &str) -> Held {
        let notes = cluster.folder().join(name);
        let child = command(cluster, words)
            .args(["--", "sh", "-c", WORK])
            .arg(&notes)
            .spawn()
            .unwrap();
        Held { child, notes }
    }

    /// Requests the lock for this work, through these nodes, on a separate host if one is given.
    fn start_at(
        cluster: &Cluster,
        (host, nodes): (Option<usize>, &[usize]),
        (lock, work): (&str, &str),
        name: &str,
    ) -> Held {
        let notes = cluster.folder().join(name);
        let mut words: Vec<String> = host.map_or(Vec::new(), |host| {
            cluster.links().launcher_of(host).to_vec()
        });
        words.push(seqd().display().to_string());
        let addresses = nodes.iter().map(|node| cluster.address(*node));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(["lock", "run", lock, "--ttl", TTL, "--", "sh", "-c", work])
            .arg(&notes)
            .env("SEQD_ENDPOINTS", addresses.collect::<Vec<_>>().join(","))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Held { child, notes }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

fn command(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(seqd());
    command
        .env("SEQD_ENDPOINTS", cluster.addresses().join(","))
        .args(words)
        .args(["--ttl", TTL])
        .stdin(Stdio::null());
    command
}

fn times(notes: &Path) -> Vec<u64> {
    let text = fs::read_to_string(notes).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn runs(held: &Held) {
    wait::until("the command runs", PATIENCE, || {
        (!times(&held.notes).is_empty()).then_some(())
    });
}

/// Asserts that the first command ended before the second one began. Returns the time between them
/// in milliseconds.
fn apart(first: &Held, second: &Held) -> u64 {
    let (last, next) = (times(&first.notes), times(&second.notes));
    let (last, next) = (*last.last().unwrap(), next[0]);
    assert!(last < next, "they ran at one time: {last} and {next}");
    next - last
}

#[test]
fn a_command_under_nohup_outlives_its_terminal() {
    let cluster = Cluster::started(1);
    let notes = cluster.folder().join("nohup");
    let child = Command::new("nohup")
        .arg(seqd())
        .args(["lock", "run", "report", "--ttl", TTL, "--"])
        .args(["sh", "-c", WORK])
        .arg(&notes)
        .env("SEQD_ENDPOINTS", cluster.address(0))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_raw(child.id() as i32).unwrap();
    let mut held = Held { child, notes };
    runs(&held);
    // A closed terminal sends SIGHUP to all processes of its session.
    kill_process_group(group, Signal::HUP).unwrap();
    let before = times(&held.notes).len();
    wait::until("the command continues", PATIENCE, || {
        (times(&held.notes).len() > before + 10).then_some(())
    });
    held.signal(Signal::TERM);
    assert_eq!(held.code(), Some(3));
}

#[test]
fn a_command_has_the_lock_and_its_exit_code_and_signals_are_passed_on() {
    let cluster = Cluster::started(1);
    let output = command(&cluster, &["lock", "run", "report"])
        .args([
            "--",
            "sh",
            "-c",
            "echo $SEQD_LOCK_NAME $SEQD_LOCK_TOKEN; exit 7",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[0], "report", "{output:?}");
    assert!(words[1].parse::<u64>().unwrap() > 0, "{output:?}");
    assert_eq!(output.status.code(), Some(7));
    let missing = command(&cluster, &["lock", "run", "report"])
        .args(["--", "no-such-program"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    let mut held = Held::start(&cluster, &["lock", "run", "report"], "signalled");
    runs(&held);
    let busy = command(&cluster, &["lock", "run", "report", "--wait", "0s"])
        .args(["--", "true"])
        .output()
        .unwrap();
    assert_eq!(busy.status.code(), Some(6), "{busy:?}");
    held.signal(Signal::TERM);
    assert_eq!(held.code(), Some(3), "the command ended by itself");
}

#[test]
fn a_holder_that_is_killed_or_stopped_leaves_no_command_to_the_next() {
    let cluster = Cluster::started(3);
    for (signal, name) in [(Signal::KILL, "killed"), (Signal::STOP, "stopped")] {
        let mut first = Held::start(&cluster, &["lock", "run", name], name);
        runs(&first);
        let next = format!("behind-{name}");
        let mut second = Held::start(&cluster, &["lock", "run", name], &next);
        first.signal(signal);
        runs(&second);
        println!("{name}: {} ms between the two", apart(&first, &second));
        if signal == Signal::STOP {
            first.signal(Signal::CONT);
            assert_eq!(first.code(), Some(6), "it lost the lock");
        } else {
            first.child.wait().unwrap();
        }
        second.signal(Signal::TERM);
        assert_eq!(second.code(), Some(3));
    }
}

#[test]
fn processes_left_by_a_command_end_before_the_next_command_begins() {
    let cluster = Cluster::started(1);
    for (name, end, code) in [("ended", "exit 0", 0), ("killed-itself", "kill -9 $$", 137)] {
        let work = format!("(trap '' INT; {WORK}) & sleep 0.3; {end}");
        let left = format!("(trap '' INT; {STUBBORN}) & sleep 0.3; {end}");
        for (number, work) in [work, left].iter().enumerate() {
            let name = format!("{name}-{number}");
            let at = (None, &[0][..]);
            let mut first = Held::start_at(&cluster, at, (&name, work), &name);
            runs(&first);
            let next = format!("behind-{name}");
            let mut second = Held::start_at(&cluster, at, (&name, WORK), &next);
            assert_eq!(first.code(), Some(code), "{name}");
            runs(&second);
            println!("{name}: {} ms between the two", apart(&first, &second));
            second.signal(Signal::TERM);
            assert_eq!(second.code(), Some(3));
            // Checked again, after the next one has ended too.
            apart(&first, &second);
        }
    }
}

#[test]
fn a_holder_that_reaches_no_node_ends_its_command_before_the_hold_ends() {
    let mut cluster = Cluster::started(3);
    let mut held = Held::start(&cluster, &["lock", "run", "alone"], "alone");
    runs(&held);
    for node in 0..3 {
        cluster.node_mut(node).kill();
    }
    let killed = *times(&held.notes).last().unwrap();
    assert_eq!(held.code(), Some(6), "the lock was lost");
    let last = *times(&held.notes).last().unwrap();
    assert!(last - killed < 3_000, "{} ms on", last - killed);
}

/// The place of a holder, and the fault of its links.
#[derive(Clone, Copy)]
enum Place {
    /// On a separate host, with this fault of these links.
    Host(Pairs, Condition),
    /// On the host of a node whose links are cut. The holder uses only this node.
    Follower,
    Leader,
}

/// The links of a holder that are cut, and how.
struct Cut {
    pairs: Pairs,
    condition: Condition,
    /// The host of the holder, if it has a separate one.
    host: Option<usize>,
    /// The nodes that the holder uses, and the nodes that the next holder uses.
    nodes: [Vec<usize>; 2],
    /// The node that must lead when the links are cut, if it matters.
    leader: Option<usize>,
}

/// A holder on a separate host that is cut off in each way, then a holder on the host of a node
/// that is cut off from the others: the name, the work and the place.
fn cases() -> [(&'static str, &'static str, Place); 6] {
    let all = [0, 1, 2];
    let both_ways = Pairs::between(&[HOST], &all);
    let (out, back) = (Pairs::one_way(&[HOST], &all), Pairs::one_way(&all, &[HOST]));
    [
        ("silent", WORK, Place::Host(both_ways, Condition::Cut)),
        ("reset", STUBBORN, Place::Host(both_ways, Condition::Reset)),
        ("requests-lost", STUBBORN, Place::Host(out, Condition::Cut)),
        ("answers-lost", WORK, Place::Host(back, Condition::Cut)),
        ("follower-cut-off", STUBBORN, Place::Follower),
        ("leader-cut-off", WORK, Place::Leader),
    ]
}

impl Cut {
    /// Depends on the current leader, because an earlier cut may have moved the leadership.
    fn of(place: Place, cluster: &Cluster) -> Cut {
        let leader = cluster.leader();
        let node = match place {
            Place::Host(pairs, condition) => {
                return Cut {
                    pairs,
                    condition,
                    host: Some(HOST),
                    nodes: [vec![0, 1, 2], vec![0, 1, 2]],
                    leader: None,
                };
            }
            Place::Follower => (leader + 1) % 3,
            Place::Leader => leader,
        };
        Cut {
            pairs: Pairs::around(&[node], 3),
            condition: Condition::Cut,
            host: None,
            nodes: [vec![node], (0..3).filter(|one| *one != node).collect()],
            leader: Some(leader),
        }
    }
}

/// Waits until this node leads. If another node was elected in the meantime, leadership is
/// transferred.
fn leads(cluster: &Cluster, leader: usize) {
    wait::until("the node leads", PATIENCE, || {
        if cluster.leader_claims() == Some(leader) {
            return Some(());
        }
        let body = json!({"node": cluster.node(leader).name()});
        let request = http::post(&cluster.url(leader, "/v1/cluster/leader")).json(&body);
        let _ = request.send();
        None
    });
}

#[test]
fn a_holder_that_is_cut_off_leaves_no_command_to_the_next() {
    if skips::ends("a holder that is cut off", links::unavailable()) {
        return;
    }
    let cluster = Cluster::on_links(3, 1).ready();
    for (name, work, place) in cases() {
        let cut = Cut::of(place, &cluster);
        let at = (cut.host, &cut.nodes[0][..]);
        let mut first = Held::start_at(&cluster, at, (name, work), name);
        runs(&first);
        let at = (None, &cut.nodes[1][..]);
        let mut second = Held::start_at(&cluster, at, (name, WORK), &format!("behind-{name}"));
        waits(&cluster, cut.nodes[1][0], name);
        if let Some(leader) = cut.leader {
            leads(&cluster, leader);
        }
        let fault = cluster.links().impose(cut.pairs, cut.condition);
        let begun = *times(&first.notes).last().unwrap();
        runs(&second);
        let apart = apart(&first, &second);
        let stopped = *times(&first.notes).last().unwrap() - begun;
        println!("{name}: stopped {stopped} ms after the cut, {apart} ms before the next");
        assert_eq!(first.code(), Some(6), "{name}: it lost the lock");
        if matches!(place, Place::Leader) {
            let next = || {
                cluster
                    .leader_claims()
                    .filter(|next| Some(*next) != cut.leader)
            };
            let next = wait::until("another node leads", PATIENCE, next);
            println!("{name}: node {next} leads after {:?}", cut.leader);
        }
        fault.heal();
        second.signal(Signal::TERM);
        assert_eq!(second.code(), Some(3), "{name}");
        cluster.wait_ready();
    }
}

/// Waits until a client waits for the lock.
fn waits(cluster: &Cluster, node: usize, lock: &str) {
    wait::until("the next one waits", PATIENCE, || {
        let shown = cluster.get(node, &format!("/v1/locks/{lock}")).ok().json();
        (shown["waiting"] == 1).then_some(())
    });
}

#[test]
fn one_of_three_is_elected_and_another_when_it_is_gone() {
    let cluster = Cluster::started(3);
    let words = ["elect", "run", "boss"];
    let mut all: Vec<Held> = (0..3)
        .map(|number| Held::start(&cluster, &words, &format!("boss-{number}")))
        .collect();
    let runs_now = |held: &Held| {
        let before = times(&held.notes).len();
        std::thread::sleep(Duration::from_millis(300));
        times(&held.notes).len() > before
    };
    let at = wait::until("one runs", PATIENCE, || all.iter().position(runs_now));
    let first = all.remove(at);
    assert!(!all.iter().any(runs_now), "two run");
    first.signal(Signal::KILL);
    wait::until("another runs", PATIENCE, || {
        all.iter().any(runs_now).then_some(())
    });
    let second = all
        .iter()
        .find(|held| !times(&held.notes).is_empty())
        .unwrap();
    apart(&first, second);
    let shown = Command::new(seqd())
        .env("SEQD_ENDPOINTS", cluster.addresses().join(","))
        .args(["elect", "show", "boss", "-o", "json"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&second.child.id().to_string()), "{shown}");
    for held in &mut all {
        held.signal(Signal::TERM);
        held.child.wait().unwrap();
    }
    let mut first = first;
    first.child.wait().unwrap();
}
