//! Reads everything in a stopped node's folder in full and verifies it: every checksum, every
//! record, and the consistency of log, snapshots and checkpoint.
//!
//! The last check is the strongest: the node's own state machine applies the oldest kept snapshot
//! and the log again, which must yield the digests of the newer snapshot and of the checkpoint. No
//! other check detects a snapshot or checkpoint that is intact but does not result from the log.

use std::path::Path;

use seqd_wal::Inspection;

use super::error::OfflineError;
use super::files::{DISK, small_file};
use super::inspect::{self, FolderContent};
use super::lock::FolderLock;
use super::replay::Replayed;
use super::reports::{Check, EntryId, FolderReport, Problem, Torn, unreadable_code};
use super::snapshot::{SnapshotReport, read_snapshot};
use seqd_store::folder::FORMAT;
use seqd_store::records::{self, PeersRecord};

/// Verifies a folder and writes nothing to it. `on_check` is called with each completed check.
///
/// # Errors
/// The folder is in use, the path is not a folder, or there is no space for the copy of the
/// checkpoint. Damage is not an error but a [`Check`].
pub fn verify_folder(root: &Path, on_check: &mut dyn FnMut(&Check)) -> Result<(), OfflineError> {
    let lock = FolderLock::to_look(root)?;
    let FolderContent {
        report,
        log,
        not_copied,
    } = inspect::read(root, &lock);
    if let Some(error) = not_copied {
        return Err(error);
    }
    let report = &report;
    let mut checks = Checks {
        root,
        report,
        on_check,
    };
    checks.small_files();
    for problem in &report.problems {
        (checks.on_check)(&Check::problem(problem));
    }
    if let Some(log) = &log {
        checks.log(log);
    }
    for file in &report.leftovers {
        checks.note(file, "unfinished; the next start removes it");
    }
    for file in &report.set_aside {
        checks.note(file, "set aside by an earlier start, not used");
    }
    let snapshots = checks.snapshots();
    checks.checkpoint();
    if let Some(log) = &log {
        checks.cover(&snapshots);
        checks.state(log, &snapshots);
    }
    Ok(())
}

struct Checks<'a> {
    root: &'a Path,
    report: &'a FolderReport,
    on_check: &'a mut dyn FnMut(&Check),
}

