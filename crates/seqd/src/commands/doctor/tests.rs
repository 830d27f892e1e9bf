//! The checks over the facts of a healthy cluster with one thing wrong at a time.

mod cases;

use seqd_client::api::{
    CertificateFacts, DescriptorFacts, LatencyFacts, LinkFacts, MemberState, MissingFacts, Quorum,
    ResourceUse, SequenceLeft, VoterChange,
};
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-21T00:00:00.000Z";
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

fn member(name: &str) -> Value {
    json!({"name": name, "id": &name[1..], "state": "ready", "peer": format!("{name}:7401"),
        "role": if name == "n1" { "leader" } else { "follower" },
        "http": format!("http://{name}:7400"), "applied": 42, "lag_entries": 0,
        "clock_offset_ms": 0.4, "clock_drift_ppm": 3.0, "version": "0.1.0"})
}

fn node(name: &str) -> Value {
    let others = NAMES.iter().filter(|other| **other != name);
    let links: Vec<Value> = others
        .map(|other| json!({"name": other, "round_trip_ms": 0.3, "receives": true}))
        .collect();
    json!({"name": name, "time": NOW, "version": "0.1.0", "levels": [1, 1], "leader": "n1",
        "links": links,
        "disk": {"used_bytes": 10_u64 << 30, "free_bytes": 30_u64 << 30,
            "reserve_bytes": 128 << 20, "log_entries": 100},
        "fsync": {"count": 500, "p50_ms": 1.0, "p99_ms": 6.0},
        "commit": {"count": 500, "p50_ms": 2.0, "p99_ms": 9.0},
        "descriptors": {"open": 60, "limit": 65536},
        "certificates": [{"use": "client", "expires_at": "2027-11-21T00:00:00Z"}],
        "windows": [{"layout": "default", "ends_at": NOW, "left_ms": 25_000, "window_ms": 30_000}],
        "config": {"raft.election": "[\"400ms\", \"800ms\"]", "raft.snapshot_every": "20000",
            "clock.max_peer_skew": "\"500ms\"", "auth.enabled": "true"}})
}

fn facts() -> Facts {
    let read = json!({"node": "n1",
        "cluster": {"cluster_id": "01J9", "node": "n1", "applied": 42, "digest": "ab",
            "leader": "n1", "term": 1, "clocks": "agreed",
            "quorum": {"voters": 3, "reachable": 3, "can_lose": 1},
            "members": NAMES.map(member),
            "layouts": [{"name": "default", "exhausted_at": "2095-09-07T15:47:35.552Z",
                "workers_assigned": 3, "workers_capacity": 1024,
                "workers_free_for_clients": 893}]},
        "nodes": NAMES.map(node)});
    serde_json::from_value(read).unwrap()
}

/// Sets the leased workers of the layout, and the workers that clients can still lease.
fn leased(facts: &mut Facts, assigned: u32, free_for_clients: u32) {
    let layout = &mut facts.cluster.layouts[0];
    (layout.workers_assigned, layout.workers_free_for_clients) = (assigned, free_for_clients);
}

/// The checks that are not `ok`, with their outcomes.
fn judged(facts: &Facts) -> Vec<Check> {
    let mut checks = check_all(facts, NOW.parse().unwrap());
    checks.retain(|it| it.result > Outcome::Skip);
    checks
}

#[test]
fn a_healthy_cluster_passes_every_check() {
    assert!(judged(&facts()).is_empty(), "{:?}", judged(&facts()));
}

/// A change that makes one thing wrong.
type Wrong = fn(&mut Facts);

