//! The cluster around the simulated node: its committed entries, and the state at each index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use openraft::entry::RaftEntry;
use seqd_disk::Disk;
use seqd_disk::simulated::{Dice, SimulatedDisk};
use seqd_state::idgen::{Progression, WallMs};
use seqd_state::{
    ClusterMs, Command, Entry as StateEntry, Level, NextRequest, SegmentSizes, SequenceCommand,
    SequenceDefinition, SequenceMode, SequenceName, Stamp, State,
};

use super::node::CLUSTER;
use crate::records::{self, ToRecord, position_of};
use crate::types::{
    Entry, LogId, Member, Membership, Payload, Proposal, SnapshotMeta, StoredMembership, log_id,
};
use seqd_store::snapshot_file::{SnapshotHeader, SnapshotWriter};
use seqd_store::testing::found_cluster;

/// A committed entry and the state after it.
pub(super) struct Committed {
    pub(super) entry: Entry,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: u128,
    pub(super) membership: StoredMembership,
}

pub(super) struct Cluster {
    pub(super) term: u64,
    pub(super) committed: Vec<Committed>,
    state: State,
    membership: StoredMembership,
    wall_ms: u64,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            term: 1,
            committed: Vec::new(),
            state: State::default(),
            membership: StoredMembership::default(),
            wall_ms: 1_800_000_000_000,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.committed.len() as u64
    }

    pub(super) fn at(&self, index: u64) -> Option<&Committed> {
        self.committed.get(usize::try_from(index).ok()?)
    }

    /// Commits an entry. It is the only entry of its index from then on.
    pub(super) fn commit(&mut self, entry: Entry) {
        assert_eq!(entry.index(), self.next());
        match &entry.payload {
            Payload::Blank => {}
            Payload::Normal(proposal) => {
                let membership = position_of(&self.membership);
                self.state.apply(&proposal.0, membership);
            }
            Payload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id()), membership.clone());
            }
        }
        self.committed.push(Committed {
            bytes: super::log_model::encode(&entry),
            entry,
            digest: self.state.digest().0,
            membership: self.membership.clone(),
        });
    }

    /// A new entry of the current leader.
    pub(super) fn propose(&mut self, index: u64, dice: &mut Dice) -> Entry {
        let id = log_id(self.term, index);
        match (index, dice.below(12)) {
            (0, _) | (_, 0) => Entry::new_membership(id, membership(index, dice)),
            (2.., 1) => Entry::new_blank(id),
            _ => {
                self.wall_ms += dice.below(40);
                let stamp = Stamp {
                    wall_ms: WallMs(self.wall_ms),
                    cluster_ms: ClusterMs(index * 10),
                };
                let commands = if index == 1 {
                    vec![found_cluster(CLUSTER, 3)]
                } else {
                    (0..=dice.below(3)).map(|_| command(dice)).collect()
                };
                Entry::new_normal(
                    id,
                    Proposal::new(StateEntry { stamp, commands }, Level::FIRST).unwrap(),
                )
            }
        }
    }

    /// A snapshot of everything committed, as another node would send it.
    pub(super) fn snapshot(&self) -> (SnapshotMeta, Vec<u8>) {
        let last = self.committed.last().expect("something is committed");
        let id = last.entry.log_id();
        let folder = Path::new("/other");
        let scratch = SimulatedDisk::holding(folder);
        let disk: Arc<dyn Disk> = Arc::new(scratch.clone());
        let header = SnapshotHeader {
            cluster_id: CLUSTER.to_owned(),
            index: id.index(),
            term: **id.committed_leader_id(),
            log_id: records::encode(&id.record()).unwrap(),
            membership: records::encode(&last.membership.record()).unwrap(),
        };
        let mut writer = SnapshotWriter::create(&disk, folder, header).unwrap();
        for (key, value) in self.state.rows() {
            writer.row(&key, &value).unwrap();
        }
        let file = writer.finish().unwrap();
        let meta = SnapshotMeta {
            last_log_id: Some(id),
            last_membership: last.membership.clone(),
        };
        (meta, scratch.contents(&file.path).unwrap())
    }

    pub(super) fn id(&self, index: u64) -> Option<LogId> {
        Some(self.at(index)?.entry.log_id())
    }
}

fn membership(index: u64, dice: &mut Dice) -> Membership {
    let learners = if index == 0 { 0 } else { dice.below(3) };
    let member = |node: u64| Member {
        name: format!("n{node}"),
        peer: format!("n{node}:7401"),
        http: format!("http://n{node}:7400"),
    };
    let nodes: BTreeMap<u64, Member> = (1..=3 + learners)
        .map(|node| (node, member(node)))
        .collect();
    Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).unwrap()
}

fn command(dice: &mut Dice) -> Command {
    let name = SequenceName::new(format!("s{}", dice.below(14))).unwrap();
    match dice.below(4) {
        0 | 1 => Command::Sequences(SequenceCommand::Create {
            tenant: seqd_state::Tenant::OPERATOR,
            name,
            definition: SequenceDefinition {
                mode: if dice.chance(8) {
                    SequenceMode::Segment
                } else {
                    SequenceMode::Strict
                },
                progression: Progression::with_defaults(None, None, None, None, false).unwrap(),
                segment: SegmentSizes {
                    target_ms: 60_000,
                    min: 10,
                    max: 1_000,
                },
                description: "x".repeat(dice.below(200) as usize),
            },
        }),
        2 => Command::Sequences(SequenceCommand::GrantSegment {
            name,
            size: 1 + dice.below(50),
            after: None,
        }),
        _ => Command::Sequences(SequenceCommand::Next(NextRequest {
            name,
            count: 1 + dice.below(5),
        })),
    }
}
