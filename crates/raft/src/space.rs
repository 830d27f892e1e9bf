//! The free space of the disk, and the limits that a node applies when it runs low.
//!
//! Invariants:
//! - Below the reserve, a client's command is proposed only if it removes, ends or releases
//!   something or controls access. The node's own entries (votes, the cluster's time, fences,
//!   membership) are written within the reserve.
//! - Below the floor, a follower takes no entries, because a failed write inside openraft's storage
//!   would end the process. It stays a follower, falls behind, and catches up once there is room. A
//!   leader below the floor proposes no client commands at all. A snapshot leaves half of these
//!   bytes free, and a start waits for all of them.
//! - While a leader's log grows faster than its snapshots are written, the leader refuses the same
//!   commands as below the reserve, so that the log stays in proportion to the state.
//!
//! The reserve does not guarantee that no write fails, because other programs may fill the disk. A
//! failed write still ends the node.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seqd_disk::{Disk, Space};
use seqd_guards::is_out;
use seqd_state::{Command, State};
use seqd_store::snapshot_file;

use crate::blocking;

/// Bytes that stay free in addition to the room for one more snapshot: the two prepared segments of
/// the log, the growth of the checkpoint's file, and the writes of a fast disk between two checks.
const RESERVE_BYTES: u64 = 128 << 20;

/// `RESERVE_BYTES` is limited to a quarter of the disk, and together with the snapshot to half of
/// it; otherwise a small disk could serve nothing.
const PART_OF_DISK: u64 = 4;
const PART_WITH_SNAPSHOT: u64 = 2;

/// A node below the reserve serves writes again when the free space exceeds the reserve by an
/// eighth. Without this margin, a node near the limit would switch at every check.
const MARGIN_PART: u64 = 8;

/// Time between two checks while a node waits for room to start, and the number of checks per log
/// line.
const START_LOOK: Duration = Duration::from_millis(250);
const LOOKS_PER_LINE: u32 = 20;

/// The reserve of a disk for a state whose snapshot has `snapshot_bytes` bytes.
#[must_use]
pub(crate) fn reserve(total: u64, snapshot_bytes: u64) -> u64 {
    let bytes = RESERVE_BYTES.min(total / PART_OF_DISK);
    (bytes.saturating_add(snapshot_bytes)).min(total / PART_WITH_SNAPSHOT)
}

/// The last recorded space of a node's disk. Unknown space counts as enough.
#[derive(Debug, Default)]
pub(crate) struct DiskSpace {
    /// The size of the file system; 0 before the first check.
    total: AtomicU64,
    free: AtomicU64,
    reserve: AtomicU64,
    is_low: AtomicBool,
    is_at_floor: AtomicBool,
    /// True if too few voters have room to commit clients' writes.
    lacks_voters: AtomicBool,
    /// True if the log has outgrown the snapshots.
    is_log_long: AtomicBool,
}

impl DiskSpace {
    /// Records a check. Returns whether the disk became low or has room again.
    pub(crate) fn record(&self, space: Space, snapshot_bytes: u64) -> bool {
        let reserve = reserve(space.total, snapshot_bytes);
        let was_low = self.is_low();
        let margin = if was_low { reserve / MARGIN_PART } else { 0 };
        let is_low = space.free < reserve + margin;
        self.total.store(space.total, Ordering::Relaxed);
        self.free.store(space.free, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
        self.is_low.store(is_low, Ordering::Relaxed);
        let is_at_floor = space.free < snapshot_file::left_free(space.total);
        self.is_at_floor.store(is_at_floor, Ordering::Relaxed);
        was_low != is_low
    }

    pub(crate) fn set_lacks_voters(&self, lacks: bool) {
        self.lacks_voters.store(lacks, Ordering::Relaxed);
    }

    pub(crate) fn set_log_long(&self, is_long: bool) {
        self.is_log_long.store(is_long, Ordering::Relaxed);
    }

    /// Returns whether only the reserve remains.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// Returns whether the free space is below the floor, so that no entry may be taken.
    pub(crate) fn is_at_floor(&self) -> bool {
        self.is_at_floor.load(Ordering::Relaxed) && !is_out!(DiskFloorKept)
    }

    /// Returns whether a command is refused for a [`DiskSpace::refusal`]. A leader at the floor
    /// takes no client commands, because each would be a write to its log.
    pub(crate) fn refuses(&self, state: &State, command: &Command, is_leader: bool) -> bool {
        if is_leader && self.is_at_floor() {
            command.is_of_client(state)
        } else {
            command.needs_room(state)
        }
    }

    /// The size of the disk; `u64::MAX` while it is unknown.
    pub(crate) fn total(&self) -> u64 {
        match self.total.load(Ordering::Relaxed) {
            0 => u64::MAX,
            total => total,
        }
    }

    /// Free bytes and the reserve, as of the last check; zeroes before the first.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (load(&self.free), load(&self.reserve))
    }