/// Each change, the check that detects it, the outcome, and a part of the detail.
const WRONG: &[(Wrong, &str, Outcome, &str)] = &[
    (
        |it| it.cluster.members[2].clock_ahead_ms = Some(2_000.0),
        "clock",
        Outcome::Fail,
        "the clock of n3 is 2.000 s ahead of the majority's",
    ),
    (
        |it| it.cluster.clocks = seqd_client::api::ClockAgreement::Split,
        "clock",
        Outcome::Fail,
        "no majority of the clocks agrees",
    ),
    (
        |it| it.cluster.members[1].clock_drift_ppm = Some(-700.0),
        "clock",
        Outcome::Warn,
        "the clock of n2 drifts by -700 ppm",
    ),
    (
        |it| it.nodes[1].fsync = latency(55.0, 60.0),
        "fsync",
        Outcome::Fail,
        "n2: a sync takes 55.0 ms",
    ),
    (
        |it| it.nodes[1].fsync = latency(2.0, 60.0),
        "fsync",
        Outcome::Warn,
        "p99 60.0 ms",
    ),
    (
        |it| it.nodes[2].disk.stalled_ms = 4000.0,
        "fsync",
        Outcome::Fail,
        "n3: a write of the log has not returned for 4.0s",
    ),
    (
        |it| it.nodes[0].commit = latency(120.0, 500.0),
        "commit",
        Outcome::Warn,
        "n1: a commit takes 120.0 ms",
    ),
    (
        |it| (it.nodes[0].disk.used_bytes, it.nodes[0].disk.free_bytes) = (97 << 30, 3 << 30),
        "disk",
        Outcome::Fail,
        "n1: 97 % used, 3.0 GiB free",
    ),
    (
        |it| it.nodes[1].disk.full_at = Some("2026-11-24T00:00:00Z".to_owned()),
        "disk",
        Outcome::Warn,
        "n2: full in 3d 0h",
    ),
    (
        |it| it.nodes[1].disk.log_entries = 400_000,
        "files",
        Outcome::Warn,
        "n2: the log has 400000 entries, 20 times raft.snapshot_every",
    ),
    (
        |it| {
            // Messages from n1 to n3 are lost; those from n3 to n1 arrive.
            no_answer(&mut it.nodes[0].links[1], true);
            it.nodes[0].links[1].error = Some("no answer in time".to_owned());
            no_answer(&mut it.nodes[2].links[0], false);
        },
        "links",
        Outcome::Fail,
        "one-way partition: n1 does not reach n3, although n3 reaches n1: no answer in time",
    ),
    (
        |it| {
            // n2 cannot open connections to n1; its answers on those of n1 arrive.
            it.nodes[1].links[0].round_trip_ms = None;
            it.nodes[0].links[0].receives = false;
        },
        "links",
        Outcome::Fail,
        "one-way partition: n2 does not reach n1, although n1 reaches n2",
    ),
    (
        |it| {
            no_answer(&mut it.nodes[1].links[1], false);
            no_answer(&mut it.nodes[2].links[1], false);
        },
        "links",
        Outcome::Fail,
        "n2 and n3 do not reach each other, although both run",
    ),
    (
        |it| it.nodes[0].links[0].round_trip_ms = Some(150.0),
        "links",
        Outcome::Warn,
        "n1 to n2: 150 ms round trip",
    ),
    (
        |it| it.nodes[2].version = "0.2.0".to_owned(),
        "versions",
        Outcome::Fail,
        "n1, n2: 0.1.0, levels 1 to 1; n3: 0.2.0, levels 1 to 1",
    ),
    (
        |it| set_at_n3(it, "raft.election", "x"),
        "configuration",
        Outcome::Fail,
        "raft.election differs",
    ),
    (
        |it| set_at_n3(it, "segment.min", "7"),
        "configuration",
        Outcome::Warn,
        "segment.min differs: 7 at n3, not set at n1, n2",
    ),
    (
        |it| {
            for (node, token) in it.nodes.iter_mut().zip(["aa", "bb", "aa"]) {
                node.operator_token = Some(token.to_owned());
            }
        },
        "configuration",
        Outcome::Fail,
        "the operator's token differs between n1, n3 and n2",
    ),
    (
        |it| {
            it.cluster.members[2].state = MemberState::Unreachable;
            it.nodes.truncate(2);
            it.missing = vec![missing("n3", "connection refused")];
            for node in &mut it.nodes {
                no_answer(&mut node.links[1], false);
            }
            it.cluster.quorum = Quorum::of(3, 2);
        },
        "members",
        Outcome::Fail,
        "n3 is unreachable from n1: connection refused",
    ),
    (
        |it| {
            it.nodes.truncate(2);
            it.missing = vec![missing("n3", "unknown route")];
        },
        "members",
        Outcome::Fail,
        "n3 did not send its facts: unknown route",
    ),
    (
        |it| it.cluster.quorum = Quorum::of(3, 1),
        "quorum",
        Outcome::Fail,
        "quorum LOST: 1 of 3 voters, 2 are needed",
    ),
    (
        |it| it.nodes.iter_mut().for_each(|node| node.leader = None),
        "leader",
        Outcome::Fail,
        "no leader",
    ),
    (
        |it| {
            let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            it.cluster.voter_change = Some(VoterChange {
                former: names(&["n1"]),
                new: names(&["n1", "n4"]),
            });
        },
        "quorum",
        Outcome::Fail,
        "a change of voters is under way and needs n4",
    ),
    (
        |it| it.nodes[0].leader = None,
        "leader",
        Outcome::Fail,
        "n1, the leader, has no contact with a quorum",
    ),
    (
        |it| it.nodes[1].leader_changes = 12,
        "leader",
        Outcome::Warn,
        "12 leader changes in ten minutes",
    ),
    (
        |it| {
            it.nodes[0].not_ready = Some("this node is being drained".to_owned());
            it.cluster.members[0].state = MemberState::Draining;
        },
        "members",
        Outcome::Warn,
        "n1 is draining",
    ),
    (
        |it| it.nodes[1].not_ready = Some("the disk hangs".to_owned()),
        "readiness",
        Outcome::Fail,
        "n2 is not ready: the disk hangs",
    ),
    (
        |it| it.cluster.members[1].lag_entries = Some(50_000),
        "replication",
        Outcome::Warn,
        "voter n2 lags by 50000 entries",
    ),
    (
        |it| {
            it.nodes[1].descriptors = Some(DescriptorFacts {
                open: 60,
                limit: 1024,
            })
        },
        "descriptors",
        Outcome::Fail,
        "n2: 60 open files of 1024",
    ),
    (
        |it| it.nodes[1].certificates = vec![certificate("2026-11-24T00:00:00Z")],
        "certificates",
        Outcome::Fail,
        "n2: the certificate for the peer port expires in 3 days",
    ),
    (
        |it| it.nodes[1].certificates = vec![certificate("2026-12-11T00:00:00Z")],
        "certificates",
        Outcome::Warn,
        "expires in 20 days",
    ),
    (
        |it| it.nodes[2].exposed = vec!["http.listen serves other machines".to_owned()],
        "exposure",
        Outcome::Warn,
        "n3: http.listen serves other machines",
    ),
    (
        |it| it.nodes[2].windows[0].left_ms = 4_000,
        "window",
        Outcome::Warn,
        "n3: the window of layout default ends in 4.0 s",
    ),
    (
        |it| it.cluster.layouts[0].exhausted_at = "2027-03-01T00:00:00Z".to_owned(),
        "layouts",
        Outcome::Warn,
        "layout default ends at 2027-03-01T00:00:00Z, in 100 days",
    ),
    (
        // The rest is reserved for the nodes.
        |it| leased(it, 899, 0),
        "workers",
        Outcome::Fail,
        "layout default: 899 of 1024 workers are leased, and clients can lease 0 more",
    ),
    (
        |it| leased(it, 810, 89),
        "workers",
        Outcome::Warn,
        "layout default: 810 of 1024 workers are leased, and clients can lease 89 more",
    ),
    (
        |it| {
            it.sequences = vec![SequenceLeft {
                name: "invoice".to_owned(),
                remaining_ratio: 0.01,
            }];
        },
        "sequences",
        Outcome::Fail,
        "invoice has 1.0 % left",
    ),
    (
        |it| it.resources = vec![resource(85, 1)],
        "limits",
        Outcome::Warn,
        "limits.keys: 85 of 100 are in use",
    ),
    (
        |it| it.resources = vec![resource(30, 25)],
        "limits",
        Outcome::Warn,
        "limits.keys: token:7 holds 25 of its share of 25",
    ),
];

