//! The command line moves, demotes and replaces members. A replacement whose command is killed
//! half-way is completed by the same command.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use seqd_tests::binary;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::row;
use seqd_tests::wait;
use serde_json::json;

/// Runs a command with all nodes as its endpoints. Returns its exit code and its output.
fn run(cluster: &Cluster, words: &[&str]) -> (Option<i32>, String) {
    let endpoints = cluster.addresses().join(",");
    let words = [&["-e", &endpoints, "--timeout", "10s"], words].concat();
    let output = binary::command(&words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[track_caller]
fn done(cluster: &Cluster, words: &[&str]) -> String {
    let (code, text) = run(cluster, words);
    assert_eq!(code, Some(0), "{words:?}: {text}");
    text
}

#[track_caller]
fn refused(cluster: &Cluster, words: &[&str], code: i32, part: &str) {
    let (found, text) = run(cluster, words);
    assert_eq!(found, Some(code), "{words:?}: {text}");
    assert!(text.contains(part), "{words:?}: {text}");
}

/// Runs a command and kills it at this line, unless it ends before.
fn run_and_kill(cluster: &Cluster, words: &[&str], line: &str) {
    let endpoints = cluster.addresses().join(",");
    let words = [&["-e", &endpoints], words].concat();
    let is_killed = binary::kill_at_line(binary::command(&words), line);
    assert!(is_killed, "{words:?}: no {line:?}");
}

/// The members in the view of a node, with their roles; leader and follower are voters.
fn voters(cluster: &Cluster, by: usize) -> Vec<(String, bool)> {
    let view = cluster.get(by, "/v1/cluster").ok().json();
    let members = view["members"].as_array().unwrap().iter();
    let named = members.map(|member| {
        let name = member["name"].as_str().unwrap().to_owned();
        (name, member["role"] != "learner")
    });
    named.collect()
}

fn all_vote(names: &[&str]) -> Vec<(String, bool)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), true))
        .collect()
}

#[test]
fn a_member_moves_to_other_addresses_and_a_leader_is_demoted_and_promoted_again() {
    let mut cluster = Cluster::started(3).with_order();
    let n4 = cluster.add_stranger("n4");
    let peer = format!("{:?}", cluster.node(n4).peer_address());
    let node = cluster.node_mut(n4);
    node.set("peer", "advertise", &peer);
    cluster.start_stranger(n4);
    let peer = cluster.node(n4).peer_address();
    done(&cluster, &["member", "add", "n4", &peer, "--wait"]);
    let url = "http://balancer.example:7400";
    let text = done(
        &cluster,
        &["member", "update", "n4", "--http", url, "--wait"],
    );
    assert!(text.contains(&format!("-> {url}")), "{text}");
    assert_eq!(cluster.member(0, n4).unwrap()["http"], url);
    refused(
        &cluster,
        &["member", "update", "n4", "--peer", "127.0.0.1:1"],
        6,
        "does not respond",
    );

    // n4 is started at other ports, and its configuration replaces the recorded addresses.
    assert_eq!(cluster.node_mut(n4).stop().code(), Some(0));
    cluster.node_mut(n4).set_free_ports();
    let (peer, http) = (cluster.node(n4).peer_address(), cluster.node(n4).url());
    let quoted = format!("{peer:?}");
    cluster.node_mut(n4).set("peer", "advertise", &quoted);
    cluster.node_mut(n4).start();
    wait::until("the addresses of the configuration", READY, || {
        let seen = cluster.member(0, n4)?;
        (seen["peer"] == peer && seen["http"] == http && seen["state"] == "ready").then_some(())
    });
    assert_eq!(cluster.next(n4, "order", 1), (1, 1));

    let leader = cluster.leader();
    let name = cluster.node(leader).name().to_owned();
    let effect = format!(
        "makes {name} a learner; it leads and transfers leadership first: quorum 3/3 -> 2/2, can \
         lose 0 nodes"
    );
    refused(&cluster, &["member", "demote", &name], 2, &effect);
    done(&cluster, &["member", "demote", &name, "--yes", "--wait"]);
    assert_ne!(cluster.leader(), leader);
    // A learner still serves.
    assert_eq!(cluster.next(leader, "order", 1), (2, 2));
    done(&cluster, &["member", "promote", &name, "--wait"]);
    done(&cluster, &["member", "promote", "n4", "--wait"]);
    assert_eq!(voters(&cluster, n4), all_vote(&["n1", "n2", "n3", "n4"]));
    assert_eq!(cluster.next(n4, "order", 1), (3, 3));
}

