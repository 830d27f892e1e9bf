//! Reads the metrics of the node's parts at a scrape.

use std::fmt;

use seqd_idgen::{Agreement, Layout, Standing};
use seqd_raft::{MemberStatus, Status};
use seqd_state::{LayoutUse, SequenceRecord, State};

use super::Parts;
use super::page::each_sequence;
#[cfg(target_os = "linux")]
use super::process;
use crate::REVISION;
use crate::metrics::{Labels, MAX_SEQUENCE_LABELS, Scrape};
use crate::minting::Minter;

/// The text of all metrics.
pub(super) fn text(node: &Parts) -> Result<String, fmt::Error> {
    node.metrics.text(read(node))
}

fn label(layout: &Layout) -> Labels {
    vec![("layout", layout.name().to_owned())]
}

fn kind(name: &str) -> Labels {
    vec![("kind", name.to_owned())]
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn read(node: &Parts) -> Scrape {
    let mut scrape = Scrape::new();
    minting(node, &mut scrape);
    layouts(node, &mut scrape);
    sequences(node, &mut scrape);
    keys(node, &mut scrape);
    locks(node, &mut scrape);
    raft(node, &mut scrape);
    storage(node, &mut scrape);
    let expiry = node.tls.expiry().into_iter();
    scrape.by_label(
        "tls_certificate_expiry_timestamp_seconds",
        "When the certificate in force expires",
        expiry.map(|(name, until)| (vec![("use", name.to_owned())], until as f64)),
    );
    let version = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("revision", REVISION.unwrap_or("unknown").to_owned()),
    ];
    scrape.by_label("build_info", "The running binary", [(version, 1.0)]);
    #[cfg(target_os = "linux")]
    process::read(&mut scrape);
    scrape
}

fn minting(node: &Parts, scrape: &mut Scrape) {
    let all = node.minters.all();
    let minted = all
        .iter()
        .map(|minter| (label(minter.layout()), minter.minted()));
    scrape.count_by_label("ids_generated", "IDs given to clients", minted);
    let refused = all.iter().flat_map(|minter| {
        minter.refused().into_iter().map(|(code, count)| {
            let mut labels = label(minter.layout());
            labels.push(("code", code.to_owned()));
            (labels, count)
        })
    });
    scrape.count_by_label("ids_refused", "Requests for IDs that were refused", refused);
    let mut each = |name, help, value: &dyn Fn(&Minter) -> Option<f64>| {
        let values = all
            .iter()
            .filter_map(|minter| Some((label(minter.layout()), value(minter)?)));
        scrape.by_label(name, help, values);
    };
    each("worker_id", "The worker that this node holds", &|minter| {
        Some(f64::from(minter.window()?.worker.0))
    });
    let help = "Workers that this node holds";
    each("workers_held", help, &|minter| {
        Some(minter.windows().len() as f64)
    });
    let help = "The end of this node's window";
    each("worker_fence_timestamp_seconds", help, &|minter| {
        Some(minter.window()?.ends.0 as f64 / 1000.0)
    });
    scrape.count(
        "clock_regressions",
        "Rollbacks of the clock beyond the tolerance",
        node.clock.regressions(),
    );
}

/// Adds the series of the layouts in use. Except for the estimate, they are equal on all nodes.
fn layouts(node: &Parts, scrape: &mut Scrape) {
    let in_use = node.raft.state(|state| state.layouts_in_use());
    let mut each = |name, help, value: &dyn Fn(&LayoutUse) -> Option<f64>| {
        let values = in_use
            .iter()
            .filter_map(|it| Some((label(&it.layout), value(it)?)));
        scrape.by_label(name, help, values);
    };
    let help = "When the time field is full";
    each("layout_exhaustion_timestamp_seconds", help, &|it| {
        Some(it.layout.exhausted_at().0 as f64 / 1000.0)
    });
    each("workers_assigned", "Workers with a live lease", &|it| {
        Some(f64::from(it.assigned))
    });
    each("workers_free", "Workers without a live lease", &|it| {
        Some(f64::from(it.layout.workers().saturating_sub(it.assigned)))
    });
    let help = "Workers that clients can still lease: free and not reserved for the nodes";
    each("workers_free_for_clients", help, &|it| {
        Some(f64::from(it.free_for_clients))
    });
    let help = "When clients can lease no worker, if leases keep growing at the rate of the last \
         day; absent while they do not grow";
    each("workers_exhaustion_timestamp_seconds", help, &|it| {
        let left = node.worker_counts.run_out_in(it)?;
        Some(node.clock.after(left).0 as f64 / 1000.0)
    });
    each("workers_capacity", "Workers that the layout has", &|it| {
        Some(f64::from(it.layout.workers()))
    });
}