/// Sets a link over which the node gets no answers, and whether it receives messages.
fn no_answer(link: &mut LinkFacts, receives: bool) {
    (link.round_trip_ms, link.receives) = (None, receives);
}

fn set_at_n3(facts: &mut Facts, key: &str, value: &str) {
    let config = &mut facts.nodes[2].config;
    config.insert(key.to_owned(), value.to_owned());
}

fn missing(name: &str, reason: &str) -> MissingFacts {
    let (name, reason) = (name.to_owned(), reason.to_owned());
    MissingFacts { name, reason }
}

fn latency(p50_ms: f64, p99_ms: f64) -> LatencyFacts {
    LatencyFacts {
        count: 500,
        p50_ms,
        p99_ms,
    }
}

fn certificate(expires_at: &str) -> CertificateFacts {
    CertificateFacts {
        used_for: "peer".to_owned(),
        expires_at: expires_at.to_owned(),
    }
}

fn resource(used: u64, largest: u64) -> ResourceUse {
    ResourceUse {
        limit_key: "limits.keys".to_owned(),
        used,
        limit: 100,
        largest_tenant: Some("token:7".to_owned()),
        largest,
        share: 25,
    }
}

#[test]
fn one_wrong_thing_is_named_with_a_reason_and_a_remedy() {
    for (wrong, name, outcome, detail) in WRONG {
        let mut facts = facts();
        wrong(&mut facts);
        let checks = judged(&facts);
        let found = checks.iter().find(|it| it.check == *name);
        let found = found.unwrap_or_else(|| panic!("{detail}: {checks:?}"));
        assert_eq!(found.result, *outcome, "{found:?}");
        assert!(found.detail.contains(detail), "{detail}: {found:?}");
        assert!(
            !found.why.is_empty() && found.what_to_do.len() > 10,
            "{found:?}"
        );
        // A lost member also costs the quorum its reserve; nothing else is blamed.
        let others = checks.iter().filter(|it| it.check != *name);
        let blamed: Vec<_> = others.filter(|it| it.check != "quorum").collect();
        assert!(blamed.is_empty(), "{detail}: {blamed:?}");
    }
}

