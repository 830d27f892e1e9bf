//! Keeps the log short: triggers snapshots by the log's bytes, and purges the log before them
//! except for the entries that other nodes will need. Also removes the partial file of a snapshot
//! that never arrived in full.
//!
//! openraft purges up to a fixed number of entries before its latest snapshot, even if a follower
//! still needs them. Under load, a follower on a slow link would find the log purged each time it
//! had received a snapshot, and would be sent another one forever. openraft therefore purges
//! nothing on its own, and the leader keeps
//!
//! - the entries that a follower lacks, while they are cheaper to send than a snapshot;
//! - the entries after a snapshot that is being sent to a follower, until the follower has caught
//!   up, up to a bound.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seqd_guards::is_out;

use super::next_beat;
use super::snapshot_turns::Turn;
use crate::blocking;
use crate::context::NodeContext;
use crate::replica::Replica;
use crate::space::DiskSpace;

/// Time between two checks: some ten megabytes of log on a fast disk.
const EVERY: Duration = Duration::from_millis(200);

/// Number of entries kept before the latest snapshot, so that a follower that was away briefly is
/// served from the log even by a leader that did not track it. Limited to half of the entries
/// between two snapshots.
const BEFORE_SNAPSHOT: u64 = 10_000;

/// The amounts of log that are kept, in bytes of entries.
#[derive(Clone, Copy)]
struct Limits {
    /// A snapshot is due after this many bytes of log or, if that is more, as many bytes as the
    /// latest snapshot has. The log therefore stays in proportion to the state however large the
    /// entries are, and a large state is not written too often.
    snapshot_after: u64,
    /// The most that is kept of the log before the latest snapshot.
    before_snapshot: u64,
    /// An amount that is always cheaper to send than a snapshot, which the receiver also has to
    /// write and install.
    cheap: u64,
    /// The upper limit: half a minute of the largest entries at the speed of a leader's disk. If
    /// the log grows by more while a node receives a snapshot, the node gets a newer snapshot.
    most: u64,
}

const LIMITS: Limits = Limits {
    snapshot_after: 64 << 20,
    before_snapshot: 16 << 20,
    cheap: 32 << 20,
    most: 512 << 20,
};

/// On a small disk, the log between two snapshots is at most the disk's size divided by
/// `AFTER_PART_OF_DISK`, and the log before a snapshot the size divided by `BEFORE_PART_OF_DISK`.
const AFTER_PART_OF_DISK: u64 = 16;
const BEFORE_PART_OF_DISK: u64 = 64;

/// On a nearly full disk, only the cheap amount is kept for other nodes.
fn limits(space: &DiskSpace) -> Limits {
    let limits = usual_limits();
    let most = if space.is_low() {
        limits.cheap
    } else {
        limits.most
    };
    let total = space.total();
    Limits {
        snapshot_after: limits.snapshot_after.min(total / AFTER_PART_OF_DISK),
        before_snapshot: limits.before_snapshot.min(total / BEFORE_PART_OF_DISK),
        most,
        ..limits
    }
}

fn usual_limits() -> Limits {
    // Simulated clusters run for seconds and must include snapshots, too.
    #[cfg(test)]
    if crate::platform::scope::current().is_some() {
        return Limits {
            snapshot_after: 64 << 10,
            before_snapshot: 4 << 10,
            cheap: 2 << 10,
            most: 32 << 10,
        };
    }
    LIMITS
}

struct Log {
    /// The latest snapshot's last entry, and its approximate size in bytes.
    snapshot: u64,
    snapshot_bytes: u64,
    /// Entries between two snapshots.
    snapshot_every: u64,
    purged: u64,
}

#[derive(Clone, Copy)]
struct Follower {
    node: u64,
    /// The last entry that the follower is known to have.
    matched: u64,
    /// The index of the snapshot that is being sent to the follower, or that it has received but
    /// not caught up from.
    sent: Option<u64>,
}

pub(crate) async fn purge(context: Arc<NodeContext>, replica: Arc<Replica>) {
    while !context.is_stopped() {
        next_beat(&context, EVERY).await;
        let space = &context.disk.space;
        let every = context.settings.snapshot_every;
        space.set_log_long(snapshot_if_due(&replica, every, limits(space)).await);
        purge_once(&replica, every, space).await;
        let applied = replica.applied.index.get();
        if replica.unfinished.is_obsolete(applied) {
            let unfinished = replica.unfinished.clone();
            let removed = blocking::run(move || {
                unfinished.remove_obsolete(applied);
                Ok(())
            });
            let _ = removed.await;
        }
    }
}