    /// The reason why clients' commands are refused; `None` if they are not.
    pub(crate) fn refusal(&self, is_leader: impl FnOnce() -> bool) -> Option<String> {
        if self.is_low() && !is_out!(DiskReserveKept) {
            let (free, reserve) = self.bytes();
            return Some(format!(
                "the disk of this node has {free} bytes free, and {reserve} are kept as a reserve: \
                 writes are refused until there is room"
            ));
        }
        let (lacks_voters, is_log_long) = (&self.lacks_voters, &self.is_log_long);
        let why = if lacks_voters.load(Ordering::Relaxed) && !is_out!(DiskReserveKept) {
            "too few voters have room on their disks: writes are refused until there is room"
        } else if is_log_long.load(Ordering::Relaxed) && !is_out!(LogKeptShort) {
            "the log of the leader has outgrown its snapshots: writes are refused until the next \
             snapshot is written"
        } else {
            return None;
        };
        is_leader().then(|| why.to_owned())
    }
}

/// Waits until the disk has room for a start, and logs the reason for the wait.
pub(crate) async fn wait_to_start(disk: Arc<dyn Disk>, folder: PathBuf) {
    let mut looks = 0_u32;
    loop {
        let (look, at) = (Arc::clone(&disk), folder.clone());
        let space = blocking::run(move || look.space(existing(&*look, &at))).await;
        let Ok(space) = space else {
            return;
        };
        let needed = snapshot_file::left_free(space.total);
        if space.free >= needed {
            return;
        }
        if looks.is_multiple_of(LOOKS_PER_LINE) {
            tracing::error!(
                "waiting for room on the disk: {} has {} bytes free, a start needs {needed}; \
                 remove files that do not belong to this node, or enlarge the disk",
                folder.display(),
                space.free
            );
        }
        looks = looks.wrapping_add(1);
        tokio::time::sleep(START_LOOK).await;
    }
}

