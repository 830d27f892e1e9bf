//! Checks of each node: its clock, disk, files, certificates and ports.

use jiff::Timestamp;
use seqd_client::api::{ClockAgreement, Facts, LatencyFacts, NodeFacts};

use super::alone;
use super::check::{Check, Finding, either, fail, warn};
use super::settings::{duration_ms, election_ms};
use crate::display::{self, SECONDS_PER_DAY, seconds_to};

/// The used parts of a disk from which the check warns and fails. A disk with at least
/// [`MUCH_ROOM`] free bytes does not count as full.
const NEARLY_FULL: f64 = 0.85;
const FULL: f64 = 0.95;
const MUCH_ROOM: u64 = 64 << 30;

/// With fewer than [`FEW_DESCRIPTORS`], one or two pools of clients use up all connections. With at
/// least [`ENOUGH_DESCRIPTORS`], descriptors do not limit the number of clients.
const FEW_DESCRIPTORS: u64 = 2_048;
const ENOUGH_DESCRIPTORS: u64 = 6_144;

/// The used part of the descriptors from which connections are about to be refused.
const DESCRIPTORS_USED: f64 = 0.9;

/// NTP slews a clock by at most this rate, so a faster clock cannot be corrected smoothly.
const MAX_DRIFT_PPM: f64 = 500.0;

/// The age of a write, in election timeouts, above which the disk may hang.
const STALLED: f64 = 1.25;

/// The least number of syncs for which the 99th percentile counts.
const ENOUGH_FOR_P99: u64 = 100;

/// The thresholds for the time until a certificate expires, in days.
const CERTIFICATE_WARNS: i64 = 30;
const CERTIFICATE_FAILS: i64 = 7;

/// A log of more than this many times `raft.snapshot_every` is not purged.
const LONG_LOG: f64 = 10.0;

pub(super) fn clocks(facts: &Facts) -> Check {
    let check_time = "correct it with its time service (chronyc tracking, then chronyc makestep), \
        without a restart of seqd: the node serves again by itself";
    let correct = |name: &str| format!("on {name}: {check_time}");
    let members = &facts.cluster.members;
    let wrong = members
        .iter()
        .filter_map(|member| Some(fail(display::wrong_clock(member)?, correct(&member.name))));
    let mut findings: Vec<Finding> = wrong.collect();
    if findings.is_empty() && facts.cluster.clocks == ClockAgreement::Split {
        findings.push(fail(
            "no majority of the clocks agrees",
            format!("compare the clock of each node with a correct one; {check_time}"),
        ));
    }
    let limit = facts.nodes.first().map_or(500.0, |node| {
        duration_ms(&node.config, "clock.max_peer_skew", 500.0)
    });
    for member in members.iter().filter(|it| it.clock_ahead_ms.is_none()) {
        let offset = member.clock_offset_ms.filter(|ms| ms.abs() > limit / 2.0);
        findings.extend(offset.map(|ms| {
            warn(
                format!(
                    "the clock of {} differs by {ms:+.0} ms from that of {}",
                    member.name, facts.node
                ),
                correct(&member.name),
            )
        }));
        let drift = member
            .clock_drift_ppm
            .filter(|ppm| ppm.abs() > MAX_DRIFT_PPM);
        findings.extend(drift.map(|ppm| {
            warn(
                format!("the clock of {} drifts by {ppm:+.0} ppm", member.name),
                correct(&member.name),
            )
        }));
    }
    let most = |of: &dyn Fn(&seqd_client::api::Member) -> Option<f64>| {
        members
            .iter()
            .filter_map(of)
            .map(f64::abs)
            .fold(0.0, f64::max)
    };
    let (offset, drift) = (
        most(&|it| it.clock_offset_ms),
        most(&|it| it.clock_drift_ppm),
    );
    Check::of(
        "clock",
        "IDs contain the time: a node whose clock is wrong issues none, and a node whose clock was \
         set back waits until it is right",
        findings,
        format!("offsets up to {offset:.1} ms of {limit:.0} allowed, drift up to {drift:.0} ppm"),
    )
    .unless(alone(facts))
}

