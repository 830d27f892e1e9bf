//! Reads the remaining state of a cluster from one stopped node's folder: its newest snapshot and
//! every entry of its log.
//!
//! A log that is lost, or older than the folder around it, is not sufficient: the missing entries
//! were acknowledged, and their values would be issued again. The checkpoint is therefore examined
//! too. Its state is used only if the log begins after every readable snapshot; a start would use
//! it in this case as well.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

use seqd_disk::Kind;
use seqd_guards::is_out;
use seqd_wal::Inspection;

use super::checkpoint::{self, CheckpointError};
use super::error::{OfflineError, from_io};
use super::files::small_file;
use super::replay::Replayed;
use super::reports::Problem;
use super::takeover::Source;
use seqd_store::disk_errors::is_of_the_machine;
use seqd_store::folder::{BootRecord, Folder, Identity};
use seqd_store::records::{self, LogIdRecord, PeersRecord};
use seqd_store::snapshot_file;

/// The small files that cannot be read. The new cluster uses none of them.
fn unreadable(root: &Path) -> Vec<String> {
    let peers = small_file::<PeersRecord>(root, "peers").err();
    let boot = small_file::<BootRecord>(root, "boot").err();
    let files = [("peers", peers), ("boot", boot)].into_iter();
    let errors = files.filter_map(|(file, error)| Some((file, error?)));
    errors
        .map(|(file, error)| format!("the file {file} cannot be read, and is not used: {error}"))
        .collect()
}

/// Returns the state as far as this folder contains it.
pub(super) fn read(folder: &Folder, identity: &Identity) -> Result<Source, OfflineError> {
    let root = folder.root();
    let log = seqd_wal::inspect(&**folder.disk(), &folder.wal())
        .map_err(|error| OfflineError::new("failure", error.to_string()))?;
    if let Some(damage) = &log.damage {
        return Err(unusable(folder, damage.to_string()));
    }
    if log.segments.is_empty() {
        // A node that has acknowledged anything has a segment.
        let lost = format!("{}: its log is lost", root.display());
        return Err(unusable(folder, lost));
    }
    let mut notes = unreadable(root);
    let newest = newest_snapshot(folder, identity, &mut notes)?;
    let mut replayed = newest.map_or_else(Replayed::default, |(_, replayed)| replayed);
    let is_gap = log.next_index() > replayed.next() && log.first_index() > replayed.next();
    if is_gap {
        replayed = from_checkpoint(folder, identity, &log)?;
        notes.push(
            "the snapshots end before the log begins: the state is taken from the \
             checkpoint"
                .to_owned(),
        );
    }
    let first = replayed.next();
    while replayed.next() < log.next_index() {
        replayed.apply_next(&log).map_err(from_io(root))?;
    }
    let source = Source::new(root, replayed)?;
    let end = source.position.index;
    // A log that continues after the checkpoint is not older than it.
    if !is_gap {
        notes.extend(check_complete(folder, identity, end)?);
    }
    let committed = log.committed.as_ref();
    let committed = committed
        .map(|bytes| records::decode::<LogIdRecord>(bytes))
        .transpose()
        .map_err(from_io(root))?;
    let proven = committed
        .map_or(0, |id| id.index)
        .max(first.saturating_sub(1));
    Ok(Source {
        unproven_entries: end.saturating_sub(proven),
        ancestors: identity.ancestors.clone(),
        notes,
        ..source
    })
}

/// Fails if the remaining state ends before the checkpoint, because committed entries would be
/// missing. Returns the reason if this could not be checked.
fn check_complete(
    folder: &Folder,
    identity: &Identity,
    end: u64,
) -> Result<Option<String>, OfflineError> {
    let held = match checkpoint::describe(folder.root(), &identity.cluster_id) {
        Ok(found) => found.and_then(|found| found.applied),
        Err(CheckpointError::Unusable(Problem {
            file,
            detail,
            is_newer: false,
        })) => {
            return Ok(Some(format!(
                "the checkpoint cannot be read ({file}: {detail}): an older log in this folder \
                 would not be detected"
            )));
        }
        Err(error) => return Err(error.into()),
    };
    match held {
        Some(held) if held.index > end && !is_out!(RemainsCompared) => {
            Err(older(folder, held.index, end))
        }
        _ => Ok(None),
    }
}