impl Checks<'_> {
    fn ok(&mut self, what: &str, detail: impl Into<String>) {
        (self.on_check)(&Check::ok(what, detail));
    }

    fn note(&mut self, what: &str, detail: impl Into<String>) {
        (self.on_check)(&Check::note(what, detail));
    }

    fn bad(&mut self, what: &str, detail: impl Into<String>) {
        (self.on_check)(&Check::bad(what, detail));
    }

    fn small_files(&mut self) {
        let report = self.report;
        if let Some(why) = &report.unlocked {
            self.note("LOCK", format!("read without a lock: {why}"));
        }
        if report.format.as_deref() == Some(FORMAT) {
            self.ok("format", FORMAT);
        }
        if let Some(own) = &report.identity {
            let (name, node, cluster) = (&own.name, own.node, &own.cluster_id);
            self.ok(
                "identity",
                format!("{name}, node {node} of cluster {cluster}"),
            );
        }
        if let Some(boot) = report.boot {
            self.ok("boot", format!("start number {boot}"));
        }
        if let Some(refused) = &report.refused {
            let (code, message) = (&refused.code, &refused.message);
            let detail = format!("a node does not start with this folder: {code}: {message}");
            self.note("refused", detail);
        }
        if let Ok(Some(record)) = small_file::<PeersRecord>(self.root, "peers") {
            let of = &record.cluster_id;
            if report
                .identity
                .as_ref()
                .is_some_and(|own| own.cluster_id != *of)
            {
                self.note("peers", format!("of cluster {of}, not used"));
            } else {
                let count = record.rows.len();
                self.ok(
                    "peers",
                    format!("the synced positions of {count} other nodes"),
                );
            }
        }
    }

    fn log(&mut self, log: &Inspection) {
        let report = self.report;
        for segment in &report.log.segments {
            let entries = match (segment.first, segment.last) {
                (Some(first), Some(last)) => format!("entries {first} to {last}"),
                _ => "no usable entry".to_owned(),
            };
            let (batches, used) = (segment.batches, segment.used);
            let detail = format!("{batches} batches in {used} bytes, {entries}");
            self.ok(&segment.file, detail);
        }
        if let Some(Torn {
            file,
            offset,
            bytes,
        }) = &report.log.torn
        {
            let detail = format!(
                "a torn tail at byte {offset} ({bytes} bytes): a write that was interrupted and \
                 never acknowledged; the next start truncates it"
            );
            self.note(file, detail);
        }
        self.entries(log);
    }

    /// Checks that every entry can be decoded, has the index of its position, and that terms do not
    /// decrease.
    fn entries(&mut self, log: &Inspection) {
        let report = &self.report.log;
        let (first, next) = (log.first_index(), log.next_index());
        let mut term = report.purged.map_or(0, |purged| purged.term);
        for index in first..next {
            let entry = log.entry(index).map(|bytes| bytes.unwrap_or_default());
            let found = entry
                .and_then(|bytes| records::decode_entry(&bytes))
                .map(|entry| entry.id);
            let wrong = match found {
                Ok(found) if found.index != index => format!("it is entry {}", found.index),
                Ok(found) if found.term < term => {
                    format!("its term is {}, after one of {term}", found.term)
                }
                Ok(found) => {
                    term = found.term;
                    continue;
                }
                Err(error) => error.to_string(),
            };
            self.bad("log", format!("entry {index}: {wrong}"));
            return;
        }
        let detail = match (report.first, report.last) {
            (Some(first), Some(last)) => format!(
                "entries {} to {} of terms {} to {}, all of them readable",
                first.index, last.index, first.term, last.term
            ),
            _ => "no entry".to_owned(),
        };
        match report.vote {
            Some(vote) if vote.term < term => {
                let detail = format!(
                    "its vote is of term {}, but it has an entry of term \
                    {term}",
                    vote.term
                );
                self.bad("log", detail);
            }
            Some(vote) => {
                let detail = format!(
                    "{detail}; vote for node {} in term {}",
                    vote.node, vote.term
                );
                self.ok("log", detail);
            }
            None => self.ok("log", format!("{detail}; no vote")),
        }
    }

    /// Returns the intact snapshots of this cluster, oldest first.
    fn snapshots(&mut self) -> Vec<SnapshotReport> {
        let report = self.report;
        let own = report.identity.as_ref().map(|own| &own.cluster_id);
        let mut sound = Vec::new();
        for summary in report.snapshots.iter().rev() {
            let file = &summary.file;
            match read_snapshot(&self.root.join(file), &mut |_| {}) {
                Err(error) => (self.on_check)(&Check::problem(&Problem {
                    is_newer: error.code == unreadable_code(true),
                    ..Problem::new(file, error.message)
                })),
                Ok(found) if *file != format!("snap/{}-{}.snap", found.index, found.term) => {
                    let (index, term) = (found.index, found.term);
                    self.bad(file, format!("it is of entry {index}, term {term}"));
                }
                Ok(found) if own.is_some_and(|own| *own != found.cluster_id) => {
                    self.bad(file, format!("it belongs to cluster {}", found.cluster_id));
                }
                Ok(found) => {
                    let (rows, bytes, digest) = (found.rows, found.bytes, &found.digest);
                    self.ok(
                        file,
                        format!("{rows} rows in {bytes} bytes, digest {digest}"),
                    );
                    sound.push(found);
                }
            }
        }
        sound
    }

    fn checkpoint(&mut self) {
        let report = self.report;
        match &report.checkpoint {
            Some(found) => {
                let index = found.applied.map_or(0, |applied| applied.index);
                let (rows, digest) = (found.rows, &found.digest);
                let detail = format!(
                    "checkpoint at entry {index}: {rows} rows, digest {digest} (opened in a copy)"
                );
                self.ok(&found.folder, detail);
            }
            None if report.identity.is_some() && !self.has_problem_of_checkpoint() => {
                self.ok("CURRENT", "no checkpoint yet");
            }
            None => {}
        }
    }

    fn has_problem_of_checkpoint(&self) -> bool {
        let mut files = self.report.problems.iter().map(|problem| &problem.file);
        files.any(|file| file == "CURRENT" || file.starts_with("state-"))
    }

    /// Checks that nothing is missing between the snapshots or the checkpoint and the log.
    fn cover(&mut self, snapshots: &[SnapshotReport]) {
        let log = &self.report.log;
        let applied = self
            .report
            .checkpoint
            .as_ref()
            .and_then(|found| found.applied);
        let newest = snapshots.last().map(|found| EntryId {
            index: found.index,
            term: found.term,
        });
        let end = log.last.or(log.purged).max(newest);
        if applied.map(|id| id.index) > end.map(|id| id.index) {
            let (held, end) = (
                applied.map_or(0, |id| id.index),
                end.map_or(0, |id| id.index),
            );
            let detail = format!(
                "the checkpoint contains entry {held}, but the log and the snapshots end at \
                 {end}: the log was lost or is older"
            );
            self.bad("log and checkpoint", detail);
        }
        if let Some(purged) = log.purged
            && Some(purged.index) > applied.max(newest).map(|id| id.index)
        {
            let detail = format!(
                "the log begins after entry {}, and no file contains the entries before",
                purged.index
            );
            self.bad("log and snapshots", detail);
        }
    }

    /// Applies the log again and compares the digest at each index for which one was recorded.
    fn state(&mut self, log: &Inspection, snapshots: &[SnapshotReport]) {
        let checkpoint = self.report.checkpoint.as_ref().and_then(|found| {
            let index = found.applied?.index;
            Some((index, found.digest.as_str(), found.folder.clone()))
        });
        let mut recorded: Vec<(u64, &str, String)> = (snapshots.iter())
            .map(|found| {
                let name = format!("snap/{}-{}.snap", found.index, found.term);
                (found.index, found.digest.as_str(), name)
            })
            .chain(checkpoint)
            .collect();
        recorded.sort_by_key(|(index, ..)| *index);
        if recorded.is_empty() {
            return self.note("state", "no digest was recorded for comparison");
        }
        let mut replayed = match begin(log, snapshots) {
            Ok(Some(replayed)) => replayed,
            Ok(None) => {
                let what = "the log does not reach back to a snapshot: the digests cannot be \
                    compared";
                return self.note("state", what);
            }
            Err(why) => return self.bad("state", why.to_string()),
        };
        let from = replayed.next();
        for (index, digest, what) in recorded {
            while replayed.next() <= index {
                let next = replayed.next();
                if !(log.first_index()..log.next_index()).contains(&next) {
                    let what =
                        format!("the log ends before entry {next}; the rest was not compared");
                    return self.note("state", what);
                }
                if let Err(error) = replayed.apply_next(log) {
                    return self.bad("state", format!("entry {next}: {error}"));
                }
            }
            let found = replayed.state.digest().to_string();
            let applied = replayed.next() - from;
            if replayed.next() > index + 1 {
                self.note(
                    "state",
                    format!("{what} is older than the state that the entries were applied to"),
                );
            } else if found == digest {
                let same = format!(
                    "{applied} entries applied again up to entry {index}: same digest as \
                        {what}"
                );
                self.ok("state", same);
            } else {
                let other = format!(
                    "at entry {index}, {what} has digest {digest}, but the applied \
                        entries give {found}"
                );
                self.bad("state", other);
            }
        }
    }
}

