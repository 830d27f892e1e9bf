//! Builds the folder of a stopped node part by part, with the code that a node uses. The caller
//! supplies the entries and the state.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};

use seqd_disk::{Disk, OsDisk};
use seqd_state::codec;
use seqd_state::idgen::{Progression, WallMs};
use seqd_state::{
    ClusterCommand, ClusterMs, Command, EncodedEntry, Entry, Found, Level, NodeId, SegmentSizes,
    SequenceCommand, SequenceDefinition, SequenceMode, Stamp, State,
};
use seqd_wal::{Done, Record, Wal, WalOptions};

use crate::checkpoint::{self, Checkpoint, Place};
use crate::folder::{Folder, Identity};
use crate::records::{
    self, EntryPayload, LogEntry, LogIdRecord, Member, MembershipRecord, StoredMembershipRecord,
    VoteRecord,
};
use crate::snapshot_file::{SnapshotHeader, SnapshotWriter};

/// Node 1, `n1`, alone in its cluster.
#[derive(Clone, Copy)]
pub struct FolderBuilder {
    pub cluster_id: &'static str,
    /// The host name of the node.
    pub host: &'static str,
    /// The number of entries per term. The vote is for term 2.
    pub term_entries: u64,
    /// The wall clock at entry 0. Each later entry is one millisecond later.
    pub began_ms: u64,
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

impl FolderBuilder {
    pub fn term(&self, index: u64) -> u64 {
        1 + index / self.term_entries
    }

    /// Returns the entry at an index. Without a command, it is a membership entry at index 0 and a
    /// blank entry elsewhere.
    pub fn entry(&self, index: u64, command: Option<Command>) -> LogEntry {
        let payload = match command {
            None if index == 0 => EntryPayload::Membership(self.membership()),
            None => EntryPayload::Blank,
            Some(command) => {
                let stamp = Stamp {
                    wall_ms: WallMs(self.began_ms + index),
                    cluster_ms: ClusterMs(index),
                };
                let commands = vec![command];
                let entry = EncodedEntry::new(Entry { stamp, commands }, Level::FIRST).unwrap();
                EntryPayload::Normal(Arc::new(entry))
            }
        };
        let id = self.id(index);
        LogEntry { id, payload }
    }

    /// Creates the folder as the first start does: its format, its identity and its boot number.
    pub fn found(&self, root: &Path, ancestors: Vec<String>) -> Folder {
        let folder = Folder::open(os(), root).unwrap();
        let identity = Identity {
            cluster_id: self.cluster_id.to_owned(),
            node: 1,
            name: "n1".to_owned(),
            members: vec![(1, self.member())],
            founder: false,
            joined: false,
            ancestors,
        };
        folder.write_identity(&identity).unwrap();
        folder.raise_boot().unwrap();
        folder
    }

    /// Writes the log, in small segments.
    pub fn log(
        &self,
        root: &Path,
        entries: impl Iterator<Item = LogEntry>,
        committed: u64,
        purged: Option<u64>,
    ) {
        let options = WalOptions {
            segment_bytes: 4096,
            ..WalOptions::new(root.join("wal"))
        };
        let (wal, _) = Wal::open(options).unwrap();
        let vote = VoteRecord {
            term: 2,
            node: 1,
            committed: true,
        };
        wait(|done| wal.save_vote(records::encode(&vote).unwrap(), done));
        for entry in entries {
            let bytes = entry.encode().unwrap();
            let index = entry.id.index;
            wait(|done| wal.append(vec![Record { index, bytes }], done));
        }
        wal.save_committed(self.log_id(committed));
        if let Some(upto) = purged {
            wait(|done| wal.purge(upto, self.log_id(upto), done));
        }
        wal.close().unwrap();
    }

