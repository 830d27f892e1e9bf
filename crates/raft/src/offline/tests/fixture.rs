//! A stopped node's folder, made by the code that a node makes it with, entry by entry.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use seqd_disk::{Disk, OsDisk};
use seqd_state::idgen::{Progression, WallMs};
use seqd_state::{
    ClusterMs, Command, Entry as StateEntry, Found, NextRequest, NodeId, SegmentSizes,
    SequenceDefinition, SequenceMode, SequenceName, Stamp, State,
};
use seqd_wal::{Done, Record, Wal, WalOptions};
use tempfile::TempDir;

use crate::records::{self, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::storage::checkpoint::{self, Checkpoint, Place, SledStores};
use crate::storage::folder::{Folder, Identity};
use crate::storage::snapshot_file::{SnapshotHeader, SnapshotWriter};
use crate::types::{self, Entry, Member, Membership, Payload, Proposal, StoredMembership};
use crate::wire::messages::Founder;
use openraft::entry::RaftEntry;

pub(super) const CLUSTER: &str = "01CLUSTER";

/// Entries of the log, by index from 0.
pub(super) const ENTRIES: u64 = 100;

/// Where the snapshots and the checkpoint are.
pub(super) const SNAPSHOTS: [u64; 2] = [30, 60];
pub(super) const APPLIED: u64 = 80;

/// What may be wrong with a folder from the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    /// The log is purged up to this entry.
    pub(super) purged: Option<u64>,
    /// The log ends behind this entry.
    pub(super) last: Option<u64>,
    /// The checkpoint holds the state of the entry before the one that it names.
    pub(super) behind: bool,
    /// The cluster of the snapshots.
    pub(super) foreign: bool,
}

/// The folder and what it holds.
pub(super) struct Fixture {
    dir: TempDir,
    /// The state's digest at the checkpoint.
    pub(super) digest: String,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::of(Plan::default())
    }

    pub(super) fn of(plan: Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("node");
        small_files(&root);
        write_log(&root, plan);
        let mut state = State::new();
        let mut digest = String::new();
        std::fs::create_dir(root.join("snap")).unwrap();
        for index in 0..=APPLIED {
            if index == APPLIED && plan.behind {
                checkpoint(&root, &state);
            }
            if let Payload::Normal(proposal) = &entry(index).payload {
                state.apply(&proposal.0);
            }
            if SNAPSHOTS.contains(&index) {
                snapshot(&root, index, &state, plan.foreign);
            }
            if index == APPLIED && !plan.behind {
                checkpoint(&root, &state);
            }
            digest = state.digest().to_string();
        }
        Self { dir, digest }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("node")
    }
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn term(index: u64) -> u64 {
    1 + index / 50
}

fn membership() -> Membership {
    let member = Member {
        name: "n1".to_owned(),
        peer: "n1:7401".to_owned(),
        http: "http://n1:7400".to_owned(),
    };
    let voters = [1].into_iter().collect();
    Membership::new(
        vec![voters],
        [(1, member)]
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    )
    .unwrap()
}

fn stored_membership() -> Vec<u8> {
    let stored = StoredMembership::new(Some(types::log_id(1, 0)), membership());
    records::encode(&StoredMembershipRecord::from(&stored)).unwrap()
}

/// The entry of an index: a membership, the founding, then sequences and their use.
fn entry(index: u64) -> Entry {
    let id = types::log_id(term(index), index);
    let name = |number: u64| SequenceName::new(format!("sequence-{number}")).unwrap();
    let command = match index {
        0 => return Entry::new_membership(id, membership()),
        1 => Command::Found(Found {
            cluster_id: CLUSTER.to_owned(),
            window_ms: 30_000,
            max_peer_skew_ms: 500,
            founders: vec![(NodeId(1), "n1".to_owned())],
        }),
        index if index % 50 == 0 => return Entry::new_blank(id),
        index if index % 2 == 0 => Command::CreateSequence {
            name: name(index),
            definition: SequenceDefinition {
                mode: SequenceMode::Strict,
                progression: Progression::new(1, 1, 1, i64::MAX, false).unwrap(),
                segment: SegmentSizes {
                    target_ms: 60_000,
                    min: 1,
                    max: 1,
                },
                description: "a description of some length, so that segments fill".to_owned(),
            },
        },
        index => Command::StrictNext {
            requests: vec![NextRequest {
                name: name(index - 1),
                count: index,
            }],
        },
    };
    let entry = StateEntry {
        stamp: Stamp {
            wall_ms: WallMs(1_800_000_000_000 + index),
            cluster_ms: ClusterMs(index),
        },
        commands: vec![command],
    };
    Entry::new_normal(id, Proposal(Arc::new(entry)))
}

fn small_files(root: &Path) {
    let folder = Folder::open(os(), root).unwrap();
    let identity = Identity {
        cluster_id: CLUSTER.to_owned(),
        node: 1,
        name: "n1".to_owned(),
        members: vec![Founder {
            node: 1,
            name: "n1".to_owned(),
            peer: "n1:7401".to_owned(),
            http: "http://n1:7400".to_owned(),
        }],
        founder: false,
        joined: false,
        ancestors: Vec::new(),
    };
    folder.write_identity(&identity).unwrap();
    folder.raise_boot().unwrap();
}

fn wait(call: impl FnOnce(Done)) {
    let (done, answer) = mpsc::channel();
    call(Box::new(move |result| {
        let _ = done.send(result);
    }));
    answer.recv().unwrap().unwrap();
}

fn write_log(root: &Path, plan: Plan) {
    let options = WalOptions {
        segment_bytes: 4096,
        ..WalOptions::new(root.join("wal"))
    };
    let (wal, _) = Wal::open(options).unwrap();
    let vote = VoteRecord::from(&types::vote(2, 1, true));
    wait(|done| wal.save_vote(records::encode(&vote).unwrap(), done));
    for index in 0..=plan.last.unwrap_or(ENTRIES - 1) {
        let bytes = records::encode_entry(&entry(index)).unwrap();
        wait(|done| wal.append(vec![Record { index, bytes }], done));
    }
    let id =
        |index| records::encode(&LogIdRecord::from(&types::log_id(term(index), index))).unwrap();
    wal.save_committed(id(APPLIED));
    if let Some(upto) = plan.purged {
        wait(|done| wal.purge(upto, id(upto), done));
    }
    wal.close().unwrap();
}

fn snapshot(root: &Path, index: u64, state: &State, foreign: bool) {
    let id = types::log_id(term(index), index);
    let header = SnapshotHeader {
        cluster_id: if foreign { "01OTHER" } else { CLUSTER }.to_owned(),
        index,
        term: term(index),
        log_id: records::encode(&LogIdRecord::from(&id)).unwrap(),
        membership: stored_membership(),
    };
    let mut writer = SnapshotWriter::create(&os(), &root.join("snap"), header).unwrap();
    for (key, value) in state.rows() {
        writer.row(&key, &value).unwrap();
    }
    writer.finish().unwrap();
}

fn checkpoint(root: &Path, state: &State) {
    let place = Place {
        disk: os(),
        data_dir: root.to_owned(),
        cluster_id: CLUSTER.to_owned(),
        stores: Arc::new(SledStores),
    };
    let id = types::log_id(term(APPLIED), APPLIED);
    let applied = Checkpoint {
        index: APPLIED,
        log_id: records::encode(&LogIdRecord::from(&id)).unwrap(),
        membership: stored_membership(),
        digest: state.digest().0,
    };
    let store = checkpoint::create_generation(&place, state.rows().map(Ok), &applied).unwrap();
    store.close().unwrap();
}