pub(super) fn fsync(facts: &Facts) -> Check {
    let mut findings = Vec::new();
    for node in &facts.nodes {
        let election = election_ms(&node.config);
        let (name, fsync) = (&node.name, node.fsync);
        if node.disk.stalled_ms > STALLED * election {
            findings.push(fail(
                format!(
                    "{name}: a write of the log has not returned for {}",
                    display::milliseconds(node.disk.stalled_ms as u64)
                ),
                format!("on {name}: check the disk (dmesg, iostat -x 1); replace it if it hangs"),
            ));
        }
        // A median that large is the disk; single slow syncs are also other work on the machine.
        let is_slow = fsync.p50_ms >= election / 8.0 && fsync.count >= LatencyFacts::ENOUGH;
        let is_uneven = fsync.p99_ms >= election / 2.0 && fsync.count >= ENOUGH_FOR_P99;
        findings.extend(either(
            (is_slow || is_uneven, fsync.p99_ms >= election / 8.0),
            format!(
                "{name}: a sync takes {:.1} ms, p99 {:.1} ms (of {} in ten minutes)",
                fsync.p50_ms, fsync.p99_ms, fsync.count
            ),
            format!(
                "on {name}: move the data folder to a local SSD or NVMe disk that nothing else \
                 uses; or raise raft.heartbeat and raft.election on every node (p99 should be \
                 below {:.0} ms)",
                election / 8.0
            ),
        ));
    }
    let worst = facts.nodes.iter().map(|node| node.fsync.p99_ms);
    Check::of(
        "fsync",
        "a write is acknowledged after a sync on a majority; syncs that approach the election \
         timeout cause elections",
        findings,
        format!("p99 up to {:.1} ms", worst.fold(0.0, f64::max)),
    )
}

pub(super) fn commit(facts: &Facts) -> Check {
    let slow = facts.nodes.iter().filter_map(|node| {
        let (election, commit) = (election_ms(&node.config), node.commit);
        either(
            (
                commit.p50_ms >= election,
                commit.p99_ms >= election || commit.p50_ms >= election / 4.0,
            ),
            format!(
                "{}: a commit takes {:.1} ms, p99 {:.1} ms (of {} in ten minutes)",
                node.name, commit.p50_ms, commit.p99_ms, commit.count
            ),
            "see fsync and links of the voters: a commit waits for the faster half of them",
        )
    });
    let worst = facts.nodes.iter().map(|node| node.commit.p99_ms);
    Check::of(
        "commit",
        "strict sequences, locks and idempotency keys wait for a commit each",
        slow,
        format!("p99 up to {:.1} ms", worst.fold(0.0, f64::max)),
    )
}

pub(super) fn disk(facts: &Facts, now: Timestamp) -> Check {
    let findings = facts.nodes.iter().flat_map(|node| space(node, now));
    let used = facts.nodes.iter().map(|node| used(node) * 100.0);
    Check::of(
        "disk",
        "a node with only its reserve left refuses writes, and a full disk stops it",
        findings,
        format!("at most {:.0} % used", used.fold(0.0, f64::max)),
    )
}

fn used(node: &NodeFacts) -> f64 {
    let all = node.disk.used_bytes.saturating_add(node.disk.free_bytes);
    node.disk.used_bytes as f64 / (all as f64).max(1.0)
}

fn space(node: &NodeFacts, now: Timestamp) -> Vec<Finding> {
    let (name, disk) = (&node.name, &node.disk);
    let remedy = format!(
        "on {name}: free or add space on the disk of {}; the page DISK of the documentation \
         lists what may be deleted",
        node.config
            .get("node.data_dir")
            .map_or("the data folder", String::as_str)
    );
    let used = used(node);
    let has_room = disk.free_bytes >= MUCH_ROOM;
    let low = disk.free_bytes < disk.reserve_bytes;
    let mut findings: Vec<Finding> = either(
        (
            low || used >= FULL && !has_room,
            used >= NEARLY_FULL && !has_room,
        ),
        format!(
            "{name}: {:.0} % used, {} free, {} in reserve",
            used * 100.0,
            display::size(disk.free_bytes),
            display::size(disk.reserve_bytes)
        ),
        remedy.clone(),
    )
    .into_iter()
    .collect();
    let left = disk.full_at.as_deref().and_then(|at| seconds_to(at, now));
    findings.extend(left.and_then(|seconds| {
        either(
            (seconds < SECONDS_PER_DAY, seconds < 7 * SECONDS_PER_DAY),
            format!(
                "{name}: full in {} if it keeps filling as in the last day",
                display::milliseconds(seconds.max(0) as u64 * 1000)
            ),
            remedy,
        )
    }));
    findings
}

pub(super) fn files(facts: &Facts) -> Check {
    let findings = facts.nodes.iter().filter_map(|node| {
        let every = node
            .config
            .get("raft.snapshot_every")?
            .parse::<f64>()
            .ok()?;
        let entries = node.disk.log_entries as f64;
        (entries > LONG_LOG * every).then(|| {
            warn(
                format!(
                    "{}: the log has {} entries, {:.0} times raft.snapshot_every",
                    node.name,
                    node.disk.log_entries,
                    entries / every
                ),
                format!(
                    "on {}: look in its log for snapshots that fail; a member that is down keeps \
                     the log long",
                    node.name
                ),
            )
        })
    });
    let most = |of: fn(&NodeFacts) -> u64| {
        display::size(facts.nodes.iter().map(of).max().unwrap_or_default())
    };
    Check::of(
        "files",
        "a long log makes a start slow and fills the disk",
        findings,
        format!(
            "log up to {}, snapshots {}, checkpoint {}",
            most(|node| node.disk.log_bytes),
            most(|node| node.disk.snapshot_bytes),
            most(|node| node.disk.checkpoint_bytes)
        ),
    )
}

