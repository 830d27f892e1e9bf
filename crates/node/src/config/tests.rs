//! Tests of the configuration as a whole.

mod auth;
mod bootstrap;
mod wrong;

use std::time::Duration;

use seqd_idgen::Layout;

use super::*;

fn file(text: &str) -> Result<Resolved, ConfigError> {
    Layers::default()
        .file("seqd.toml", text)?
        .resolve("host.example")
}

fn refusal(text: &str) -> String {
    file(text)
        .map(|_| String::new())
        .unwrap_or_else(|error| error.to_string())
}

#[test]
fn the_defaults_need_only_a_name() {
    let resolved = file("[node]\nname = \"n1\"").unwrap();
    let config = &resolved.config;
    assert_eq!(config.http.listen.to_string(), "0.0.0.0:7400");
    assert_eq!(config.http.max_count, 10_000);
    assert_eq!(config.http.advertise, "http://host.example:7400");
    assert_eq!(
        config.peer.peers,
        [("n1".to_owned(), "host.example:7401".to_owned())]
    );
    assert_eq!(config.clock.window, Duration::from_secs(30));
    assert!(resolved.warnings.is_empty());
    assert!(refusal("").contains("node.name is not set"));
}

#[test]
fn more_hosts_are_names_or_addresses_without_ports() {
    let text = |hosts: &str| format!("[node]\nname = \"n1\"\n[http]\nhosts = [{hosts}]");
    let given = file(&text(r#""ids.example", "10.0.0.7", "[2001:db8::1]""#)).unwrap();
    let expected = ["ids.example", "10.0.0.7", "[2001:db8::1]"];
    assert_eq!(given.config.http.hosts, expected);
    for wrong in [
        "http://ids.example",
        "ids.example:7400",
        "a/b",
        "2001:db8::1",
    ] {
        let why = refusal(&text(&format!("{wrong:?}")));
        assert!(why.contains("is not a host name"), "{wrong}: {why}");
    }
}

#[test]
fn a_flag_beats_the_environment_beats_the_file() {
    let mut layers = Layers::default();
    let mut set = |key: &str, origin: fn(String) -> Origin, text: &str| {
        let key = keys::find(key).unwrap();
        let name = match origin(String::new()) {
            Origin::Flag(_) => key.flag(),
            _ => key.variable(),
        };
        layers.set(key, origin(name), text.to_owned());
    };
    set("http.max_count", Origin::Flag, "30");
    set("http.max_count", Origin::Variable, "20");
    set("http.request_timeout", Origin::Variable, "2s");
    let text = "[node]\nname = \"n1\"\n[http]\nmax_count = 10\nrequest_timeout = \"1s\"";
    let layers = layers.file("seqd.toml", text).unwrap();
    let resolved = layers.resolve("host").unwrap();
    assert_eq!(resolved.config.http.max_count, 30);
    assert_eq!(resolved.config.http.request_timeout, Duration::from_secs(2));
    let shown = show(&resolved.config.entries, true);
    let line = |key: &str| {
        shown
            .lines()
            .find(|line| line.starts_with(key))
            .unwrap()
            .to_owned()
    };
    assert!(line("max_count").ends_with("# --http-max-count"));
    assert!(line("request_timeout").ends_with("# SEQD_HTTP_REQUEST_TIMEOUT"));
    assert!(line("name =").ends_with("# seqd.toml"));
    assert!(line("heartbeat").ends_with("# default"));
}

#[test]
fn the_shown_configuration_can_be_parsed_again() {
    let text = "[node]\nname = \"n2\"\n[peer]\npeers = [\"n1=a:1\", \"n2=b:2\", \"n3=c:3\"]";
    let mut first = file(text).unwrap();
    let mut second = file(&show(&first.config.entries, true)).unwrap();
    // The origins differ, so they are not compared.
    first.config.entries.clear();
    second.config.entries.clear();
    assert_eq!(
        format!("{:?}", first.config),
        format!("{:?}", second.config)
    );
}

#[test]
fn an_unknown_key_names_the_nearest() {
    assert!(refusal("[http]\nlisen = \"x\"").contains("did you mean http.listen?"));
    assert!(refusal("[htpp]\nlisten = \"x\"").contains("did you mean [http]?"));
    assert!(refusal("window = \"3s\"").contains("did you mean clock.window?"));
    assert!(refusal("[clock]\nwindwo = \"3s\"").contains("did you mean clock.window?"));
}

#[test]
fn keys_that_cannot_be_together_are_refused() {
    let with = |text: &str| refusal(&format!("[node]\nname = \"n1\"\n{text}"));
    let ports = |http: &str, peer: &str| {
        with(&format!(
            "[http]\nlisten = \"{http}\"\n[peer]\nlisten = \"{peer}\""
        ))
    };
    let taken = "http.listen already uses this address";
    assert!(ports("0.0.0.0:7400", "0.0.0.0:7400").contains(taken));
    assert!(ports("[::]:7400", "127.0.0.1:7400").contains(taken));
    assert_eq!(ports("127.0.0.1:7400", "127.0.0.2:7400"), "");
    assert_eq!(ports("127.0.0.1:0", "127.0.0.1:0"), "");
}

#[test]
fn limits_match_the_purpose_of_the_values() {
    let with = |text: &str| refusal(&format!("[node]\nname = \"n1\"\n{text}"));
    assert!(with("[segment]\nmax = 1000000001").contains("from 1 to 1000000000"));
    assert_eq!(with("[segment]\nmax = 1000000000"), "");
    let election = |text: &str| with(&format!("[raft]\nheartbeat = \"10ms\"\nelection = {text}"));
    assert!(election("[\"1s\", \"1000000000y\"]").contains("from 40ms to 10m"));
    assert!(election("[\"30ms\", \"80ms\"]").contains("from 40ms to 10m"));
    assert_eq!(election("[\"40ms\", \"10m\"]"), "");
    for preset in [
        "default",
        "twitter",
        "leaf",
        "sonyflake",
        "js53",
        "uid-generator",
    ] {
        let bits = Layout::preset(preset).unwrap().spec().datacenter_bits;
        assert!((1 << bits) - 1 <= keys::MAX_DATACENTER, "{preset}");
    }
}

#[test]
fn an_unreachable_address_is_refused() {
    let with = |text: &str| refusal(&format!("[node]\nname = \"n1\"\n{text}"));
    for wrong in [
        "banana split",
        "http://banana split",
        "http://::1:7400",
        "n1:7400",
        "http://0.0.0.0:1",
    ] {
        let why = with(&format!("[http]\nadvertise = {wrong:?}"));
        assert!(why.contains("a URL without a path"), "{wrong}: {why}");
    }
    for wrong in ["banana split:1", "0.0.0.0:7401", "::1:7401", "a\"b:1", "n1"] {
        let why = with(&format!("[peer]\nadvertise = {wrong:?}"));
        assert!(
            why.contains("is not") || why.contains("HOST:PORT"),
            "{wrong}: {why}"
        );
        let why = with(&format!("[peer]\npeers = [{:?}]", format!("n1={wrong}")));
        assert!(why.contains("is not NAME=HOST:PORT"), "{wrong}: {why}");
    }
}

#[test]
fn addresses_are_derived_from_the_own_peer_entry() {
    let text = "[node]\nname = \"n1\"\n[peer]\npeers = [\"n1=n1.example:7401\"]";
    let config = file(text).unwrap().config;
    assert_eq!(config.peer.advertise, "n1.example:7401");
    assert_eq!(config.http.advertise, "http://n1.example:7400");
    let bound = file("[node]\nname = \"n1\"\n[http]\nlisten = \"127.0.0.1:7410\"").unwrap();
    assert_eq!(bound.config.http.advertise, "http://127.0.0.1:7410");
}

#[test]
fn a_derived_peer_address_is_not_a_configured_one() {
    let is_configured = |peer: &str| {
        let text = format!("[node]\nname = \"n1\"\n[peer]\n{peer}");
        file(&text).unwrap().config.is_peer_address_configured()
    };
    for derived in ["", "peers = []", "peers = [\"n2=h2:1\"]"] {
        assert!(!is_configured(derived), "{derived}");
    }
    for given in ["advertise = \"h1:1\"", "peers = [\"n1=h1:1\"]"] {
        assert!(is_configured(given), "{given}");
    }
}

#[test]
fn the_name_may_come_from_the_host() {
    let config = file("[node]\nname_from = \"hostname\"").unwrap().config;
    assert_eq!(config.node.name, "host");
    // The output of `show` is a valid file.
    let shown = show(&config.entries, false);
    assert_eq!(file(&shown).unwrap().config.node.name, "host", "{shown}");
}

#[test]
fn every_item_of_a_list_in_the_file_is_read() {
    let with = |peers: &str| refusal(&format!("[node]\nname = \"n1\"\n[peer]\npeers = {peers}"));
    assert!(with("[\"\"]").contains("is not NAME=HOST:PORT"));
    assert!(with("[\"n1=a:1\", \"\"]").contains("is not NAME=HOST:PORT"));
    assert!(with("[\"n1=a:1,n2=b:1\"]").contains("a name is"));
    assert!(with("[1]").contains("a list of texts"));
}

#[test]
fn the_host_names_the_node_unless_a_stronger_layer_does() {
    let named = |origin: Origin| {
        let mut layers = Layers::default();
        let text = "[node]\nname_from = \"hostname\"";
        layers.set(keys::find("node.name").unwrap(), origin, "n1".to_owned());
        let resolved = layers
            .file("seqd.toml", text)
            .unwrap()
            .resolve("host.example");
        resolved.unwrap().config.node.name
    };
    assert_eq!(named(Origin::Flag("name".to_owned())), "n1");
    assert_eq!(named(Origin::Default), "host");
    assert!(refusal("[node]\nname_from = \"dns\"").contains("the only allowed value"));
}

#[test]
fn the_contract_and_the_state_have_one_rule_for_names() {
    let long = "x".repeat(129);
    let texts = [
        "",
        "-a",
        "a",
        "7",
        ".",
        "a/b",
        "a b",
        "zähler",
        "eu.order:2026_11-x",
        &long,
    ];
    for text in texts.into_iter().chain([&long[1..], "a\n", "a\0"]) {
        let contract = seqd_api::validate_name(text).is_ok();
        assert_eq!(contract, seqd_idgen::is_name(text), "{text:?}");
    }
}

#[test]
fn a_certificate_needs_its_key_and_an_https_address() {
    let resolve = |keys: &[(&str, &str)]| {
        let mut text = String::from("[node]\nname = \"n1\"\n[tls]\n");
        for (key, path) in keys {
            text.push_str(&format!("{key} = {path:?}\n"));
        }
        let layers = Layers::default().file("seqd.toml", &text).unwrap();
        layers.resolve("host").map_err(|error| error.to_string())
    };
    let (cert, key) = (("cert", "/tls/n1.crt"), ("key", "/tls/n1.key"));
    let both = resolve(&[cert, key]).unwrap().config;
    assert_eq!(both.http.advertise, "https://host:7400");
    assert_eq!(
        resolve(&[]).unwrap().config.http.advertise,
        "http://host:7400"
    );
    assert_eq!(
        resolve(&[key]).unwrap_err(),
        "tls.key = /tls/n1.key (seqd.toml): tls.cert is required too, and is not set: set \
         both, or neither for no TLS"
    );
}

#[test]
fn a_node_that_anybody_could_talk_to_is_refused_unless_it_is_permitted() {
    let check = |http: &str, peer: &str, more: &str| {
        let text = format!(
            "[node]\nname = \"n1\"\n{more}\n[http]\nlisten = \"{http}\"\n[peer]\nlisten = \"{peer}\"\n\
             [tls]\n{}",
            if more.contains("tls") { TLS } else { "" }
        );
        let layers = Layers::default().file("seqd.toml", &text).unwrap();
        let config = layers.resolve("host").unwrap().config;
        check_exposed(&config).map_err(|error| error.to_string())
    };
    const TLS: &str =
        "cert = \"a\"\nkey = \"a\"\npeer_cert = \"a\"\npeer_key = \"a\"\npeer_ca = \"a\"";
    let (own, all) = ("127.0.0.1:1", "0.0.0.0:2");
    let peers_all = "0.0.0.0:3";
    assert_eq!(check(own, "[::1]:3", ""), Ok(None));
    assert_eq!(check("[::ffff:127.0.0.1]:4", own, ""), Ok(None));
    let clients = check(all, own, "").unwrap_err();
    assert!(
        clients.starts_with("http.listen = 0.0.0.0:2 serves other machines without TLS"),
        "{clients}"
    );
    for way in ["seqd tls init", "listen on 127.0.0.1", "SEQD_INSECURE=true"] {
        assert!(clients.contains(way), "{clients}");
    }
    let peers = check(own, peers_all, "").unwrap_err();
    assert!(
        peers.starts_with("peer.listen = 0.0.0.0:3 accepts peer messages from any machine"),
        "{peers}"
    );
    let unknown = check(all, peers_all, "# tls").unwrap_err();
    assert!(
        unknown.contains("without authentication (tls.client_ca or auth.enabled)"),
        "{unknown}"
    );
    assert!(!unknown.contains("peer.listen = "), "{unknown}");
    let permitted = check(all, peers_all, "insecure = true").unwrap().unwrap();
    assert!(
        permitted.starts_with("insecure: http.listen = "),
        "{permitted}"
    );
}

#[test]
fn every_key_is_documented() {
    let table = include_str!("../../../../docs/CONFIGURATION.md");
    let sample = include_str!("../../../../deploy/seqd.toml");
    for key in keys::KEYS {
        let row = format!("| `{}` |", key.name);
        assert!(table.contains(&row), "docs/CONFIGURATION.md has no {row}");
        let (section, name) = key.name.split_once('.').unwrap();
        let (_, from) = sample.split_once(&format!("[{section}]\n")).unwrap();
        let own = from.split("\n[").next().unwrap();
        let set = |line: &str| {
            line.trim_start_matches("# ")
                .starts_with(&format!("{name} ="))
        };
        assert!(
            own.lines().any(set),
            "deploy/seqd.toml has no {name} under [{section}]"
        );
    }
}