#[test]
fn a_promotion_with_wait_waits_for_a_learner_that_does_not_respond() {
    let mut cluster = Cluster::started(3);
    let n4 = cluster.add_stranger("n4");
    cluster.node_mut(n4).start();
    cluster.add_member(n4, cluster.leader());
    cluster.wait_ready_of(&[n4], READY);
    cluster.node(n4).signal(Signal::STOP);
    wait::until("a learner that is silent", READY, || {
        let (_, text) = run(&cluster, &["member", "promote", "n4", "--dry-run"]);
        text.contains("learner-lagging").then_some(())
    });
    let endpoints = cluster.addresses()[..3].join(",");
    let promote = ["-e", &endpoints, "member", "promote", "n4", "--wait"];
    let mut command = binary::command(&promote);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut promotion = command.spawn().unwrap();
    let lines = BufReader::new(promotion.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains("it can be promoted after it responds")));
    cluster.node(n4).signal(Signal::CONT);
    let rest: Vec<String> = lines.collect();
    assert!(promotion.wait().unwrap().success(), "{rest:?}");
    assert_eq!(voters(&cluster, 0), all_vote(&["n1", "n2", "n3", "n4"]));
}

#[test]
fn a_dead_node_is_replaced_though_the_command_is_killed_twice() {
    let mut cluster = Cluster::started(3).with_order();
    assert_eq!(cluster.next(0, "order", 5), (1, 5));
    let n4 = cluster.add_stranger("n4");
    let peer = cluster.node(n4).peer_address();
    cluster.node_mut(0).kill();
    wait::until("a leader that lost n1", READY, || {
        let seen = cluster.member(cluster.leader_claims()?, 0)?;
        (seen["state"] == "unreachable").then_some(())
    });
    let replace = ["member", "replace", "n1", "n4", &peer, "--yes"];
    refused(&cluster, &replace, 6, "does not respond");
    cluster.start_stranger(n4);
    let effect = "replaces n1 by n4";
    refused(&cluster, &replace[..5], 2, effect);
    run_and_kill(&cluster, &replace, "n4 is added as a learner");
    wait::until("n4 to be a member", READY, || {
        cluster.member(1, n4).map(drop)
    });
    refused(
        &cluster,
        &["member", "replace", "n1", "n4", "127.0.0.1:1", "--yes"],
        6,
        "n4 is a member at",
    );
    run_and_kill(&cluster, &replace, "n4 is a voter");
    let text = done(&cluster, &replace);
    assert!(
        text.contains("in place of n1, quorum of 3 voters"),
        "{text}"
    );
    assert_eq!(voters(&cluster, 1), all_vote(&["n2", "n3", "n4"]));
    // The replacement is complete, and a repetition has no effect.
    let text = done(&cluster, &replace);
    assert!(text.contains("n4 has replaced n1 already"), "{text}");
    refused(
        &cluster,
        &["member", "replace", "n7", "n4", &peer, "--yes"],
        3,
        "no member is named n7; members: n2, n3, n4",
    );
    assert_eq!(cluster.next(n4, "order", 1), (6, 6));
    let view = cluster.get(n4, "/v1/cluster").ok().json();
    assert_eq!(
        view["quorum"],
        json!({"voters": 3, "reachable": 3, "can_lose": 1})
    );

    // A leader that runs is replaced through itself alone: it stops, and the command succeeds.
    let leader = cluster.leader();
    let name = cluster.node(leader).name().to_owned();
    let n5 = cluster.add_stranger("n5");
    cluster.start_stranger(n5);
    let peer = cluster.node(n5).peer_address();
    let endpoint = cluster.address(leader);
    let words = [
        "-e", &endpoint, "member", "replace", &name, "n5", &peer, "--yes",
    ];
    let output = binary::run(&words);
    assert!(output.status.success(), "{output:?}");
    let status = cluster.node_mut(leader).exit_within(READY);
    assert_eq!(status.code(), Some(9), "{}", cluster.node(leader).tail());
    assert_eq!(cluster.next(n5, "order", 1), (7, 7));
}

#[test]
fn a_node_that_founded_alone_and_lost_its_folder_founds_no_second_cluster() {
    let mut cluster = Cluster::planned(1)
        .with("peer", "found_after", "\"2s\"")
        .ready()
        .with_order();
    for name in ["n2", "n3"] {
        let node = cluster.add_stranger(name);
        cluster.start_stranger(node);
        let peer = cluster.node(node).peer_address();
        done(&cluster, &["member", "add", name, &peer, "--wait"]);
        done(&cluster, &["member", "promote", name, "--wait"]);
    }
    assert_eq!(cluster.next(1, "order", 5), (1, 5));
    cluster.node_mut(0).kill();
    std::fs::remove_dir_all(cluster.node(0).data()).unwrap();
    // The node's configuration lists only the node itself.
    cluster.node_mut(0).start();
    row("empty folder of a known voter").ends(cluster.node_mut(0));
    assert_eq!(cluster.next(1, "order", 1), (6, 6));
}