pub(super) fn descriptors(facts: &Facts) -> Check {
    let known = || {
        let nodes = facts.nodes.iter();
        nodes.filter_map(|node| Some((&node.name, node.descriptors?)))
    };
    let findings = known().filter_map(|(name, files)| {
        let is_used = files.open as f64 > DESCRIPTORS_USED * files.limit as f64;
        either(
            (
                files.limit < FEW_DESCRIPTORS || is_used,
                files.limit < ENOUGH_DESCRIPTORS,
            ),
            format!("{name}: {} open files of {}", files.open, files.limit),
            format!(
                "on {name}: raise the limit (LimitNOFILE=65536 in the systemd unit, or ulimit -n) \
                 and restart it"
            ),
        )
    });
    let least = known().map(|(_, files)| files.limit).min();
    Check::of(
        "descriptors",
        "each connection is an open file: a node without free ones refuses clients, and one that \
         cannot open its log stops",
        findings,
        least.map_or_else(
            || "unknown".to_owned(),
            |least| format!("at least {least} per node"),
        ),
    )
}

pub(super) fn certificates(facts: &Facts, now: Timestamp) -> Check {
    let all = || {
        let nodes = facts.nodes.iter();
        nodes.flat_map(|node| node.certificates.iter().map(move |it| (node, it)))
    };
    let findings = all().filter_map(|(node, certificate)| {
        let seconds = seconds_to(&certificate.expires_at, now)?;
        let (name, used_for) = (&node.name, &certificate.used_for);
        let when = if seconds <= 0 {
            format!("expired at {}", certificate.expires_at)
        } else {
            format!("expires in {} days", seconds / SECONDS_PER_DAY)
        };
        either(
            (
                seconds < CERTIFICATE_FAILS * SECONDS_PER_DAY,
                seconds < CERTIFICATE_WARNS * SECONDS_PER_DAY,
            ),
            format!("{name}: the certificate for the {used_for} port {when}"),
            format!(
                "seqd tls renew --dir DIR --node {name}, and copy the files to {name} under the \
                 same names: they are loaded without a restart"
            ),
        )
    });
    let first = all()
        .filter_map(|(_, it)| seconds_to(&it.expires_at, now))
        .min();
    Check::of(
        "certificates",
        "after the end of a certificate no node and no client connects to this node",
        findings,
        first.map_or_else(
            || "none in use".to_owned(),
            |seconds| format!("the first expires in {} days", seconds / SECONDS_PER_DAY),
        ),
    )
}

pub(super) fn exposure(facts: &Facts) -> Check {
    let open = facts.nodes.iter().flat_map(|node| {
        node.exposed.iter().map(move |open| {
            warn(
                format!("{}: {open}", node.name),
                "make certificates (seqd tls init) and set [tls] and [auth], or listen on \
                 127.0.0.1 alone",
            )
        })
    });
    Check::of(
        "exposure",
        "any machine that reaches an open port can take numbers, break locks or act as a node",
        open,
        "no port serves other machines without TLS and authentication",
    )
}

/// A window that begins after that of the worker's previous holder ends within this many windows.
/// One that ends later was granted by clocks that were ahead.
const MOST_WINDOWS_LEFT: f64 = 4.0;

pub(super) fn windows(facts: &Facts) -> Check {
    let all = || {
        let nodes = facts.nodes.iter();
        nodes.flat_map(|node| node.windows.iter().map(move |it| (node, it)))
    };
    let clock_is_right = |name: &str| {
        let member = facts.cluster.member(name);
        let is_wrong = member.is_some_and(|member| member.clock_ahead_ms.is_some());
        !is_wrong && facts.cluster.clocks != ClockAgreement::Split
    };
    let findings = all().filter_map(|(node, window)| {
        let left = window.left_ms as f64;
        if left > MOST_WINDOWS_LEFT * window.window_ms as f64 && clock_is_right(&node.name) {
            return Some(fail(
                format!(
                    "{}: the window of layout {} ends in {:.0} s: the clocks were ahead when it \
                     was granted",
                    node.name,
                    window.layout,
                    left / 1000.0
                ),
                format!(
                    "see the page CLOCKS of the documentation, All clocks were ahead: seqd worker \
                     reset {}",
                    node.name
                ),
            ));
        }
        either(
            (left <= 0.0, left < window.window_ms as f64 / 3.0),
            format!(
                "{}: the window of layout {} ends in {:.1} s",
                node.name,
                window.layout,
                left / 1000.0
            ),
            format!(
                "see quorum, leader and links: {} extends its window through the leader, and \
                 issues no IDs after the end",
                node.name
            ),
        )
    });
    let least = all().map(|(_, window)| window.left_ms).min();
    Check::of(
        "window",
        "without the cluster, a node issues IDs only until the end of its window",
        findings,
        least.map_or_else(
            || "no node has a window".to_owned(),
            |ms| format!("at least {:.1} s left", ms as f64 / 1000.0),
        ),
    )
}
