//! Everything in a stopped node's folder, read in full and compared: every checksum, every record,
//! and whether log, snapshots and checkpoint tell one story.
//!
//! The last check is the one that counts: the oldest kept snapshot and the log are applied again,
//! by the same state machine as the node's, and must come to the digests of the newer snapshot and
//! of the checkpoint.

use std::path::Path;

use seqd_wal::Inspection;
use serde::Serialize;

use super::checkpoint::Unseen;
use super::inspect::{DISK, NO_FORMAT, below, format_of, log_report, names, small_file};
use super::replay;
use super::reports::{CheckpointReport, EntryId, LogReport, Problem, Torn};
use super::snapshot::{SnapshotReport, read_snapshot};
use super::{FolderLock, OfflineError, checkpoint};
use seqd_store::folder::{BootRecord, Identity, RefusedRecord};
use seqd_store::records;
use seqd_store::records::PeersRecord;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// It is worth knowing and nothing is wrong: the next start deals with it.
    Note,
    /// It is damaged, or does not fit the rest.
    Bad,
}

impl Verdict {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// One file, or one thing that several files must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub verdict: Verdict,
    /// The file, below the data folder, or what was compared.
    pub what: String,
    pub detail: String,
}

impl Check {
    /// It is as it should be.
    pub fn ok(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Ok, what, detail)
    }

    pub fn note(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Note, what, detail)
    }

    pub fn bad(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Bad, what, detail)
    }

    fn of(verdict: Verdict, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            what: what.into(),
            detail: detail.into(),
        }
    }
}

/// Checks a folder and writes nothing to it. `tell` hears of each check as it is done.
///
/// # Errors
/// The folder is in use or is none, or there is no room for the copy of the checkpoint. Damage is no
/// error here: it is told as a [`Check`].
pub fn verify_folder(root: &Path, tell: &mut dyn FnMut(&Check)) -> Result<(), OfflineError> {
    let lock = FolderLock::to_look(root)?;
    if let Some(why) = lock.why_not() {
        tell(&Check::note(
            "LOCK",
            format!("looked at without a lock: {why}"),
        ));
    }
    let mut checks = Checks { root, tell };
    let identity = checks.small_files();
    let log = checks.log(identity.as_ref());
    let snapshots = checks.snapshots(identity.as_ref());
    let checkpoint = checks.checkpoint(identity.as_ref(), log.as_ref())?;
    if let Some((log, report)) = &log {
        checks.cover(report, &snapshots, checkpoint.as_ref());
        for check in replay::replay(log, &snapshots, checkpoint.as_ref()) {
            checks.tell(&check);
        }
    }
    Ok(())
}

struct Checks<'a> {
    root: &'a Path,
    tell: &'a mut dyn FnMut(&Check),
}

