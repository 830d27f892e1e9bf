//! `snapshot restore`: a snapshot file becomes the folder of a new cluster of one node.
//!
//! The folder is marked as refused before anything is in it, and the mark goes last: what an
//! interrupted restore leaves is never started, and is replaced when the restore is repeated.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, Kind, OsDisk};
use seqd_guards::is_out;

use super::error::{OfflineError, from_io, from_stop};
use super::lock::FolderLock;
use super::replay::Replayed;
use super::takeover::{Source, Successor, Takeover, TakeoverOptions, take_over};
use seqd_store::folder::{self, Folder};
use seqd_store::records::Member;

/// The word in the mark of a folder that a restore has not finished.
const UNFINISHED: &str = "restore-unfinished";

#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub file: PathBuf,
    /// A folder that is empty or not there yet.
    pub data_dir: PathBuf,
    /// The only member of the new cluster.
    pub member: Member,
    pub takeover: TakeoverOptions,
}

pub struct Restore {
    takeover: Takeover,
    successor: Successor,
    data_dir: PathBuf,
}

impl Restore {
    /// Reads the whole snapshot and checks it; writes nothing.
    pub fn plan(options: RestoreOptions) -> Result<Self, OfflineError> {
        let RestoreOptions {
            file,
            data_dir,
            member,
            takeover,
        } = options;
        check_empty(&data_dir)?;
        let replayed = Replayed::of_snapshot(&OsDisk, &file).map_err(from_io(&file))?;
        let (successor, takeover) = take_over(Source::new(&file, replayed)?, member, &takeover)?;
        Ok(Self {
            takeover,
            successor,
            data_dir,
        })
    }

    #[must_use]
    pub fn takeover(&self) -> &Takeover {
        &self.takeover
    }

    /// Writes the folder; it is whole and on the disk when this returns.
    ///
    /// # Errors
    /// The disk's error. The folder is not usable then, and a repeated restore replaces it.
    pub fn carry_out(self) -> Result<(), OfflineError> {
        let root = &self.data_dir;
        let lock = FolderLock::to_fill(root)?;
        // Under the lock: since the plan a node may have used it, or another restore.
        check_empty(root)?;
        let folder = Folder::of_tool(Arc::new(OsDisk), root, UNFINISHED).map_err(from_stop)?;
        let mark = "a restore into this folder was interrupted: repeat it, or empty the folder";
        folder
            .mark_refused(UNFINISHED, mark)
            .map_err(from_io(root))?;
        clear(root).map_err(from_io(root))?;
        self.successor.write(&folder).map_err(from_io(root))?;
        folder.unmark_refused().map_err(from_io(root))?;
        drop(lock);
        Ok(())
    }
}

/// Refuses a folder in which anything is, unless an unfinished restore left it.
fn check_empty(root: &Path) -> Result<(), OfflineError> {
    match OsDisk.kind(root).map_err(from_io(root))? {
        None => return Ok(()),
        Some(Kind::File) => {
            let text = format!("{} is a file", root.display());
            return Err(OfflineError::new("invalid-argument", text));
        }
        Some(Kind::Folder) => {}
    }
    if is_unfinished(root)? || is_out!(RestoredIntoEmpty) {
        return Ok(());
    }
    let names = OsDisk.list(root).map_err(from_io(root))?;
    let kept = ["LOCK", "lost+found", "format"];
    match names.iter().find(|name| !kept.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(OfflineError::new(
            "already-exists",
            format!("{} is not empty: it holds {name}", root.display()),
        )
        .with_hint("give the new node a folder that is empty or not there yet")),
    }
}

fn is_unfinished(root: &Path) -> Result<bool, OfflineError> {
    let code = folder::refused_code(&OsDisk, root).map_err(from_stop)?;
    Ok(code.as_deref() == Some(UNFINISHED))
}

/// Removes what an unfinished restore left in a folder that is marked.
fn clear(root: &Path) -> io::Result<()> {
    for name in OsDisk.list(root)? {
        if matches!(name.as_str(), "LOCK" | "lost+found" | "format" | "refused") {
            continue;
        }
        let path = root.join(name);
        match OsDisk.kind(&path)? {
            Some(Kind::Folder) => OsDisk.remove_dir_all(&path)?,
            _ => OsDisk.remove(&path)?,
        }
    }
    OsDisk.sync_dir(root)
}