#[test]
fn text_shows_the_reason_of_each_problem_and_of_all_checks_with_verbose() {
    let mut facts = facts();
    facts.nodes[1].descriptors = Some(DescriptorFacts {
        open: 60,
        limit: 600,
    });
    let diagnosis = Diagnosis {
        healthy: false,
        node: "n1".to_owned(),
        checks: check_all(&facts, NOW.parse().unwrap()),
    };
    let text = |verbose| {
        report(&diagnosis, verbose)
            .unwrap()
            .text(crate::format::Format::Table)
    };
    let short = text(false);
    assert!(short.contains("fail  descriptors"), "{short}");
    assert_eq!(short.matches("why: ").count(), 1, "{short}");
    assert!(
        short.contains("do: on n2: raise the limit (LimitNOFILE=65536"),
        "{short}"
    );
    assert!(
        short.ends_with("21 checks by n1: 20 ok, 0 warn, 1 fail.\n"),
        "{short}"
    );
    assert_eq!(text(true).matches("why: ").count(), 21);
}

#[test]
fn a_check_without_data_is_not_ok() {
    let mut facts = facts();
    facts.nodes.truncate(1);
    for link in &mut facts.nodes[0].links {
        no_answer(link, false);
    }
    for member in &mut facts.cluster.members[1..] {
        member.state = MemberState::Unreachable;
        facts
            .missing
            .push(missing(&member.name, "connection refused"));
    }
    facts.cluster.quorum = Quorum::of(3, 1);
    let checks = check_all(&facts, NOW.parse().unwrap());
    let skipped = checks.iter().filter(|it| it.result == Outcome::Skip);
    let skipped: Vec<_> = skipped.map(|it| (it.check, it.detail.as_str())).collect();
    let why = "not checked: only n1 answers";
    let expected = ["links", "replication", "clock", "versions", "configuration"];
    assert_eq!(skipped, expected.map(|check| (check, why)));
    let json = serde_json::to_value(&checks[4]).unwrap();
    assert_eq!(json["result"], "skip");

    // A cluster of one member has nothing to compare.
    facts.cluster.members.truncate(1);
    facts.missing.clear();
    facts.cluster.quorum = Quorum::of(1, 1);
    let checks = check_all(&facts, NOW.parse().unwrap());
    assert!(checks.iter().all(|it| it.result != Outcome::Skip));
}
