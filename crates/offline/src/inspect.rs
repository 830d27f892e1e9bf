//! Reads the content of a stopped node's folder, file by file, as far as it is readable.

use std::io;
use std::path::Path;

use seqd_disk::{Disk, Kind};
use seqd_wal::{Inspection, WalError};

use super::checkpoint::{self, CheckpointError};
use super::error::OfflineError;
use super::files::{DISK, NO_FORMAT, below, format_of, names, small_file};
use super::lock::FolderLock;
use super::reports::{
    EntryId, FolderReport, IdentityReport, LogReport, PeerReport, Problem, RefusedReport,
    SegmentSummary, Sizes, SnapshotSummary, Torn, VoteReport,
};
use seqd_store::checkpoint::folder_bytes;
use seqd_store::disk_errors::named;
use seqd_store::folder::{BootRecord, FORMAT, Identity, RefusedRecord, is_a_format};
use seqd_store::records::PeersRecord;
use seqd_store::records::{self, LogIdRecord, VoteRecord};
use seqd_store::snapshot_file::{self, SnapshotFile};

/// Reports the content of a folder and writes nothing to it.
///
/// # Errors
/// The folder is in use, or the path is not a folder. Unreadable content is part of the report.
pub fn inspect_folder(root: &Path) -> Result<FolderReport, OfflineError> {
    let lock = FolderLock::to_look(root)?;
    Ok(read(root, &lock).report)
}

/// The readable content of a folder.
pub(super) struct FolderContent {
    pub(super) report: FolderReport,
    pub(super) log: Option<Inspection>,
    /// The reason why the checkpoint was not opened, although it may be intact.
    pub(super) not_copied: Option<OfflineError>,
}

pub(super) fn read(root: &Path, lock: &FolderLock) -> FolderContent {
    let mut report = FolderReport {
        path: root.to_owned(),
        unlocked: lock.why_not().map(str::to_owned),
        ..FolderReport::default()
    };
    report.small_files(root);
    let log = match seqd_wal::inspect(&DISK, &root.join("wal")) {
        Ok(log) => {
            report.leftovers = log.leftovers.iter().map(|path| below(root, path)).collect();
            report.log = log_report(root, &log, &mut report.problems);
            Some(log)
        }
        Err(error) => {
            report.problem("wal", error);
            None
        }
    };
    report.snapshots(root);
    let not_copied = report.checkpoint(root);
    report.last_entry = report.last_entry();
    report.names(root);
    report.sizes = sizes(root);
    report.refused_by_a_start(root, log.as_ref());
    FolderContent {
        report,
        log,
        not_copied,
    }
}

const NO_IDENTITY: &str =
    "the file is missing, although this node was a member: it has entries or snapshots";
const NO_SEGMENT: &str = "no segment: the log is lost";

/// The damaged file of the log.
fn file_of(root: &Path, damage: &WalError) -> String {
    match damage {
        WalError::Corrupt { path, .. }
        | WalError::NewerFormat { path, .. }
        | WalError::Io { path, .. } => below(root, path),
        WalError::Option { .. } => "wal".to_owned(),
    }
}

impl FolderReport {
    fn problem(&mut self, file: &str, detail: impl ToString) {
        self.problems.push(Problem::new(file, detail));
    }

    /// Adds the problems for which a start would refuse the folder although its files can be read.
    fn refused_by_a_start(&mut self, root: &Path, log: Option<&Inspection>) {
        if let Some(other) = self.format.as_ref().filter(|format| *format != FORMAT) {
            let detail = format!("the file contains {other:?}; this version supports {FORMAT:?}");
            self.problems.push(Problem {
                is_newer: is_a_format(other),
                ..Problem::new("format", detail)
            });
        }
        if self.lacks_identity() {
            self.problem("identity", NO_IDENTITY);
        }
        let Some(log) = log else {
            return;
        };
        if let Some(damage) = &log.damage {
            self.problems.push(Problem {
                is_newer: matches!(damage, WalError::NewerFormat { .. }),
                ..Problem::new(file_of(root, damage), damage)
            });
        }
        if self.identity.is_some() && log.segments.is_empty() {
            // The first segment is created before the identity.
            self.problem("wal", NO_SEGMENT);
        }
    }

