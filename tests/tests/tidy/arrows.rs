//! A crate may only have the dependencies that its place in the architecture permits.

use std::collections::BTreeSet;

use seqd_tests::binary::workspace;

use crate::sources::{assert_none, one};

/// Each crate with the crates on which it may depend directly. It may also depend on their
/// dependencies.
const ARROWS: [(&str, &[&str]); 14] = [
    ("guards", &[]),
    ("idgen", &["guards"]),
    ("disk", &[]),
    ("net", &["guards"]),
    ("wal", &["disk", "guards"]),
    ("state", &["idgen"]),
    ("api", &[]),
    ("store", &["wal", "disk", "state"]),
    ("offline", &["store", "wal", "disk", "state"]),
    ("peers", &["net", "store"]),
    ("raft", &["peers", "store", "wal", "disk", "state"]),
    ("client", &["api", "idgen", "net"]),
    ("node", &["raft", "disk", "api"]),
    ("seqd", &["node", "offline", "client"]),
];

/// Each dependency with the crates whose manifests may name it.
const KEPT: [(&str, &[&str]); 8] = [
    ("openraft", &["raft"]),
    ("sled", &["store"]),
    ("axum", &["node"]),
    ("hyper", &["node", "seqd"]),
    ("hyper-util", &["node", "seqd"]),
    ("bincode", &["state"]),
    ("rustls", &["net"]),
    ("rcgen", &["net"]),
];

/// Dependencies that the pure crates must not have: clocks, tasks, sockets, disks, randomness.
const IMPURE: [&str; 9] = [
    "tokio",
    "reqwest",
    "hyper",
    "rustix",
    "libc",
    "getrandom",
    "rand",
    "tempfile",
    "tracing",
];

fn manifest(name: &str) -> toml::Table {
    let path = format!("crates/{name}/Cargo.toml");
    one(&path)
        .unwrap_or_else(|| panic!("{path} is missing"))
        .text
        .parse()
        .expect("a manifest")
}

/// The dependencies of the crate when it is built, without those of its tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = manifest(name);
    let mut names = BTreeSet::new();
    for section in ["dependencies", "build-dependencies"] {
        if let Some(table) = manifest.get(section).and_then(toml::Value::as_table) {
            names.extend(table.keys().cloned());
        }
    }
    names
}

fn reachable(from: &str, found: &mut BTreeSet<String>) {
    let (_, direct) = ARROWS
        .iter()
        .find(|(name, _)| *name == from)
        .expect("a crate of the table");
    for name in *direct {
        found.insert(format!("seqd-{name}"));
        reachable(name, found);
    }
}

#[test]
fn every_crate_has_its_place() {
    let mut there: Vec<String> = std::fs::read_dir(workspace().join("crates"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let mut placed: Vec<String> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    placed.sort();
    assert_eq!(there, placed);
}

#[test]
fn arrows_between_crates_point_one_way() {
    let mut complaints = Vec::new();
    for (name, _) in ARROWS {
        let mut allowed = BTreeSet::new();
        reachable(name, &mut allowed);
        for dependency in dependencies(name)
            .iter()
            .filter(|name| name.starts_with("seqd-"))
        {
            if !allowed.contains(dependency) {
                complaints.push(format!("crates/{name} must not depend on {dependency}"));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn dependencies_are_kept_in_their_crates() {
    let mut complaints = Vec::new();
    for (name, _) in ARROWS {
        for (dependency, allowed) in KEPT {
            if dependencies(name).contains(dependency) && !allowed.contains(&name) {
                complaints.push(format!("crates/{name} must not depend on {dependency}"));
            }
        }
    }
    for name in ["idgen", "state"] {
        for dependency in IMPURE {
            if dependencies(name).contains(dependency) {
                complaints.push(format!(
                    "crates/{name} is pure: {dependency} has no place in it"
                ));
            }
        }
    }
    assert_none(&complaints);
}

/// `crates/raft/no-statistics` would report zeros.
#[test]
fn the_statistics_of_openraft_are_off() {
    let manifest: toml::Table = one("Cargo.toml").unwrap().text.parse().unwrap();
    let features = &manifest["workspace"]["dependencies"]["openraft"]["features"];
    let features = features.as_array().unwrap();
    assert!(
        !features
            .iter()
            .any(|name| name.as_str() == Some("runtime-stats"))
    );
}

#[test]
fn there_is_one_table_of_dependencies_and_one_of_lints() {
    let mut complaints = Vec::new();
    let manifests = ARROWS
        .iter()
        .map(|(name, _)| format!("crates/{name}/Cargo.toml"));
    for path in manifests.chain(["tests/Cargo.toml".to_owned()]) {
        let manifest: toml::Table = one(&path).expect("a manifest").text.parse().unwrap();
        if manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .is_none()
        {
            complaints.push(format!("{path} has lints of its own"));
        }
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(section).and_then(toml::Value::as_table);
            for (name, value) in table.into_iter().flatten() {
                if value.get("workspace").is_none() {
                    complaints.push(format!("{path}: {name} is not from the workspace's table"));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn cargo_run_runs_the_program() {
    let package = &manifest("seqd")["package"];
    let runs = package.get("default-run").and_then(toml::Value::as_str);
    assert_eq!(runs, Some("seqd"), "README's first command names no binary");
}