    /// Writes a snapshot of the state after an entry.
    pub fn snapshot(&self, root: &Path, index: u64, state: &State) {
        let header = SnapshotHeader {
            cluster_id: self.cluster_id.to_owned(),
            index,
            term: self.term(index),
            log_id: self.log_id(index),
            membership: self.stored_membership(),
        };
        let folder = root.join("snap");
        fs::create_dir_all(&folder).unwrap();
        let mut writer = SnapshotWriter::create(&os(), &folder, header).unwrap();
        for (key, value) in state.rows() {
            writer.row(&key, &value).unwrap();
        }
        writer.finish().unwrap();
    }

    /// Writes a checkpoint of the state, recorded as the one after an entry.
    pub fn checkpoint(&self, root: &Path, index: u64, state: &State) {
        let place = Place::on_sled(root, self.cluster_id);
        let applied = Checkpoint {
            index,
            log_id: self.log_id(index),
            membership: self.stored_membership(),
            digest: state.digest().0,
        };
        let store = checkpoint::create_generation(&place, state.rows().map(Ok), &applied).unwrap();
        store.close().unwrap();
    }

    fn member(&self) -> Member {
        Member {
            name: "n1".to_owned(),
            peer: format!("{}:7401", self.host),
            http: format!("http://{}:7400", self.host),
        }
    }

    fn membership(&self) -> MembershipRecord {
        MembershipRecord::of_one(1, self.member())
    }

    fn stored_membership(&self) -> Vec<u8> {
        let log_id = Some(LogIdRecord { term: 1, index: 0 });
        let membership = self.membership();
        records::encode(&StoredMembershipRecord { log_id, membership }).unwrap()
    }

    fn id(&self, index: u64) -> LogIdRecord {
        let term = self.term(index);
        LogIdRecord { term, index }
    }

    fn log_id(&self, index: u64) -> Vec<u8> {
        records::encode(&self.id(index)).unwrap()
    }
}

/// Returns the first command of a cluster with `nodes` nodes, named from `n1`.
pub fn found_cluster(cluster_id: &str, nodes: u64) -> Command {
    Command::Cluster(ClusterCommand::Found(Found {
        cluster_id: cluster_id.to_owned(),
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        founders: (1..=nodes)
            .map(|node| (NodeId(node), format!("n{node}")))
            .collect(),
    }))
}

/// Returns the command that creates a sequence that counts from 1.
pub fn create_sequence(name: &str, mode: SequenceMode, description: &str) -> Command {
    Command::Sequences(SequenceCommand::Create {
        tenant: seqd_state::Tenant::OPERATOR,
        name: name.parse().unwrap(),
        definition: SequenceDefinition {
            mode,
            progression: Progression::new(1, 1, 1, i64::MAX, false).unwrap(),
            segment: SegmentSizes {
                target_ms: 60_000,
                min: 1_000,
                max: 1_000_000,
            },
            description: description.to_owned(),
        },
    })
}

/// Waits for a callback of the log's writer thread.
pub fn wait(call: impl FnOnce(Done)) {
    let (done, answer) = mpsc::channel();
    call(Box::new(move |result| drop(done.send(result))));
    answer.recv().unwrap().unwrap();
}

/// Copies a folder, the log last, because a checkpoint ahead of its log is a different case.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names: Vec<_> = fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    for name in names {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy(&source, &target);
        } else if let Err(error) = fs::copy(&source, &target) {
            // A running node replaces its small files.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name:?}");
        }
    }
}

/// Returns a snapshot as a newer program might write it: with a higher version of the header and a
/// valid checksum.
pub fn of_a_newer_program(snapshot: &[u8]) -> Vec<u8> {
    let mut bytes = snapshot.to_vec();
    let length = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
    bytes[14] += 1;
    let crc = crc32c::crc32c(&bytes[..13 + length]);
    bytes[13 + length..17 + length].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns a small file as a newer program might write it: with a higher version and a valid
/// checksum.
pub fn small_file_of_a_newer_program(file: &[u8]) -> Vec<u8> {
    let mut bytes = file[..file.len() - codec::SEAL_BYTES].to_vec();
    bytes[1] += 1;
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}