    fn last_entry(&self) -> Option<EntryId> {
        let snapshots = self.snapshots.iter().map(|found| EntryId {
            index: found.index,
            term: found.term,
        });
        let applied = self.checkpoint.as_ref().and_then(|found| found.applied);
        let entries = snapshots.chain(applied).chain(self.log.last);
        entries.max_by_key(|id| (id.term, id.index))
    }

    /// Returns whether the file `identity` is missing in the folder of a node that was a member.
    fn lacks_identity(&self) -> bool {
        let is_unreadable = self.problems.iter().any(|at| at.file == "identity");
        let was_member = self.log.last.is_some() || !self.snapshots.is_empty();
        self.identity.is_none() && !is_unreadable && was_member
    }

    /// Returns the value, or records a problem and returns `None`.
    fn read<T>(&mut self, file: &str, read: io::Result<Option<T>>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.problems.push(Problem::of_io(file, &error));
            None
        })
    }

    fn small_files(&mut self, root: &Path) {
        let format = format_of(root);
        if let Ok(None) = format {
            self.problem("format", NO_FORMAT);
        }
        self.format = self.read("format", format);
        let identity = small_file::<Identity>(root, "identity");
        self.identity = self.read("identity", identity).map(Into::into);
        let boot = small_file::<BootRecord>(root, "boot");
        self.boot = self.read("boot", boot).map(|record| record.boot);
        let refused = small_file::<RefusedRecord>(root, "refused");
        self.refused = self.read("refused", refused).map(|record| RefusedReport {
            code: record.code,
            message: record.message,
        });
        let peers = small_file::<PeersRecord>(root, "peers");
        self.peers = self.read("peers", peers).map_or(Vec::new(), peers_of);
    }

    fn snapshots(&mut self, root: &Path) {
        let folder = root.join("snap");
        for name in names(&folder) {
            let file = format!("snap/{name}");
            if name.ends_with(".tmp") {
                self.leftovers.push(file);
            } else if name.ends_with(".bad") {
                self.set_aside.push(file);
            } else if name.ends_with(".snap") {
                match snapshot_file::summary(&DISK, &folder.join(&name)) {
                    Ok(found) => self.snapshots.push(summary(file, &found)),
                    Err(error) => self.problems.push(Problem::of_io(file, &error)),
                }
            }
        }
        self.snapshots
            .sort_by_key(|one| std::cmp::Reverse((one.index, one.term)));
    }

    /// Returns the reason why the checkpoint could not be copied, if it could not.
    fn checkpoint(&mut self, root: &Path) -> Option<OfflineError> {
        let identity = self.identity.as_ref()?;
        match checkpoint::describe(root, &identity.cluster_id) {
            Ok(found) => self.checkpoint = found,
            // A node that has not applied anything has no checkpoint yet.
            Err(CheckpointError::Unusable(problem))
                if problem.file == "CURRENT" && self.log.last.is_none() => {}
            Err(CheckpointError::Unusable(problem)) => self.problems.push(problem),
            Err(error @ CheckpointError::NotCopied { .. }) => {
                let error = OfflineError::from(error);
                self.problem("CURRENT", &error);
                return Some(error);
            }
        }
        None
    }

    fn names(&mut self, root: &Path) {
        for name in names(root) {
            if name.ends_with(".tmp") {
                self.leftovers.push(name);
            } else if name.starts_with("state-bad") {
                self.set_aside.push(name);
            }
        }
    }
}

/// Returns the node's records about the other nodes, by ID.
fn peers_of(record: PeersRecord) -> Vec<PeerReport> {
    let known = record.rows.into_iter();
    known
        .map(|(id, record)| PeerReport {
            id,
            boot: record.start.boot,
            synced: record.synced.max(record.before).to_string(),
        })
        .collect()
}

impl From<Identity> for IdentityReport {
    fn from(identity: Identity) -> Self {
        let members = identity.members.iter();
        Self {
            cluster_id: identity.cluster_id,
            node: identity.node,
            name: identity.name,
            joined: identity.joined,
            founding: identity.founder,
            members: members
                .map(|(node, member)| format!("{node} {}", member.name))
                .collect(),
            ancestors: identity.ancestors,
        }
    }
}

