//! Checks that the nodes agree on the program, the settings and the operator's token.

use std::collections::BTreeMap;

use seqd_client::api::Facts;

use super::check::{Check, Finding, fail, warn};
use super::{alone, answering};

pub(super) fn versions(facts: &Facts) -> Check {
    let mut by_program: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &facts.nodes {
        let mut program = node.version.clone();
        if let Some(revision) = &node.revision {
            program.push_str(&format!(" ({revision})"));
        }
        if let Some((oldest, newest)) = node.levels {
            program.push_str(&format!(", levels {oldest} to {newest}"));
        }
        by_program.entry(program).or_default().push(&node.name);
    }
    let texts: Vec<String> = by_program
        .iter()
        .map(|(program, nodes)| format!("{}: {program}", nodes.join(", ")))
        .collect();
    let mixed = (by_program.len() > 1).then(|| {
        fail(
            format!("different programs: {}", texts.join("; ")),
            "finish the rolling upgrade: one node at a time, the leader last; this is normal only \
             while it is in progress",
        )
    });
    Check::of(
        "versions",
        "the level of the cluster rises only when every node has the newer program, and a mixed \
         cluster is tested for the time of an upgrade only",
        mixed,
        texts.first().cloned().unwrap_or_default(),
    )
    .unless(alone(facts))
}

/// The keys on which the nodes must agree. Otherwise, the cluster's behaviour depends on its
/// leader.
const MUST_AGREE: &[&str] = &[
    "raft.heartbeat",
    "raft.election",
    "clock.window",
    "clock.max_peer_skew",
    "auth.enabled",
];

/// The keys on which the nodes should agree. Otherwise, clients observe different limits at each
/// node.
const SHOULD_AGREE: &[&str] = &[
    "http.max_count",
    "http.request_timeout",
    "http.drain",
    "raft.snapshot_every",
    "clock.max_backward_wait",
    "clock.on_rollback",
    "clock.max_forward_jump",
    "clock.workers",
    "segment.target",
    "segment.min",
    "segment.max",
    "limits.tenant_share",
    "limits.keys",
    "limits.key_bytes",
    "limits.tokens",
    "limits.sequences",
    "limits.answer_ttl",
    "limits.locks",
    "limits.lock_waiters",
    "redis.create",
    "memcached.layout",
    "compat.routes",
    "compat.leaf_layout",
];

/// The keys that are set on every node or on none.
const SET_ALIKE: &[&str] = &["tls.cert", "tls.client_ca", "tls.peer_cert"];

pub(super) fn configuration(facts: &Facts) -> Check {
    let differing = |key: &str, only_presence: bool| -> Option<String> {
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in &facts.nodes {
            let value = match node.config.get(key).map(String::as_str) {
                Some(_) if only_presence => "set",
                Some(value) => value,
                None => "not set",
            };
            values.entry(value).or_default().push(&node.name);
        }
        let values_of = values.iter();
        let texts = values_of.map(|(value, nodes)| format!("{value} at {}", nodes.join(", ")));
        let text = texts.collect::<Vec<_>>().join(", ");
        (values.len() > 1).then(|| format!("{key} differs: {text}"))
    };
    let remedy = "set the same value on every node (seqd config show --origin at each), and \
                  restart the nodes one at a time";
    let must = MUST_AGREE.iter().filter_map(|key| differing(key, false));
    let alike = SET_ALIKE.iter().filter_map(|key| differing(key, true));
    let should = SHOULD_AGREE.iter().filter_map(|key| differing(key, false));
    let failing = must.chain(alike).map(|text| fail(text, remedy));
    let failing = failing.chain(tokens(facts));
    Check::of(
        "configuration",
        "nodes with different settings behave differently after an election, and clients see other \
         limits at each endpoint",
        failing.chain(should.map(|text| warn(text, remedy))),
        format!(
            "{} agree on {} keys",
            match facts.missing.is_empty() {
                true => "the nodes".to_owned(),
                false => answering(facts),
            },
            MUST_AGREE.len() + SET_ALIKE.len() + SHOULD_AGREE.len()
        ),
    )
    .unless(alone(facts))
}

/// Checks that the operator's token is the same on all nodes. A node of an older program sends no
/// fingerprint.
fn tokens(facts: &Facts) -> Option<Finding> {
    let mut by_token: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &facts.nodes {
        if let Some(token) = node.operator_token.as_deref() {
            by_token.entry(token).or_default().push(&node.name);
        }
    }
    let mut groups: Vec<String> = by_token.values().map(|nodes| nodes.join(", ")).collect();
    groups.sort();
    (groups.len() > 1).then(|| {
        fail(
            format!(
                "the operator's token differs between {}",
                groups.join(" and ")
            ),
            "copy the same file to auth.bootstrap_token_file of every node; it is in force within \
             two seconds, without a restart",
        )
    })
}
