//! Tests of the file that `seqd config init` prints.

use super::super::*;
use super::file;

const FOUNDERS: &str = "n1.example n2.example third=10.0.0.3:9000";

fn hosts(hosts: &str) -> Vec<String> {
    hosts.split(' ').map(str::to_owned).collect()
}

/// The file of this node; `options` are words of the command.
fn written(name: &str, peers: &str, options: &str) -> Result<String, String> {
    let node = Bootstrap {
        name,
        hosts: &hosts(peers),
        joins: options.contains("join"),
        insecure: options.contains("insecure"),
        auth: options.contains("auth"),
        hostname: "vm4.example",
    };
    bootstrap_file(&node).map_err(|error| error.to_string())
}

fn config(name: &str, peers: &str, options: &str) -> Config {
    let text = written(name, peers, options).unwrap();
    let resolved = file(&text).unwrap();
    assert_eq!(resolved.warnings, [""; 0], "{text}");
    resolved.config
}

#[test]
fn the_files_of_the_founders_differ_only_in_the_name() {
    let first = config("n1", FOUNDERS, "");
    let third = ("third".to_owned(), "10.0.0.3:9000".to_owned());
    assert_eq!(first.peer.peers[2], third);
    assert_eq!(first.http.advertise, "https://n1.example:7400");
    assert_eq!(config("third", FOUNDERS, "").peer.listen.port(), 9000);
    let absent = written("n9", FOUNDERS, "").unwrap_err();
    assert!(
        absent.contains("n9 is not one of the peers n1, n2, third"),
        "{absent}"
    );
    assert!(absent.contains("--join"), "{absent}");
}

#[test]
fn every_combination_of_options_is_a_file_that_a_node_accepts() {
    for options in [
        "",
        "join",
        "insecure",
        "auth",
        "join insecure",
        "join auth",
        "insecure auth",
    ]
    .into_iter()
    .chain(["join insecure auth"])
    {
        let name = if options.contains("join") { "n4" } else { "n1" };
        let config = config(name, FOUNDERS, options);
        let has = |word: &str| options.contains(word);
        assert_eq!(config.node.insecure, has("insecure"), "{options}");
        assert_eq!(config.auth.enabled, has("auth"), "{options}");
        assert_eq!(config.tls.cert.is_none(), has("insecure"), "{options}");
        // A token is enough, and without TLS nothing else is possible.
        let needs_certificate = !has("insecure") && !has("auth");
        assert_eq!(
            config.tls.client_ca.is_some(),
            needs_certificate,
            "{options}"
        );
        let scheme = if has("insecure") {
            "http://"
        } else {
            "https://"
        };
        assert!(config.http.advertise.starts_with(scheme), "{options}");
        assert!(config.http.listen.ip().is_unspecified(), "{options}");
        assert_eq!(config.health.listen.unwrap().to_string(), "127.0.0.1:7404");
        assert!(check_exposed(&config).is_ok(), "{options}");
    }
}

#[test]
fn a_file_names_the_commands_that_make_its_other_files() {
    let text = |name: &str, options: &str| written(name, FOUNDERS, options).unwrap();
    let nodes = "--nodes n1=n1.example,n2=n2.example,third=10.0.0.3 --client admin\n";
    assert!(text("n1", "").contains(&format!("seqd tls init --dir tls {nodes}")));
    let auth = text("n1", "auth");
    let token = "(umask 077; openssl rand -hex 32 > /etc/seqd/token)";
    assert!(auth.contains(token), "{auth}");
    assert!(!auth.contains("--client"), "{auth}");
    assert!(!text("n1", "insecure").contains("seqd tls"));
    let joins = text("n4", "join");
    assert!(
        joins.contains("seqd tls add --dir tls --node n4=vm4.example\n"),
        "{joins}"
    );
    let add = "seqd member add n4 vm4.example:7401 --http https://vm4.example:7400 --wait\n";
    assert!(joins.contains(add), "{joins}");
}

#[test]
fn a_node_that_joins_lists_members_and_not_itself() {
    let derived = config("n4", FOUNDERS, "join");
    assert_eq!(derived.peer.advertise, "vm4.example:7401");
    let listed = config("n4", "n1.example n4=10.0.0.4:7500", "join");
    assert_eq!(listed.peer.advertise, "10.0.0.4:7500");
    assert_eq!(listed.http.advertise, "https://10.0.0.4:7400");
    assert_eq!(
        listed.peer.peers,
        [("n1".to_owned(), "n1.example:7401".to_owned())]
    );
    let alone = written("n4", "n4.example", "join").unwrap_err();
    assert!(alone.contains("needs the addresses of members"), "{alone}");
}

#[test]
fn a_bootstrap_file_that_no_node_would_take_is_not_written() {
    let of = |hosts: &str| written("n1", hosts, "").unwrap_err();
    let many = of("n1 n2 n3 n4 n5 n6 n7 n8");
    assert!(many.contains("8 nodes; use 1, 3 or 5"), "{many}");
    let same = of("n1=a n2=a n3=c");
    assert!(same.contains("have the same address"), "{same}");
    let port = of("n1:7400 n2 n3");
    assert!(
        port.contains("http.listen already uses this address"),
        "{port}"
    );
    let bare = of("10.0.0.1 n2.example [::3]:9000");
    let named = "write --peers n1=10.0.0.1,n2.example,n3=[::3]:9000";
    assert!(bare.contains(named), "{bare}");
}

#[test]
fn a_bootstrap_file_can_be_read_whatever_the_hosts_are() {
    let config = config("n1", "n1=fd00::1 n2=[fd00::2] n3=[fd00::3]:9000", "");
    assert_eq!(config.http.advertise, "https://[fd00::1]:7400");
    assert_eq!(config.http.listen.to_string(), "[::]:7400");
    assert_eq!(config.peer.listen.to_string(), "[::]:7401");
    let addresses = config.peer.peers.iter().map(|(_, at)| at.as_str());
    let expected = ["[fd00::1]:7401", "[fd00::2]:7401", "[fd00::3]:9000"];
    assert_eq!(addresses.collect::<Vec<_>>(), expected);
    for wrong in [
        "n1=a\"b",
        "n1=",
        "n1=::",
        "n1=0.0.0.0",
        "n1=a:x",
        "n1=a\nb",
        "",
    ] {
        let why = written("n1", wrong, "").unwrap_err();
        assert!(why.contains("give HOST or NAME=HOST"), "{wrong}: {why}");
    }
}