/// The folder itself, or its closest ancestor that exists.
fn existing<'a>(disk: &dyn Disk, folder: &'a Path) -> &'a Path {
    let is_there = |path: &&Path| matches!(disk.kind(path), Ok(Some(_)));
    folder.ancestors().find(is_there).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use seqd_state::{
        AccessCommand, AccessId, Attempt, ClusterCommand, FencingToken, KeyCommand, LockCommand,
        LockName, NodeId, Nonce, OneTimeCommand, SequenceCommand, SequenceName,
    };

    use super::*;

    const GIB: u64 = 1 << 30;

    fn lock() -> LockName {
        LockName::new("x").unwrap()
    }

    fn renewal() -> Command {
        Command::Locks(LockCommand::Renew {
            name: lock(),
            token: FencingToken(1),
            ttl_ms: 1000,
        })
    }

    fn break_lock() -> Command {
        Command::Locks(LockCommand::Break {
            name: lock(),
            token: None,
        })
    }

    fn space(free: u64) -> Space {
        Space {
            total: 100 * GIB,
            free,
        }
    }

    #[test]
    fn a_reserve_has_room_for_a_snapshot_and_is_half_of_a_small_disk_at_most() {
        assert_eq!(reserve(100 * GIB, 0), RESERVE_BYTES);
        assert_eq!(reserve(100 * GIB, GIB), RESERVE_BYTES + GIB);
        assert_eq!(reserve(96 << 20, 0), 24 << 20);
        assert_eq!(reserve(96 << 20, 8 << 20), 32 << 20);
        assert_eq!(reserve(GIB, GIB), GIB / 2);
    }

    #[test]
    fn writes_are_refused_below_the_reserve_until_there_is_a_margin() {
        let disk = DiskSpace::default();
        assert_eq!(disk.refusal(|| true), None, "nothing is known yet");
        assert!(!disk.record(space(RESERVE_BYTES), 0));
        assert_eq!(disk.refusal(|| false), None);
        assert!(disk.record(space(RESERVE_BYTES - 1), 0));
        let refusal = disk.refusal(|| false);
        let refusal = refusal.expect("clients write into the reserve");
        assert!(refusal.contains("134217727 bytes free"), "{refusal}");
        assert!(!disk.is_at_floor());
        assert!(!disk.record(space(RESERVE_BYTES + 1), 0));
        assert!(disk.is_low(), "no margin");
        assert!(disk.record(space(RESERVE_BYTES + RESERVE_BYTES / 8), 0));
        assert_eq!(disk.refusal(|| false), None);
    }

    #[test]
    fn entries_are_refused_below_the_floor() {
        let disk = DiskSpace::default();
        let floor = snapshot_file::left_free(100 * GIB);
        assert!(floor < reserve(100 * GIB, 0));
        disk.record(space(floor), GIB);
        assert!(!disk.is_at_floor());
        disk.record(space(floor - 1), GIB);
        assert!(disk.is_at_floor(), "entries come in below the floor");
    }

    #[test]
    fn commands_that_remove_or_end_something_use_the_reserve() {
        let disk = DiskSpace::default();
        disk.record(space(RESERVE_BYTES - 1), 0);
        let withdrawal = LockCommand::Withdraw {
            name: lock(),
            nonce: Nonce(1),
            attempt: Attempt(1),
        };
        let deletion = SequenceCommand::Delete {
            name: SequenceName::new("s").unwrap(),
            if_revision: None,
        };
        let ending = [
            break_lock(),
            Command::Locks(withdrawal),
            Command::Sequences(deletion),
            Command::Keys(KeyCommand::Remove { names: Vec::new() }),
            Command::OneTime(OneTimeCommand::Remove { ids: Vec::new() }),
            Command::Access(AccessCommand::Revoke { id: AccessId(1) }),
        ];
        let state = State::new();
        for command in ending {
            let is_refused = disk.refuses(&state, &command, true);
            assert!(!is_refused, "{command:?} makes no room");
        }
        assert!(disk.refuses(&state, &renewal(), true));
    }

    #[test]
    fn a_leader_at_the_floor_takes_no_command_of_a_client() {
        let (disk, state) = (DiskSpace::default(), State::new());
        disk.record(space(0), 0);
        assert!(disk.refuses(&state, &break_lock(), true));
        assert!(
            !disk.refuses(&state, &break_lock(), false),
            "it is forwarded"
        );
        let reset = ClusterCommand::ResetWorkers { node: NodeId(1) };
        assert!(!disk.refuses(&state, &Command::Cluster(reset), true));
    }

    #[test]
    fn a_leader_refuses_writes_that_too_few_voters_have_room_for() {
        let disk = DiskSpace::default();
        disk.record(space(GIB), 0);
        disk.set_lacks_voters(true);
        assert!(disk.refusal(|| true).is_some());
        assert_eq!(disk.refusal(|| false), None);
    }

    #[test]
    fn a_leader_refuses_writes_while_its_log_has_outgrown_its_snapshots() {
        let disk = DiskSpace::default();
        disk.record(space(GIB), 0);
        disk.set_log_long(true);
        let refusal = disk.refusal(|| true);
        assert!(refusal.is_some(), "the log grows beyond its bound");
        assert_eq!(disk.refusal(|| false), None, "a follower does not decide");
        disk.set_log_long(false);
        assert_eq!(disk.refusal(|| true), None);
    }
}
