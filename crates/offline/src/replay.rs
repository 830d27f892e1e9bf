//! The state of a snapshot file and of the following entries of a log, applied as by a node.

use std::io;
use std::path::Path;

use seqd_disk::Disk;
use seqd_state::{State, StateLoader};
use seqd_store::checkpoint::TakeRows;
use seqd_store::records::{
    self, EntryPayload, LogIdRecord, StoredMembershipRecord, restore_position,
};
use seqd_store::snapshot_file::SnapshotReader;
use seqd_wal::Inspection;

#[derive(Default)]
pub(super) struct Replayed {
    pub(super) state: State,
    /// The last applied entry.
    pub(super) position: Option<LogIdRecord>,
    pub(super) membership: StoredMembershipRecord,
}

impl Replayed {
    /// Reads a snapshot in full.
    ///
    /// # Errors
    /// An error of the disk, or [`io::ErrorKind::InvalidData`] if the file is damaged.
    pub(super) fn of_snapshot(disk: &dyn Disk, file: &Path) -> io::Result<Self> {
        let malformed = |what: &str| invalid(format!("{}: {what}", file.display()));
        let reader = SnapshotReader::open(disk, file)?;
        let header = reader.header().clone();
        let mut loader = StateLoader::default();
        reader
            .rows()
            .visit(&mut |key, value| TakeRows::row(&mut loader, key, value))?;
        let (position, membership) = restore_position(&header.log_id, &header.membership)?;
        if position.is_none() {
            return Err(malformed("it names no entry"));
        }
        let state = loader.finish();
        if state.settings().map(|settings| &settings.cluster_id) != Some(&header.cluster_id) {
            return Err(malformed("its rows belong to another cluster"));
        }
        Ok(Self {
            state,
            position,
            membership,
        })
    }

    /// Returns the index of the next entry to apply.
    pub(super) fn next(&self) -> u64 {
        self.position.map_or(0, |id| id.index + 1)
    }

    pub(super) fn apply_next(&mut self, log: &Inspection) -> io::Result<()> {
        let next = self.next();
        let bytes = log.entry(next)?;
        let bytes = bytes.ok_or_else(|| invalid(format!("entry {next} is not in the log")))?;
        let entry = records::decode_entry(&bytes)?;
        if entry.id.index != next {
            return Err(invalid(format!("it is entry {}", entry.id.index)));
        }
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Normal(commands) => {
                let membership = self.membership.log_id.map(Into::into);
                self.state.apply(&commands, membership);
            }
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembershipRecord {
                    log_id: Some(entry.id),
                    membership,
                };
            }
        }
        self.position = Some(entry.id);
        Ok(())
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
