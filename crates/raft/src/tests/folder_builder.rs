//! A stopped node's folder, made by the code that a node makes it with, part by part. The entries
//! and the state are the caller's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};

use openraft::entry::RaftEntry;
use seqd_disk::{Disk, OsDisk};
use seqd_state::idgen::WallMs;
use seqd_state::{ClusterMs, Command, Entry as StateEntry, Level, Stamp, State};
use seqd_wal::{Done, Record, Wal, WalOptions};

use crate::records::{self, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::storage::folder::{Folder, Identity};
use crate::types::{self, Entry, Member, Membership, Proposal, StoredMembership};
use crate::wire::messages::Founder;
use seqd_store::checkpoint::{self, Checkpoint, Place, SledStores};
use seqd_store::snapshot_file::{SnapshotHeader, SnapshotWriter};

/// Node 1, `n1`, alone in its cluster.
#[derive(Clone, Copy)]
pub(crate) struct FolderBuilder {
    pub(crate) cluster_id: &'static str,
    /// Where the node is reached.
    pub(crate) host: &'static str,
    /// So many entries are of one term; the vote is of the second.
    pub(crate) term_entries: u64,
    /// The wall clock at entry 0; each later entry is a millisecond after the one before.
    pub(crate) began_ms: u64,
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

impl FolderBuilder {
    pub(crate) fn term(&self, index: u64) -> u64 {
        1 + index / self.term_entries
    }

    /// The entry of an index; without a command that of a membership at 0, a blank one elsewhere.
    pub(crate) fn entry(&self, index: u64, command: Option<Command>) -> Entry {
        let id = types::log_id(self.term(index), index);
        let Some(command) = command else {
            return match index {
                0 => Entry::new_membership(id, self.membership()),
                _ => Entry::new_blank(id),
            };
        };
        let stamp = Stamp {
            wall_ms: WallMs(self.began_ms + index),
            cluster_ms: ClusterMs(index),
        };
        let commands = vec![command];
        Entry::new_normal(
            id,
            Proposal::new(StateEntry { stamp, commands }, Level::FIRST).unwrap(),
        )
    }

    /// The folder itself, at its first start: its format, its identity and its boot number.
    pub(crate) fn found(&self, root: &Path, ancestors: Vec<String>) -> Folder {
        let folder = Folder::open(os(), root).unwrap();
        let identity = Identity {
            cluster_id: self.cluster_id.to_owned(),
            node: 1,
            name: "n1".to_owned(),
            members: vec![self.founder()],
            founder: false,
            joined: false,
            ancestors,
        };
        folder.write_identity(&identity).unwrap();
        folder.raise_boot().unwrap();
        folder
    }

    /// The log, in segments that are small.
    pub(crate) fn log(
        &self,
        root: &Path,
        entries: impl Iterator<Item = Entry>,
        committed: u64,
        purged: Option<u64>,
    ) {
        let options = WalOptions {
            segment_bytes: 4096,
            ..WalOptions::new(root.join("wal"))
        };
        let (wal, _) = Wal::open(options).unwrap();
        let vote = VoteRecord::from(&types::vote(2, 1, true));
        wait(|done| wal.save_vote(records::encode(&vote).unwrap(), done));
        for entry in entries {
            let bytes = records::encode_entry(&entry).unwrap();
            let index = entry.log_id.index();
            wait(|done| wal.append(vec![Record { index, bytes }], done));
        }
        wal.save_committed(self.log_id(committed));
        if let Some(upto) = purged {
            wait(|done| wal.purge(upto, self.log_id(upto), done));
        }
        wal.close().unwrap();
    }

    /// A snapshot of the state after an entry.
    pub(crate) fn snapshot(&self, root: &Path, index: u64, state: &State) {
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

    /// A checkpoint of the state, which it says is the one after an entry.
    pub(crate) fn checkpoint(&self, root: &Path, index: u64, state: &State) {
        let place = Place {
            disk: os(),
            data_dir: root.to_owned(),
            cluster_id: self.cluster_id.to_owned(),
            stores: Arc::new(SledStores),
        };
        let applied = Checkpoint {
            index,
            log_id: self.log_id(index),
            membership: self.stored_membership(),
            digest: state.digest().0,
        };
        let store = checkpoint::create_generation(&place, state.rows().map(Ok), &applied).unwrap();
        store.close().unwrap();
    }

    fn founder(&self) -> Founder {
        Founder {
            node: 1,
            name: "n1".to_owned(),
            peer: format!("{}:7401", self.host),
            http: format!("http://{}:7400", self.host),
        }
    }

    fn membership(&self) -> Membership {
        let Founder {
            node,
            name,
            peer,
            http,
        } = self.founder();
        let nodes = BTreeMap::from([(node, Member { name, peer, http })]);
        Membership::new(vec![[node].into()], nodes).unwrap()
    }

    fn stored_membership(&self) -> Vec<u8> {
        let stored = StoredMembership::new(Some(types::log_id(1, 0)), self.membership());
        records::encode(&StoredMembershipRecord::from(&stored)).unwrap()
    }

    fn log_id(&self, index: u64) -> Vec<u8> {
        let id = types::log_id(self.term(index), index);
        records::encode(&LogIdRecord::from(&id)).unwrap()
    }
}

fn wait(call: impl FnOnce(Done)) {
    let (done, answer) = mpsc::channel();
    call(Box::new(move |result| drop(done.send(result))));
    answer.recv().unwrap().unwrap();
}