fn older(folder: &Folder, held: u64, end: u64) -> OfflineError {
    let text = format!(
        "{}: the checkpoint contains entry {held}, but the log and the snapshots end at {end}: \
         the log was lost or is older",
        folder.root().display()
    );
    unusable(folder, text)
}

/// Returns the state of the checkpoint, for a log that begins after every readable snapshot.
fn from_checkpoint(
    folder: &Folder,
    identity: &Identity,
    log: &Inspection,
) -> Result<Replayed, OfflineError> {
    let (root, begins) = (folder.root(), log.first_index());
    let gap = |checkpoint: &str| {
        let text = format!(
            "{}: its log begins at entry {begins}, its snapshots end before that entry, and its \
             checkpoint {checkpoint}",
            root.display(),
        );
        unusable(folder, text)
    };
    let found = match checkpoint::load(root, &identity.cluster_id) {
        Ok(found) => found,
        Err(CheckpointError::Unusable(Problem {
            file,
            detail,
            is_newer: false,
        })) => {
            return Err(gap(&format!("cannot be read ({file}: {detail})")));
        }
        Err(error) => return Err(error.into()),
    };
    let Some((found, position)) = found.and_then(|found| {
        let position = found.applied?;
        Some((found, position))
    }) else {
        return Err(gap("holds nothing"));
    };
    let held = position.index;
    if begins > held + 1 {
        return Err(gap(&format!("ends at {held}")));
    }
    if held >= log.next_index() {
        return Err(older(folder, held, log.next_index() - 1));
    }
    Ok(Replayed {
        state: found.rows.finish(),
        position: Some(position),
        membership: found.membership,
    })
}

/// An error with an alternative: a readable snapshot can serve as a backup.
fn unusable(folder: &Folder, what: String) -> OfflineError {
    let identity = folder.identity().ok().flatten();
    let newest = identity.and_then(|identity| {
        let newest = newest_snapshot(folder, &identity, &mut Vec::new());
        newest.ok().flatten()
    });
    let backup = match newest {
        Some((path, _)) => path.display().to_string(),
        None => "a backup".to_owned(),
    };
    let hint = format!("recover from another node's folder, or restore {backup}");
    OfflineError::new("corrupt", what).with_hint(hint)
}

/// Returns the newest snapshot of this cluster that is fully readable. A damaged or unreadable
/// snapshot is replaced by the previous one and a longer part of the log.
fn newest_snapshot(
    folder: &Folder,
    identity: &Identity,
    notes: &mut Vec<String>,
) -> Result<Option<(PathBuf, Replayed)>, OfflineError> {
    let (disk, snapshots) = (&**folder.disk(), folder.snapshots());
    let mut pass_over = |path: &Path, error: io::Error| {
        if is_of_the_machine(&error) {
            return Err(OfflineError::io(path, &error));
        }
        let error = OfflineError::io(path, &error);
        notes.push(format!("a snapshot cannot be used: {error}"));
        Ok(())
    };
    let mut listed = Vec::new();
    let names = match disk.kind(&snapshots).map_err(from_io(&snapshots))? {
        Some(Kind::Folder) => disk.list(&snapshots).map_err(from_io(&snapshots))?,
        _ => Vec::new(),
    };
    for name in names.iter().filter(|name| name.ends_with(".snap")) {
        let path = snapshots.join(name);
        match snapshot_file::summary(disk, &path) {
            Ok(file) => listed.push(file),
            Err(error) => pass_over(&path, error)?,
        }
    }
    listed.sort_by_key(|file| Reverse((file.index, file.term)));
    for file in listed {
        if file.cluster_id != identity.cluster_id {
            let foreign = format!("it belongs to cluster {}", file.cluster_id);
            pass_over(&file.path, io::Error::other(foreign))?;
            continue;
        }
        match Replayed::of_snapshot(disk, &file.path) {
            Ok(replayed) => return Ok(Some((file.path, replayed))),
            Err(error) => pass_over(&file.path, error)?,
        }
    }
    Ok(None)
}
