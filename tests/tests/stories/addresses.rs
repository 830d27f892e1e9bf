//! A node's client address follows its configuration, and the command line sends requests only to
//! the given endpoints, whatever addresses a response contains.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use rustix::process::Signal;
use seqd_tests::cluster::Cluster;
use seqd_tests::{binary, wait};

/// The time for a restart on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client address of `n2` in the view of node 0.
fn shown(cluster: &Cluster) -> Option<String> {
    let member = cluster.member(0, 1)?;
    Some(member["http"].as_str()?.to_owned())
}

fn run(endpoints: &str, words: &[&str]) -> (Option<i32>, String) {
    let words = [&["-e", endpoints], words].concat();
    let output = binary::command(&words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn status_uses_only_the_given_endpoint_and_addresses_follow_the_configuration() {
    let mut cluster = Cluster::planned(3).ready();
    // A host that only a response names. No client may connect to it, with or without a token.
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let url = format!("http://{}", trap.local_addr().unwrap());
    assert_eq!(cluster.node_mut(1).stop().code(), Some(0));
    cluster
        .node_mut(1)
        .set("http", "advertise", &format!("{url:?}"));
    cluster.node_mut(1).start();
    wait::until("the address of the configuration", PATIENCE, || {
        (shown(&cluster)? == url).then_some(())
    });
    cluster.wait_ready();
    let endpoint = cluster.address(0);
    for words in [&["status"][..], &["member", "list"], &["leader", "show"]] {
        let (code, text) = run(&endpoint, words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
        let met = trap.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(met, Err(ErrorKind::WouldBlock), "{words:?} asked {url}");
    }
    // All reports of the other nodes arrive within a second after they are ready.
    wait::until("the reports of all members", PATIENCE, || {
        let (_, text) = run(&endpoint, &["status", "-o", "json"]);
        let view: serde_json::Value = serde_json::from_str(&text).ok()?;
        let is_whole = |member: &serde_json::Value| {
            member["ids_per_second"].is_number()
                && member["workers"]["default"].is_number()
                && member["state"] == "ready"
        };
        view["members"]
            .as_array()?
            .iter()
            .all(is_whole)
            .then_some(())
    });
}

#[test]
fn commands_try_the_next_endpoint_if_the_first_one_hangs() {
    let cluster = Cluster::started(3);
    let hanging = cluster.follower();
    let mut endpoints = vec![cluster.address(hanging)];
    endpoints.extend(
        (0..3)
            .filter(|node| *node != hanging)
            .map(|node| cluster.address(node)),
    );
    let endpoints = endpoints.join(",");
    cluster.node(hanging).signal(Signal::STOP);
    for words in [
        &["status"][..],
        &["id"],
        &["seq", "create", "orders", "--mode", "strict"],
        &["seq", "next", "orders"],
        &["seq", "list"],
        &["lock", "acquire", "l", "--owner", "o", "--ttl", "10s"],
        &["token", "issue"],
        &["worker", "list"],
        &["layout", "list"],
    ] {
        let (code, text) = run(&endpoints, words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
    }
    cluster.node(hanging).signal(Signal::CONT);
}