/// Triggers a snapshot if it is the node's turn, or if the log after the latest one has too many
/// bytes. openraft itself triggers one after `every` entries. Returns whether the log has outgrown
/// the snapshots.
async fn snapshot_if_due(replica: &Replica, every: u64, limits: Limits) -> bool {
    let (log, _) = look(replica, every);
    let behind = replica.wal.bytes_after(log.snapshot);
    let is_turn = turn(replica).is_due(replica.applied.index.get(), log.snapshot, every);
    if (is_turn || is_snapshot_due(&log, limits, behind))
        && let Err(error) = replica.raft.trigger().snapshot().await
    {
        tracing::debug!(%error, "no snapshot was taken");
    }
    let unapplied = replica.wal.bytes_after(replica.applied.index.get());
    is_log_long(&log, limits, behind.saturating_sub(unapplied))
}

fn turn(replica: &Replica) -> Turn {
    let metrics = replica.raft.metrics();
    let metrics = metrics.borrow_watched();
    let members = metrics.membership_config.nodes().map(|(id, _)| *id);
    Turn::of(replica.node, members)
}

fn is_snapshot_due(log: &Log, limits: Limits, bytes_behind_snapshot: u64) -> bool {
    bytes_behind_snapshot > snapshot_after(log, limits) && !is_out!(SnapshotByBytes)
}

/// The number of bytes of log after which a snapshot is due.
fn snapshot_after(log: &Log, limits: Limits) -> u64 {
    limits.snapshot_after.max(log.snapshot_bytes)
}

/// Writes are refused once the log since the latest snapshot exceeds this many times the bytes
/// after which a snapshot is due. An ordinary disk has written the snapshot while the log grows by
/// the second and third multiple.
const ROUNDS: u64 = 3;

/// Returns whether the log has outgrown the snapshots because the disk writes the log so much
/// faster. Only applied entries count, because the next snapshot makes these obsolete without the
/// help of any other node.
fn is_log_long(log: &Log, limits: Limits, applied_bytes: u64) -> bool {
    applied_bytes > snapshot_after(log, limits).saturating_mul(ROUNDS)
}

pub(crate) async fn purge_once(replica: &Replica, snapshot_every: u64, space: &DiskSpace) {
    let limits = limits(space);
    let (log, followers) = look(replica, snapshot_every);
    let bytes_after = |index| replica.wal.bytes_after(index);
    let upto = purge_upto(&log, &followers, limits, &bytes_after);
    let still_sent = followers.iter().filter(|follower| {
        let at = follower.has();
        let (matched, behind) = (follower.matched, bytes_after(at));
        behind <= limits.most && (matched < at || behind > limits.cheap)
    });
    let still_sent: Vec<_> = still_sent.map(|follower| follower.node).collect();
    replica.transfers.retain(&still_sent);
    if let Some(upto) = upto
        && let Err(error) = replica.raft.trigger().purge_log(upto).await
    {
        tracing::debug!(%error, upto, "the log was not purged");
    }
}

fn look(replica: &Replica, snapshot_every: u64) -> (Log, Vec<Follower>) {
    let metrics = replica.raft.metrics();
    let metrics = metrics.borrow_watched();
    let log = Log {
        snapshot: metrics.snapshot.map_or(0, |id| id.index()),
        snapshot_bytes: replica.largest_snapshot_bytes.load(Ordering::Relaxed),
        snapshot_every,
        purged: metrics.purged.map_or(0, |id| id.index()),
    };
    let others = metrics.replication.iter().flatten();
    let others = others.filter(|(node, _)| **node != replica.node);
    let followers = others.map(|(node, matched)| Follower {
        node: *node,
        matched: matched.map_or(0, |id| id.index()),
        sent: replica.transfers.to(*node),
    });
    (log, followers.collect())
}

impl Follower {
    /// The index up to which the follower needs no log once it has received the snapshot that is
    /// being sent.
    fn has(&self) -> u64 {
        self.matched.max(self.sent.unwrap_or(0))
    }
}

/// The number of entries that are kept before the latest snapshot: the limit by count, halved until
/// the entries fit into the limit by bytes.
fn kept_before_snapshot(log: &Log, limits: Limits, bytes_after: &dyn Fn(u64) -> u64) -> u64 {
    let mut before = BEFORE_SNAPSHOT.min(log.snapshot_every / 2);
    let behind = bytes_after(log.snapshot);
    let bytes = |before| bytes_after(log.snapshot.saturating_sub(before)).saturating_sub(behind);
    while before > 0 && bytes(before) > limits.before_snapshot {
        before /= 2;
    }
    before
}

