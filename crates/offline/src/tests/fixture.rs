//! A stopped node's folder, intact or with a part that does not match the others.

use std::path::PathBuf;
use std::sync::Arc;

use seqd_disk::{Disk, OsDisk, Tap, Tapped};
use seqd_state::{
    AcquireLock, Attempt, Command, LockCommand, LockName, NextRequest, Nonce, SequenceCommand,
    SequenceMode, SequenceName, State, Tenant,
};
use tempfile::TempDir;

use seqd_store::records::EntryPayload;
use seqd_store::testing::{FolderBuilder, create_sequence, found_cluster};

pub(super) const CLUSTER: &str = "01CLUSTER";

const NODE: FolderBuilder = FolderBuilder {
    cluster_id: CLUSTER,
    host: "n1",
    term_entries: 50,
    began_ms: 1_800_000_000_000,
};

/// The number of log entries, with indexes from 0.
pub(super) const ENTRIES: u64 = 100;

/// The indexes of the snapshots and of the checkpoint.
pub(super) const SNAPSHOTS: [u64; 2] = [30, 60];
pub(super) const APPLIED: u64 = 80;

/// The initial defects of a folder.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    /// The log is purged up to this entry.
    pub(super) purged: Option<u64>,
    pub(super) last: Option<u64>,
    /// `true` if the checkpoint has the state of the entry before its own.
    pub(super) behind: bool,
    pub(super) foreign: bool,
    /// The ID of the cluster. `None` is [`CLUSTER`].
    pub(super) cluster_id: Option<&'static str>,
}

/// The folder and its expected digest.
pub(super) struct Fixture {
    dir: TempDir,
    pub(super) digest: String,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A folder of a plan with this change.
    pub(super) fn with(change: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = Plan::default();
        change(&mut plan);
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("node");
        let cluster_id = plan.cluster_id.unwrap_or(CLUSTER);
        let node = FolderBuilder { cluster_id, ..NODE };
        drop(node.found(&root, Vec::new()));
        let entry = |index| node.entry(index, command(index, cluster_id));
        let entries = 0..=plan.last.unwrap_or(ENTRIES - 1);
        node.log(&root, entries.map(entry), APPLIED, plan.purged);
        let sender = FolderBuilder {
            cluster_id: if plan.foreign { "01OTHER" } else { cluster_id },
            ..NODE
        };
        let mut state = State::new();
        for index in 0..=APPLIED {
            if let EntryPayload::Normal(entry) = &entry(index).payload {
                state.apply(entry, None);
            }
            if SNAPSHOTS.contains(&index) {
                sender.snapshot(&root, index, &state);
            }
            if index == APPLIED - u64::from(plan.behind) {
                node.checkpoint(&root, APPLIED, &state);
            }
        }
        let digest = state.digest().to_string();
        Self { dir, digest }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("node")
    }
}

/// Returns the disk of the operating system with this tap.
pub(super) fn tapped<T: Tap>(tap: &Arc<T>) -> Arc<dyn Disk> {
    let (disk, tap) = (Arc::new(OsDisk), Arc::clone(tap));
    Arc::new(Tapped { disk, tap })
}

/// Returns the founding command, the request of a lock, then commands that create and use
/// sequences. The first entry of a term has no command.
fn command(index: u64, cluster_id: &str) -> Option<Command> {
    let name = |number: u64| SequenceName::new(format!("sequence-{number}")).unwrap();
    Some(match index {
        1 => found_cluster(cluster_id, 1),
        3 => LockCommand::Acquire(hold()).into(),
        index if index % 50 == 0 => return None,
        index if index % 2 == 0 => create_sequence(
            name(index).as_str(),
            SequenceMode::Strict,
            "a description of some length, so that segments fill",
        ),
        index => Command::Sequences(SequenceCommand::Next(NextRequest {
            name: name(index - 1),
            count: index,
        })),
    })
}

/// An hour's hold of a lock.
fn hold() -> AcquireLock {
    AcquireLock {
        name: LockName::new("report").unwrap(),
        tenant: Tenant::OPERATOR,
        owner: "a".to_owned(),
        nonce: Nonce::of_bits(1),
        attempt: Attempt(1),
        ttl_ms: 3_600_000,
        wait_ms: 0,
        permits: 1,
        shared: false,
        lock_delay_ms: 0,
    }
}