fn keys(node: &Parts, scrape: &mut Scrape) {
    let (keys, bytes, tokens) = node.raft.state(|state| {
        let tokens = state.one_time_count();
        (state.keys_count(), state.key_bytes(), tokens)
    });
    let help = "Idempotency keys, of users and of requests";
    scrape.one("keys", help, keys as f64);
    let help = "Bytes of the results of all idempotency keys";
    scrape.one("key_result_bytes", help, bytes as f64);
    let help = "One-time tokens, used ones included";
    scrape.one("one_time_tokens", help, tokens as f64);
}

/// Adds the series of sequences. Sequences beyond those with series of their own share one, which
/// has the smallest of their values.
fn sequences(node: &Parts, scrape: &mut Scrape) {
    let ratio = |record: &SequenceRecord| {
        let total = record.definition.progression.total()?;
        Some(record.remaining()? as f64 / total as f64)
    };
    let mut named = Vec::new();
    let (mut others, mut least) = (0, None::<f64>);
    each_sequence(&node.raft, |name, record| {
        if named.len() < MAX_SEQUENCE_LABELS {
            named.push((name.clone(), ratio(record)));
        } else {
            others += 1;
            least = ratio(record).into_iter().chain(least).reduce(f64::min);
        }
    });
    // Their counters exist before their first values are issued.
    for (name, _) in &named {
        node.metrics.allocated(name.as_str(), 0);
    }
    let label = |name: &str| vec![("sequence", name.to_owned())];
    let ratios = named
        .iter()
        .filter_map(|(name, ratio)| Some((label(name.as_str()), (*ratio)?)));
    scrape.by_label(
        "sequence_remaining_ratio",
        "The remaining part of a sequence; for `other` the smallest",
        ratios.chain(least.map(|least| (label("other"), least))),
    );
    scrape.one(
        "sequences_without_series",
        "Sequences whose metrics are in the series `other`",
        others as f64,
    );
}

fn locks(node: &Parts, scrape: &mut Scrape) {
    let counts = node.raft.state(State::lock_counts);
    scrape.one("locks_held", "Holds of locks", counts.holders as f64);
    let help = "Requests that wait for a lock, at any node";
    scrape.one("lock_waiters", help, counts.waiters as f64);
    let help = "Grants of locks that this node applied since it started";
    scrape.count("lock_grants", help, counts.granted);
    let help = "Expired holds of locks that this node applied since it started";
    scrape.count("lock_expiries", help, counts.expired);
}

fn raft(node: &Parts, scrape: &mut Scrape) {
    let status: Status = node.raft.status();
    let is_leader = status.node_id.is_some() && status.leader == status.node_id;
    scrape.one("raft_is_leader", "Whether this node leads", flag(is_leader));
    let has_leader = flag(status.leader.is_some() && status.has_quorum_contact);
    scrape.one(
        "raft_has_leader",
        "Whether a leader with a quorum is known",
        has_leader,
    );
    scrape.one("raft_term", "The current term", status.term as f64);
    let help = "Voters of the cluster";
    scrape.one("raft_voters", help, status.voters as f64);
    let help = "Voters that this node reaches, itself included";
    scrape.one("raft_voters_reachable", help, status.reachable as f64);
    scrape.one(
        "raft_last_log_index",
        "This node's last entry",
        status.last_log as f64,
    );
    scrape.one(
        "raft_applied_index",
        "The last applied entry",
        status.applied as f64,
    );
    scrape.one(
        "raft_committed_index",
        "The last committed entry that the leader reported to this node",
        status.committed as f64,
    );
    scrape.one(
        "raft_purged_index",
        "The last purged entry of the log: a node without this entry receives a snapshot",
        status.purged as f64,
    );
    scrape.one(
        "raft_proposals_pending",
        "Proposals that wait on this node",
        status.proposals_pending as f64,
    );
    scrape.count(
        "raft_leader_changes",
        "Changes of the leader that this node observed",
        status.leader_changes,
    );
    let others = || others(&status);
    let lag = others().filter_map(|member| {
        Some((
            peer(&member.name),
            status.last_log.saturating_sub(member.applied?) as f64,
        ))
    });
    scrape.by_label(
        "raft_replication_lag_entries",
        "Entries that a peer has yet to apply",
        lag,
    );
    clocks(&status, scrape);
}