/// Returns the report of the log. Undecodable content is recorded as a problem.
pub(super) fn log_report(root: &Path, log: &Inspection, problems: &mut Vec<Problem>) -> LogReport {
    let mut record = |what: &str, error: io::Error| {
        problems.push(Problem::of_io("wal", &named(what.to_owned(), error)));
    };
    let mut mark = |what: &str, bytes: Option<&Vec<u8>>| -> Option<EntryId> {
        match records::decode::<LogIdRecord>(bytes?) {
            Ok(id) => Some(id.into()),
            Err(error) => {
                record(what, error);
                None
            }
        }
    };
    let committed = mark("the committed mark", log.committed.as_ref());
    let purged = mark("the purged mark", log.purged.as_ref().map(|(_, meta)| meta));
    let vote = log.vote.as_ref().and_then(|bytes| {
        let decoded = records::decode::<VoteRecord>(bytes);
        let vote = decoded.map_err(|error| record("the vote", error));
        vote.ok().map(VoteReport::from)
    });
    let mut entry = |index: u64| -> Option<EntryId> {
        let read = log
            .entry(index)
            .and_then(|bytes| bytes.map(|bytes| records::decode_entry(&bytes)).transpose());
        match read {
            Ok(entry) => entry.map(|entry| entry.id.into()),
            Err(error) => {
                record(&format!("entry {index}"), error);
                None
            }
        }
    };
    let first = entry(log.first_index());
    let last = log.next_index().checked_sub(1).and_then(&mut entry);
    LogReport {
        segments: log
            .segments
            .iter()
            .map(|segment| SegmentSummary {
                file: below(root, &segment.path),
                bytes: segment.bytes,
                used: segment.used,
                batches: segment.batches,
                first: segment.entries.map(|(first, _)| first),
                last: segment.entries.map(|(_, last)| last),
            })
            .collect(),
        first,
        last,
        vote,
        committed,
        purged,
        torn: log.torn.as_ref().map(|torn| Torn {
            file: below(root, &torn.path),
            offset: torn.offset,
            bytes: torn.bytes,
        }),
        damage: log.damage.as_ref().map(ToString::to_string),
    }
}

fn summary(file: String, found: &SnapshotFile) -> SnapshotSummary {
    SnapshotSummary {
        file,
        index: found.index,
        term: found.term,
        rows: found.rows,
        bytes: found.len,
        digest: seqd_state::Digest(found.digest).to_string(),
    }
}

/// Returns the disk usage: the space that folders take, not the length of their files.
fn sizes(root: &Path) -> Sizes {
    let mut sizes = Sizes::default();
    for name in names(root) {
        let path = root.join(&name);
        let bytes = match DISK.kind(&path) {
            Ok(Some(Kind::Folder)) => folder_bytes(&path),
            _ => DISK
                .open_read(&path)
                .and_then(|file| file.len())
                .unwrap_or(0),
        };
        let part = match name.as_str() {
            "wal" => &mut sizes.log,
            "snap" => &mut sizes.snapshots,
            name if name.starts_with("state-") && !name.starts_with("state-bad") => {
                &mut sizes.checkpoint
            }
            _ => &mut sizes.other,
        };
        *part += bytes;
        sizes.total += bytes;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> EntryId {
        EntryId { index, term }
    }

    fn folder(last: Option<EntryId>, snapshots: &[EntryId]) -> FolderReport {
        let snapshots = snapshots.iter().map(|id| SnapshotSummary {
            file: format!("{}-{}.snap", id.index, id.term),
            index: id.index,
            term: id.term,
            rows: 0,
            bytes: 0,
            digest: String::new(),
        });
        FolderReport {
            log: LogReport {
                last,
                ..LogReport::default()
            },
            snapshots: snapshots.collect(),
            ..FolderReport::default()
        }
    }

    #[test]
    fn the_last_entry_is_of_the_highest_term_before_the_highest_index() {
        let longer = folder(Some(entry(1003, 5)), &[entry(900, 5)]);
        let newer = folder(Some(entry(1002, 6)), &[entry(900, 5)]);
        let by_snapshot = folder(None, &[entry(1010, 6), entry(1020, 5)]);
        let folders = [longer, newer, by_snapshot];
        let last = folders.map(|folder| folder.last_entry().unwrap());
        assert_eq!(last, [entry(1003, 5), entry(1002, 6), entry(1010, 6)]);
        assert_eq!(folder(None, &[]).last_entry(), None);
    }
}