/// Returns the state to which the log is applied: the newest snapshot that a leader sent, otherwise
/// the state before the very first entry, otherwise the oldest snapshot that the log reaches back
/// to.
fn begin(log: &Inspection, snapshots: &[SnapshotReport]) -> std::io::Result<Option<Replayed>> {
    let is_whole = log.purged.is_none() && log.first_index() == 0 && log.next_index() > 0;
    let reached = |found: &&SnapshotReport| log.first_index() <= found.index + 1;
    let begin = match snapshots.iter().rfind(|found| !continues(log, found)) {
        None if is_whole => return Ok(Some(Replayed::default())),
        None => snapshots.iter().find(reached).or(snapshots.last()),
        sent => sent,
    };
    begin
        .map(|found| Replayed::of_snapshot(&DISK, &found.file))
        .transpose()
}

/// Returns whether the snapshot resulted from the log's entries. A snapshot that a leader sent
/// makes earlier entries obsolete, and a crash may have occurred before they were purged.
fn continues(log: &Inspection, found: &SnapshotReport) -> bool {
    if found.index < log.first_index() {
        return true;
    }
    let entry = log.entry(found.index).ok().flatten();
    let entry = entry.and_then(|bytes| records::decode_entry(&bytes).ok());
    entry.is_some_and(|entry| entry.id.term == found.term)
}