/// The index up to which the log is to be purged; `None` if the purge would remove too little.
fn purge_upto(
    log: &Log,
    followers: &[Follower],
    limits: Limits,
    bytes_after: &dyn Fn(u64) -> u64,
) -> Option<u64> {
    let before = kept_before_snapshot(log, limits, bytes_after);
    let at_once = before / 10;
    let mut upto = log.snapshot.saturating_sub(before);
    if upto < log.purged + at_once.max(1) {
        return None;
    }
    let cheap = log.snapshot_bytes.clamp(limits.cheap, limits.most);
    for follower in followers {
        let has = follower.has();
        let most = if follower.sent.is_some() && !is_out!(ReceiverKept) {
            limits.most
        } else {
            cheap
        };
        // The entries that the follower lacks may already be purged.
        if (log.purged..upto).contains(&has) && bytes_after(has) <= most {
            upto = has;
        }
    }
    (upto >= log.purged + at_once.max(1)).then_some(upto)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Log = Log {
        snapshot: 500_000,
        snapshot_bytes: 0,
        snapshot_every: 20_000,
        purged: 300_000,
    };

    /// The last entry. All entries have 1 KiB.
    const LAST: u64 = 510_000;

    fn bytes_after(index: u64) -> u64 {
        LAST.saturating_sub(index) << 10
    }

    fn follower(matched: u64, sent: impl Into<Option<u64>>) -> Follower {
        Follower {
            node: 2,
            matched,
            sent: sent.into(),
        }
    }

    fn upto(log: &Log, followers: &[Follower]) -> Option<u64> {
        purge_upto(log, followers, LIMITS, &bytes_after)
    }

    #[test]
    fn the_log_is_purged_up_to_its_snapshot_when_that_frees_enough() {
        assert_eq!(upto(&LOG, &[]), Some(490_000));
        assert_eq!(upto(&LOG, &[follower(509_000, None)]), Some(490_000));
        let purged = |purged| Log { purged, ..LOG };
        assert_eq!(upto(&purged(489_500), &[]), None);
        assert_eq!(upto(&purged(490_000), &[]), None);
        let young = Log {
            snapshot: 9_000,
            purged: 0,
            ..LOG
        };
        assert_eq!(upto(&young, &[]), None);
        let frequent = Log {
            snapshot_every: 100,
            ..LOG
        };
        assert_eq!(upto(&frequent, &[]), Some(499_950));
    }

    #[test]
    fn a_snapshot_is_due_by_the_bytes_after_the_latest_one() {
        let due = |snapshot_bytes, behind| {
            let log = Log {
                snapshot_bytes,
                ..LOG
            };
            is_snapshot_due(&log, LIMITS, behind)
        };
        assert!(!due(0, 64 << 20));
        assert!(due(0, (64 << 20) + 1), "the log grows without a snapshot");
        assert!(!due(500 << 20, 500 << 20), "a large state is written again");
        assert!(due(500 << 20, (500 << 20) + 1));
    }

    #[test]
    fn a_log_is_too_long_after_three_times_the_bytes_after_which_a_snapshot_is_due() {
        let is_long = |snapshot_bytes, applied| {
            let log = Log {
                snapshot_bytes,
                ..LOG
            };
            is_log_long(&log, LIMITS, applied)
        };
        assert!(!is_long(0, 192 << 20));
        assert!(is_long(0, (192 << 20) + 1));
        assert!(!is_long(500 << 20, 1_500 << 20));
        assert!(is_long(500 << 20, (1_500 << 20) + 1));
    }

    #[test]
    fn large_entries_before_a_snapshot_are_purged() {
        // Entries of 64 KiB: 156 of 10,000 fit, after repeated halving.
        let large = |index: u64| LAST.saturating_sub(index) << 16;
        let upto = purge_upto(&LOG, &[], LIMITS, &large);
        assert_eq!(upto, Some(500_000 - 156));
    }

    #[test]
    fn a_follower_keeps_entries_that_are_smaller_than_a_snapshot() {
        // 25,000 entries have 25 MiB, 100,000 have 100 MiB.
        assert_eq!(upto(&LOG, &[follower(485_000, None)]), Some(485_000));
        assert_eq!(upto(&LOG, &[follower(410_000, None)]), Some(490_000));
        let large = Log {
            snapshot_bytes: 200 << 20,
            ..LOG
        };
        assert_eq!(upto(&large, &[follower(410_000, None)]), Some(410_000));
    }

    #[test]
    fn a_follower_that_lacks_purged_entries_keeps_nothing() {
        let large = Log {
            snapshot_bytes: 400 << 20,
            ..LOG
        };
        assert_eq!(upto(&large, &[follower(0, None)]), Some(490_000));
        assert_eq!(upto(&large, &[follower(299_999, None)]), Some(490_000));
        assert_eq!(upto(&large, &[follower(300_000, None)]), None);
    }

    #[test]
    fn the_log_after_a_sent_snapshot_is_kept_within_the_bound() {
        let others = [follower(509_000, None), follower(0, 400_000)];
        let kept = upto(&LOG, &others);
        assert_eq!(kept, Some(400_000), "purged behind a snapshot on its way");
        // The follower has the snapshot and continues after it.
        assert_eq!(upto(&LOG, &[follower(420_000, 400_000)]), Some(420_000));
        let heavy = |index| bytes_after(index) << 3;
        let purged = purge_upto(&LOG, &others, LIMITS, &heavy);
        assert_eq!(purged, Some(500_000 - 1_250), "as large as the log allows");
    }
}
