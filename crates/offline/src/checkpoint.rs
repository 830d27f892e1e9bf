//! Reads a checkpoint in a copy of its folder, because sled cannot open one without writing to it.
//!
//! The copy is opened as a start opens a checkpoint: the digest of its rows is compared with the
//! recorded one. The copy is created in the folder for temporary files (`TMPDIR`) and removed
//! afterwards.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use seqd_disk::{Disk, FileReader, FileWriter, Kind, OsDisk, read_file};
use seqd_state::StateLoader;

use super::error::OfflineError;
use super::files::DISK;
use super::private_folder::private_folder;
use super::reports::{CheckpointReport, EntryId, Problem, members, unreadable_code};
use seqd_store::checkpoint::{self, Opened, Place, TakeRows};
use seqd_store::disk_errors::is_newer;
use seqd_store::records::{LogIdRecord, StoredMembershipRecord, restore_position};

const CURRENT: &str = "CURRENT";

/// More than any name and its checksum need.
const MAX_CURRENT_BYTES: usize = 4096;

/// The size of one write of a copy.
const PIECE_BYTES: usize = 1 << 20;

/// Counts rows. The digest of the state covers their content.
#[derive(Default)]
struct Rows(u64);

impl TakeRows for Rows {
    fn hashed_row(&mut self, _: &[u8], _: &[u8], _: u128) -> io::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// The reason why a checkpoint cannot be reported.
#[derive(Debug)]
pub(super) enum CheckpointError {
    /// The checkpoint is damaged and a start would set it aside, or a newer seqd wrote it.
    Unusable(Problem),
    /// The checkpoint could not be copied, but may be intact.
    NotCopied { to: PathBuf, why: io::Error },
}

impl From<CheckpointError> for OfflineError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Unusable(Problem {
                file,
                detail,
                is_newer,
            }) => Self::new(unreadable_code(is_newer), format!("{file}: {detail}")),
            CheckpointError::NotCopied { to, why } => {
                let what = format!("cannot copy the checkpoint to {}: {why}", to.display());
                Self::new("failure", what).with_hint(
                    "set TMPDIR=DIR to a folder with enough free \
                    space",
                )
            }
        }
    }
}

/// A checkpoint that a start would use.
pub(super) struct Verified<R> {
    folder: String,
    /// The last entry in the checkpoint.
    pub(super) applied: Option<LogIdRecord>,
    pub(super) membership: StoredMembershipRecord,
    digest: u128,
    pub(super) rows: R,
}

/// Returns the checkpoint that a start would find, or `None` before the first one.
pub(super) fn describe(
    root: &Path,
    cluster_id: &str,
) -> Result<Option<CheckpointReport>, CheckpointError> {
    let seen = open_copy::<Rows>(&std::env::temp_dir(), root, cluster_id)?;
    Ok(seen.map(|seen| CheckpointReport {
        folder: seen.folder,
        applied: seen.applied.map(EntryId::from),
        rows: seen.rows.0,
        digest: seqd_state::Digest(seen.digest).to_string(),
        members: members(&seen.membership),
    }))
}

/// Returns the checkpoint with its state.
pub(super) fn load(
    root: &Path,
    cluster_id: &str,
) -> Result<Option<Verified<StateLoader>>, CheckpointError> {
    open_copy(&std::env::temp_dir(), root, cluster_id)
}

/// Opens the checkpoint in a copy below `temporary`.
pub(super) fn open_copy<R: TakeRows>(
    temporary: &Path,
    root: &Path,
    cluster_id: &str,
) -> Result<Option<Verified<R>>, CheckpointError> {
    let problem =
        |file: &str, detail: String| CheckpointError::Unusable(Problem::new(file, detail));
    let line = match read_file(&DISK, &root.join(CURRENT), MAX_CURRENT_BYTES) {
        Ok(Some(line)) => String::from_utf8_lossy(&line).into_owned(),
        Ok(None) => return Err(problem(CURRENT, "it is missing".to_owned())),
        Err(e) => return Err(problem(CURRENT, e.to_string())),
    };
    // The open reads the line again and verifies it.
    let folder = line.split(' ').next().unwrap_or_default().to_owned();
    let is_name = folder.starts_with("state-") && !folder.contains(['/', '.']);
    let blamed = if is_name { folder.as_str() } else { CURRENT };
    let failed = |e: io::Error| CheckpointError::Unusable(Problem::of_io(blamed, &e));
    let not_copied = |why: io::Error| CheckpointError::NotCopied {
        to: temporary.to_owned(),
        why,
    };
    let copy = private_folder(temporary).map_err(not_copied)?;
    let copied = Copier {
        blamed,
        to: copy.path(),
    };
    copied.file(&root.join(CURRENT), &copy.path().join(CURRENT))?;
    if is_name && DISK.kind(&root.join(&folder)).map_err(failed)? == Some(Kind::Folder) {
        copied.tree(&root.join(&folder), &copy.path().join(&folder))?;
    }
    let place = Place::on_sled(copy.path(), cluster_id);
    let opened = checkpoint::open::<R>(&place, false).map_err(|e| match e {
        e if is_newer(&e) => failed(e),
        // Any other error is an error of the machine.
        e => not_copied(e),
    });
    match opened? {
        Opened::Good {
            store,
            rows,
            applied,
        } => {
            drop(store);
            let (id, membership) =
                restore_position(&applied.log_id, &applied.membership).map_err(failed)?;
            Ok(Some(Verified {
                folder,
                applied: id,
                membership,
                digest: applied.digest,
                rows,
            }))
        }
        Opened::Empty { .. } => Ok(None),
        Opened::SetAside { why, .. } => Err(problem(blamed, why)),
    }
}

/// A copy in progress. A read error is a problem of the folder, a write error a problem of the
/// place of the copy. The copies are writable even if the files are not.
struct Copier<'a> {
    blamed: &'a str,
    to: &'a Path,
}

impl Copier<'_> {
    fn unread(&self, error: io::Error) -> CheckpointError {
        CheckpointError::Unusable(Problem::of_io(self.blamed, &error))
    }

    fn unwritten(&self, why: io::Error) -> CheckpointError {
        CheckpointError::NotCopied {
            to: self.to.to_owned(),
            why,
        }
    }

    fn tree(&self, from: &Path, to: &Path) -> Result<(), CheckpointError> {
        let made = OsDisk.create_dir_all(to);
        made.map_err(|e| self.unwritten(e))?;
        for name in DISK.list(from).map_err(|e| self.unread(e))? {
            let (source, target) = (from.join(&name), to.join(&name));
            match DISK.kind(&source).map_err(|e| self.unread(e))? {
                Some(Kind::Folder) => self.tree(&source, &target)?,
                _ => self.file(&source, &target)?,
            }
        }
        Ok(())
    }

    fn file(&self, from: &Path, to: &Path) -> Result<(), CheckpointError> {
        let source = DISK.open_read(from).and_then(FileReader::new);
        let mut source = source.map_err(|e| self.unread(e))?;
        let target = OsDisk.create(to).map(FileWriter::new);
        let mut target = target.map_err(|e| self.unwritten(e))?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = source.read(&mut piece).map_err(|e| self.unread(e))?;
            if read == 0 {
                return Ok(());
            }
            let written = target.write_all(&piece[..read]);
            written.map_err(|e| self.unwritten(e))?;
        }
    }
}