impl Checks<'_> {
    fn tell(&mut self, check: &Check) {
        (self.tell)(check);
    }

    fn small<T>(
        &mut self,
        name: &str,
        read: Result<Option<T>, String>,
        shown: impl FnOnce(&T) -> Check,
    ) -> Option<T> {
        match read {
            Ok(Some(value)) => {
                let check = shown(&value);
                self.tell(&check);
                Some(value)
            }
            Ok(None) => None,
            Err(why) => {
                self.tell(&Check::bad(name, why));
                None
            }
        }
    }

    fn small_files(&mut self) -> Option<Identity> {
        let root = self.root;
        let known = |format: &String| match format.as_str() {
            seqd_store::folder::FORMAT => Check::ok("format", format),
            other => {
                let known = seqd_store::folder::FORMAT;
                Check::bad(
                    "format",
                    format!("it says {other:?}, known here is {known:?}"),
                )
            }
        };
        let format = format_of(root);
        if let Ok(None) = format {
            self.tell(&Check::bad("format", NO_FORMAT));
        }
        self.small("format", format, known);
        let identity = self.small(
            "identity",
            small_file::<Identity>(root, "identity"),
            |own| {
                let (name, node, cluster) = (&own.name, own.node, &own.cluster_id);
                Check::ok(
                    "identity",
                    format!("{name}, node {node} of cluster {cluster}"),
                )
            },
        );
        let boot = small_file::<BootRecord>(root, "boot");
        self.small("boot", boot, |record| {
            Check::ok("boot", format!("start number {}", record.boot))
        });
        let refused = small_file::<RefusedRecord>(root, "refused");
        self.small("refused", refused, |record| {
            let (code, message) = (&record.code, &record.message);
            Check::note(
                "refused",
                format!("this folder is not started again: {code}: {message}"),
            )
        });
        let peers = small_file::<PeersRecord>(root, "peers");
        self.small("peers", peers, |record| {
            let of = &record.cluster_id;
            if identity.as_ref().is_some_and(|own| own.cluster_id != *of) {
                return Check::note("peers", format!("of cluster {of}, not used"));
            }
            let count = record.rows.len();
            Check::ok("peers", format!("what {count} other nodes had synced"))
        });
        identity
    }

    fn log(&mut self, identity: Option<&Identity>) -> Option<(Inspection, LogReport)> {
        let root = self.root;
        let log = match seqd_wal::inspect(&DISK, &root.join("wal")) {
            Ok(log) => log,
            Err(error) => {
                self.tell(&Check::bad("wal", error.to_string()));
                return None;
            }
        };
        let mut problems: Vec<Problem> = Vec::new();
        let report = log_report(root, &log, &mut problems);
        for segment in &report.segments {
            let entries = match (segment.first, segment.last) {
                (Some(first), Some(last)) => format!("entries {first} to {last}"),
                _ => "no entry of use".to_owned(),
            };
            let (batches, used) = (segment.batches, segment.used);
            let detail = format!("{batches} batches in {used} bytes, {entries}");
            self.tell(&Check::ok(&segment.file, detail));
        }
        if let Some(torn) = &report.torn {
            let Torn { offset, bytes, .. } = torn;
            let detail = format!(
                "a torn tail at byte {offset} ({bytes} bytes): a write that was interrupted and \
                 acknowledged to nobody; the next start cuts it off"
            );
            self.tell(&Check::note(&torn.file, detail));
        }
        for leftover in &log.leftovers {
            let detail = "it was not finished; the next start removes it";
            self.tell(&Check::note(below(root, leftover), detail));
        }
        if let Some(damage) = &log.damage {
            self.tell(&Check::bad(damaged_file(root, damage), damage.to_string()));
        }
        if let Some(own) = identity.filter(|_| log.segments.is_empty()) {
            // The first segment is made before the identity is.
            let detail = format!("no segment: the log of {} is lost", own.name);
            self.tell(&Check::bad("wal", detail));
        }
        for Problem { file, detail } in problems {
            self.tell(&Check::bad(file, detail));
        }
        self.entries(&log, &report);
        Some((log, report))
    }

    /// Every entry is one, is the one that its place says, and terms do not fall.
    fn entries(&mut self, log: &Inspection, report: &LogReport) {
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
            self.tell(&Check::bad("log", format!("entry {index}: {wrong}")));
            return;
        }
        let detail = match (report.first, report.last) {
            (Some(first), Some(last)) => format!(
                "entries {} to {} of terms {} to {}, each one can be read",
                first.index, last.index, first.term, last.term
            ),
            _ => "no entry".to_owned(),
        };
        match report.vote {
            Some(vote) if vote.term < term => {
                let detail = format!("its vote is of term {}, an entry of {term}", vote.term);
                self.tell(&Check::bad("log", detail));
            }
            Some(vote) => {
                let detail = format!(
                    "{detail}; vote for node {} in term {}",
                    vote.node, vote.term
                );
                self.tell(&Check::ok("log", detail));
            }
            None => self.tell(&Check::ok("log", format!("{detail}; no vote"))),
        }
    }

    /// The snapshots that can be believed, oldest first.
    fn snapshots(&mut self, identity: Option<&Identity>) -> Vec<SnapshotReport> {
        let folder = self.root.join("snap");
        let mut sound = Vec::new();
        for name in names(&folder) {
            let file = format!("snap/{name}");
            if name.ends_with(".tmp") {
                let detail = "it was not finished; the next start removes it";
                self.tell(&Check::note(file, detail));
                continue;
            }
            if !name.ends_with(".snap") {
                self.tell(&Check::note(
                    file,
                    "set aside by an earlier start, not used",
                ));
                continue;
            }
            let read = read_snapshot(&folder.join(&name), &mut |_| {});
            let check = match read {
                Err(error) => Check::bad(file, error.message),
                Ok(found) if name != format!("{}-{}.snap", found.index, found.term) => {
                    let (index, term) = (found.index, found.term);
                    Check::bad(file, format!("it is of entry {index}, term {term}"))
                }
                Ok(found) if identity.is_some_and(|own| own.cluster_id != found.cluster_id) => {
                    Check::bad(file, format!("it is of cluster {}", found.cluster_id))
                }
                Ok(found) => {
                    let (rows, bytes, digest) = (found.rows, found.bytes, &found.digest);
                    let check = Check::ok(
                        file,
                        format!("{rows} rows in {bytes} bytes, digest {digest}"),
                    );
                    sound.push(found);
                    check
                }
            };
            self.tell(&check);
        }
        sound.sort_by_key(|found| (found.index, found.term));
        sound
    }

    fn checkpoint(
        &mut self,
        identity: Option<&Identity>,
        log: Option<&(Inspection, LogReport)>,
    ) -> Result<Option<CheckpointReport>, OfflineError> {
        let Some(identity) = identity else {
            return Ok(None);
        };
        Ok(match checkpoint::look(self.root, &identity.cluster_id) {
            Ok(None) => {
                self.tell(&Check::ok(
                    "CURRENT",
                    "a checkpoint without anything applied yet",
                ));
                None
            }
            Ok(Some(found)) => {
                let index = found.applied.map_or(0, |applied| applied.index);
                let (rows, digest) = (found.rows, &found.digest);
                let detail = format!(
                    "checkpoint at entry {index}: {rows} rows, digest {digest} (opened in a copy)"
                );
                self.tell(&Check::ok(&found.folder, detail));
                Some(found)
            }
            Err(unseen @ Unseen::NotCopied { .. }) => return Err(unseen.into_error()),
            Err(Unseen::Damaged(problem)) => {
                let applied_nothing = log.is_some_and(|(_, log)| log.last.is_none());
                let check = if problem.file == "CURRENT" && applied_nothing {
                    Check::ok("CURRENT", "no checkpoint yet")
                } else {
                    Check::bad(problem.file, problem.detail)
                };
                self.tell(&check);
                None
            }
        })
    }

    /// Nothing is missing between what the snapshots or the checkpoint hold and the log.
    fn cover(
        &mut self,
        log: &LogReport,
        snapshots: &[SnapshotReport],
        checkpoint: Option<&CheckpointReport>,
    ) {
        let applied = checkpoint.and_then(|found| found.applied);
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
                "the checkpoint holds entry {held}, log and snapshots end at {end}: the log was \
                 lost or is older"
            );
            self.tell(&Check::bad("log and checkpoint", detail));
        }
        if let Some(purged) = log.purged
            && Some(purged.index) > applied.max(newest).map(|id| id.index)
        {
            let detail = format!(
                "the log begins behind entry {}, and nothing holds what came before",
                purged.index
            );
            self.tell(&Check::bad("log and snapshots", detail));
        }
    }
}

fn damaged_file(root: &Path, damage: &seqd_wal::WalError) -> String {
    use seqd_wal::WalError;
    match damage {
        WalError::Corrupt { path, .. }
        | WalError::NewerFormat { path, .. }
        | WalError::Io { path, .. } => below(root, path),
        WalError::Option { .. } => "wal".to_owned(),
    }
}