fn others(status: &Status) -> impl Iterator<Item = &MemberStatus> {
    let members = status.members.iter();
    members.filter(|member| member.name != status.name)
}

/// A label for a member.
fn peer(name: &str) -> Labels {
    vec![("peer", name.to_owned())]
}

fn clocks(status: &Status, scrape: &mut Scrape) {
    let others = || others(status);
    let offsets = others()
        .filter_map(|member| Some((peer(&member.name), member.clock_offset_ms? as f64 / 1000.0)));
    scrape.by_label(
        "clock_offset_seconds",
        "A peer's clock minus this node's",
        offsets,
    );
    let split = status.agreement == Some(Agreement::Split);
    scrape.one(
        "clocks_split",
        "1 if no majority of the voters' clocks agrees, so that this node issues no IDs",
        flag(split),
    );
    let clock_of = |member: &MemberStatus| status.clocks.get(&member.id).copied();
    let members = || status.members.iter();
    let wrong = members().filter_map(|member| {
        let is_wrong = matches!(clock_of(member)?.standing, Standing::Wrong { .. });
        Some((peer(&member.name), f64::from(u8::from(is_wrong))))
    });
    scrape.by_label(
        "clock_wrong",
        "1 if the clock of this member, or of this node, differs from a majority of the voters' \
         clocks",
        wrong,
    );
    let drifts = others()
        .filter_map(|member| Some((peer(&member.name), clock_of(member)?.drift_ppm? / 1e6)));
    scrape.by_label(
        "clock_drift_ratio",
        "Drift of a peer's clock relative to this node's, in seconds a second; absent in the first \
         minute",
        drifts,
    );
}

fn storage(node: &Parts, scrape: &mut Scrape) {
    let stats = node.raft.storage_stats();
    let bytes = [
        (kind("wal"), stats.wal_bytes as f64),
        (kind("snapshot"), stats.snapshot_bytes as f64),
        (kind("checkpoint"), stats.checkpoint_bytes as f64),
    ];
    scrape.by_label("storage_bytes", "Bytes on disk", bytes);
    scrape.one(
        "disk_free_bytes",
        "Free bytes of the file system with the folder",
        stats.free_bytes as f64,
    );
    if let Some(total) = stats.total_bytes {
        let help = "Size of the file system with the folder";
        scrape.one("disk_size_bytes", help, total as f64);
    }
    scrape.one(
        "disk_reserve_bytes",
        "Free bytes below which writes of clients are refused",
        stats.reserve_bytes as f64,
    );
    scrape.one(
        "raft_disk_stalled_seconds",
        "The age of the current write of the log",
        stats.stalled_seconds,
    );
    scrape.count(
        "checkpoint_rebuilds",
        "Checkpoints set aside and rebuilt",
        stats.checkpoint_rebuilds,
    );
    scrape.count(
        "snapshots_set_aside",
        "Damaged snapshots that were set aside",
        stats.snapshots_set_aside,
    );
    scrape.count(
        "log_torn_tails",
        "Interrupted writes of the log that were cut off",
        stats.torn_tails,
    );
    scrape.histogram(
        "raft_fsync_duration_seconds",
        "Duration of the log's fdatasync",
        stats.fsync_seconds,
        stats.fsyncs,
        &stats.fsync_buckets,
    );
    let (commits, seconds) = stats.commits;
    scrape.histogram(
        "raft_commit_duration_seconds",
        "Time from a proposal to its commit",
        seconds,
        commits,
        &stats.commit_buckets,
    );
}
