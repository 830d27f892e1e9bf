//! A dependency, or the clock, may be named only where the design permits it.

use crate::sources::{assert_none, product};

/// The readers of the system's wall clock: one in a node, one in an external program.
const WALL_CLOCKS: [&str; 2] = [
    "crates/node/src/clock.rs",
    "crates/client/src/system_clock.rs",
];

/// Each name in code, with the files or folders that may contain it.
const NAMED: [(&str, &[&str]); 6] = [
    ("openraft::", &["crates/raft/src/"]),
    ("sled::", &["crates/store/src/checkpoint/sled_store.rs"]),
    (
        "axum::",
        &["crates/node/src/http/", "crates/node/src/handlers/"],
    ),
    ("bincode::", &["crates/state/src/codec.rs"]),
    ("SystemTime::now", &WALL_CLOCKS),
    ("UNIX_EPOCH", &WALL_CLOCKS),
];

/// Returns whether `line` contains `name` as a separate word.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

#[test]
fn names_appear_only_where_the_design_permits_them() {
    let mut complaints = Vec::new();
    for source in product() {
        for (name, allowed) in NAMED {
            if allowed.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            for (at, line) in source.code().filter(|(_, line)| names(line, name)) {
                complaints.push(format!(
                    "{}:{at} names {name} in `{}`",
                    source.path,
                    line.trim()
                ));
            }
        }
    }
    assert_none(&complaints);
}

/// Folders of adapters: they translate between a protocol and the services.
const ADAPTERS: [&str; 2] = [
    "crates/node/src/protocols/",
    "crates/node/src/handlers/compat/",
];

/// The layers below the services. [`SHARED`] is exempt: incomplete requests share a node's memory.
const BELOW: [&str; 4] = [
    "crate::replica",
    "crate::sequences",
    "crate::config::layers",
    "seqd_raft",
];
const SHARED: &str = "crates/node/src/protocols/session.rs";

#[test]
fn an_adapter_names_the_services_and_nothing_below_them() {
    let adapters = product().into_iter().filter(|source| {
        let is_adapter = ADAPTERS
            .iter()
            .any(|folder| source.path.starts_with(folder));
        is_adapter && source.path != SHARED
    });
    let mut complaints = Vec::new();
    for source in adapters {
        for name in BELOW {
            for (at, line) in source.code().filter(|(_, line)| names(line, name)) {
                let line = line.trim();
                complaints.push(format!("{}:{at} names {name} in `{line}`", source.path));
            }
        }
    }
    assert_none(&complaints);
}

/// The crates whose files must survive a power cut, and the files that may bypass the disk
/// abstraction: the operating system provides the lock, and sled's own files are measured for a
/// gauge.
const DURABLE: [&str; 6] = [
    "crates/wal/src/",
    "crates/store/src/",
    "crates/offline/src/",
    "crates/peers/src/",
    "crates/raft/src/",
    "crates/node/src/",
];
const PAST_THE_SEAM: [&str; 4] = [
    "crates/store/src/folder.rs",
    "crates/offline/src/lock.rs",
    // A temporary copy.
    "crates/offline/src/private_folder.rs",
    "crates/store/src/checkpoint/sled_store.rs",
];

#[test]
fn files_that_must_survive_are_touched_through_the_seam_alone() {
    let mut complaints = Vec::new();
    for source in product() {
        let is_durable = DURABLE.iter().any(|place| source.path.starts_with(place));
        let is_test = ["/tests.rs", "/testing.rs"]
            .iter()
            .any(|name| source.path.ends_with(name));
        if !is_durable || is_test || PAST_THE_SEAM.contains(&source.path.as_str()) {
            continue;
        }
        let code = source
            .code()
            .take_while(|(_, line)| !line.starts_with("mod tests {"));
        // In addition to `std::fs`, the calls that return `false` on a disk error.
        let goes_past = |line: &str| {
            names(line, "std::fs")
                || [".is_dir()", ".is_file()", ".exists()"]
                    .iter()
                    .any(|call| line.contains(call))
        };
        for (at, line) in code.filter(|(_, line)| goes_past(line)) {
            complaints.push(format!(
                "{}:{at} goes past the disk's seam in `{}`",
                source.path,
                line.trim()
            ));
        }
    }
    assert_none(&complaints);
}

/// Only `seqd_api::address` writes the scheme.
#[test]
fn the_scheme_of_the_clients_interface_is_not_written_into_strings() {
    let mut complaints = Vec::new();
    for source in product() {
        let is_test = [
            "/tests.rs",
            "/testing.rs",
            "/simulation/",
            "/simulated_cluster/",
        ]
        .iter()
        .any(|part| source.path.contains(part));
        if is_test {
            continue;
        }
        let code = source
            .code()
            .take_while(|(_, line)| !line.starts_with("mod tests {"));
        for (at, line) in code.filter(|(_, line)| line.contains("http://")) {
            complaints.push(format!(
                "{}:{at} writes a scheme: `{}`",
                source.path,
                line.trim()
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn the_check_distinguishes_words_from_parts_of_words() {
    assert!(names("use sled::Db;", "sled::"));
    assert!(names("let x = axum::Router::new();", "axum::"));
    assert!(!names("use unsettled::Db;", "sled::"));
}
