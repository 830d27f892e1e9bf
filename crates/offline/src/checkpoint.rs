//! A checkpoint, looked at in a copy of its folder: sled cannot open one without writing to it.
//!
//! The copy is opened as a start opens a checkpoint, with every row against the recorded digest.
//! It lies in the system's folder for temporary files (`TMPDIR`) and goes when it was looked at.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, FileReader, FileWriter, Kind, OsDisk, read_file};
use seqd_state::StateLoader;

use super::OfflineError;
use super::inspect::DISK;
use super::reports::{CheckpointReport, EntryId, Problem, members};
use seqd_store::checkpoint::{self, Opened, Place, SledStores, TakeRows};
use seqd_store::faults::is_newer;
use seqd_store::records::{LogIdRecord, StoredMembershipRecord, restore_position};

const CURRENT: &str = "CURRENT";

/// More than any name and its checksum.
const MAX_CURRENT_BYTES: usize = 4096;

/// One write of a copy.
const PIECE_BYTES: usize = 1 << 20;

/// How many rows there are; that they are records is what the digest of the state says.
#[derive(Default)]
struct Rows(u64);

impl TakeRows for Rows {
    fn hashed_row(&mut self, _: &[u8], _: &[u8], _: u128) -> io::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// Why there is nothing to say of a checkpoint.
#[derive(Debug)]
pub(super) enum Unseen {
    /// It cannot be believed: a start would set it aside.
    Damaged(Problem),
    /// It could not be copied, which says nothing of it.
    NotCopied { to: PathBuf, why: io::Error },
}

impl Unseen {
    /// The same as an error of a tool.
    pub(super) fn into_error(self) -> OfflineError {
        match self {
            Self::Damaged(Problem { file, detail }) => {
                OfflineError::new("corrupt", format!("{file}: {detail}"))
            }
            Self::NotCopied { to, why } => {
                let what = format!("no copy of the checkpoint in {}: {why}", to.display());
                OfflineError::new("failure", what)
                    .with_hint("TMPDIR=DIR names a folder with room for it")
            }
        }
    }
}

/// A checkpoint that a start would believe.
pub(super) struct Seen<R> {
    folder: String,
    /// The last entry that is in it.
    pub(super) applied: Option<LogIdRecord>,
    pub(super) membership: StoredMembershipRecord,
    digest: u128,
    pub(super) rows: R,
}

/// The checkpoint that a start would find; none before the first.
pub(super) fn look(root: &Path, cluster_id: &str) -> Result<Option<CheckpointReport>, Unseen> {
    let seen = look_in::<Rows>(&std::env::temp_dir(), root, cluster_id)?;
    Ok(seen.map(|seen| CheckpointReport {
        folder: seen.folder,
        applied: seen.applied.map(EntryId::from),
        rows: seen.rows.0,
        digest: seqd_state::Digest(seen.digest).to_string(),
        members: members(&seen.membership),
    }))
}

/// The same with the state that it holds.
pub(super) fn load(root: &Path, cluster_id: &str) -> Result<Option<Seen<StateLoader>>, Unseen> {
    look_in(&std::env::temp_dir(), root, cluster_id)
}

/// What is in the checkpoint, looked at in a copy below `temporary`.
pub(super) fn look_in<R: TakeRows>(
    temporary: &Path,
    root: &Path,
    cluster_id: &str,
) -> Result<Option<Seen<R>>, Unseen> {
    let problem = |file: &str, detail: String| {
        Unseen::Damaged(Problem {
            file: file.to_owned(),
            detail,
        })
    };
    let line = match read_file(&DISK, &root.join(CURRENT), MAX_CURRENT_BYTES) {
        Ok(Some(line)) => String::from_utf8_lossy(&line).into_owned(),
        Ok(None) => return Err(problem(CURRENT, "it is missing".to_owned())),
        Err(e) => return Err(problem(CURRENT, e.to_string())),
    };
    // Whether the line is right is for the opening to say, which reads it again.
    let folder = line.split(' ').next().unwrap_or_default().to_owned();
    let is_name = folder.starts_with("state-") && !folder.contains(['/', '.']);
    let blamed = if is_name { folder.as_str() } else { CURRENT };
    let failed = |e: io::Error| problem(blamed, e.to_string());
    let not_copied = |why: io::Error| Unseen::NotCopied {
        to: temporary.to_owned(),
        why,
    };
    let copy = tempfile::Builder::new()
        .prefix("seqd-look-")
        .tempdir_in(temporary)
        .map_err(not_copied)?;
    let copied = Copied {
        blamed,
        to: copy.path(),
    };
    copied.file(&root.join(CURRENT), &copy.path().join(CURRENT))?;
    if is_name && DISK.kind(&root.join(&folder)).map_err(failed)? == Some(Kind::Folder) {
        copied.tree(&root.join(&folder), &copy.path().join(&folder))?;
    }
    let place = Place {
        disk: Arc::new(OsDisk),
        data_dir: copy.path().to_owned(),
        cluster_id: cluster_id.to_owned(),
        stores: Arc::new(SledStores),
    };
    let opened = checkpoint::open::<R>(&place, false).map_err(|e| match e {
        e if is_newer(&e) => failed(e),
        // All else is said of the machine.
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
            Ok(Some(Seen {
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

/// A copy that is being made: what cannot be read is told of the folder, what cannot be written of
/// the place of the copy. The copies can be written, also where the files cannot.
struct Copied<'a> {
    blamed: &'a str,
    to: &'a Path,
}

impl Copied<'_> {
    fn unread(&self, error: io::Error) -> Unseen {
        Unseen::Damaged(Problem {
            file: self.blamed.to_owned(),
            detail: error.to_string(),
        })
    }

    fn unwritten(&self, why: io::Error) -> Unseen {
        Unseen::NotCopied {
            to: self.to.to_owned(),
            why,
        }
    }

    fn tree(&self, from: &Path, to: &Path) -> Result<(), Unseen> {
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

    fn file(&self, from: &Path, to: &Path) -> Result<(), Unseen> {
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
