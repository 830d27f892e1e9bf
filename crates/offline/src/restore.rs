//! `snapshot restore`: a snapshot file becomes the folder of a new cluster of one node.
//!
//! The folder is marked as refused before anything is in it, and the mark goes last: what an
//! interrupted restore leaves is never started, and is replaced when the restore is repeated.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, Kind, OsDisk};
use seqd_state::StateLoader;

use super::takeover::{Source, Successor, Takeover, Wishes, from_io, from_stop, take_over};
use super::{FolderLock, OfflineError};
use seqd_store::checkpoint::TakeRows;
use seqd_store::folder::{self, Folder};
use seqd_store::records::Member;
use seqd_store::records::restore_position;
use seqd_store::snapshot_file::SnapshotReader;

/// The word in the mark of a folder that a restore has not finished.
const UNFINISHED: &str = "restore-unfinished";

/// What is restored, and where to.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub file: PathBuf,
    /// A folder that is empty or not there yet.
    pub data_dir: PathBuf,
    /// The only member of the new cluster.
    pub member: Member,
    pub wishes: Wishes,
}

/// A restore that can be carried out.
pub struct Restore {
    takeover: Takeover,
    successor: Successor,
    data_dir: PathBuf,
}

impl Restore {
    /// Reads the whole snapshot and checks it; writes nothing.
    ///
    /// # Errors
    /// Whatever is wrong with the file, the folder or the wishes.
    pub fn plan(options: RestoreOptions) -> Result<Self, OfflineError> {
        let RestoreOptions {
            file,
            data_dir,
            member,
            wishes,
        } = options;
        check_empty(&data_dir)?;
        let source = read(&OsDisk, &file).map_err(from_io(&file))?;
        let (successor, takeover) = take_over(source, member, &wishes)?;
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
    /// What the disk says. The folder is not usable then, and a repeated restore replaces it.
    pub fn carry_out(self) -> Result<(), OfflineError> {
        let root = &self.data_dir;
        let lock = FolderLock::to_fill(root)?;
        // Now that nobody else can use it: since the plan a node may have, or another restore.
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

/// Reads a snapshot in full.
///
/// # Errors
/// What the disk says; [`io::ErrorKind::InvalidData`] if it is not what was written.
pub(super) fn read(disk: &dyn Disk, file: &Path) -> io::Result<Source> {
    let malformed = |what: &str| {
        let text = format!("{}: {what}", file.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let reader = SnapshotReader::open(disk, file)?;
    let header = reader.header().clone();
    let mut loader = StateLoader::default();
    reader
        .rows()
        .visit(&mut |key, value| TakeRows::row(&mut loader, key, value))?;
    let (position, membership) = restore_position(&header.log_id, &header.membership)?;
    let position = position.ok_or_else(|| malformed("it names no entry"))?;
    let state = loader.finish();
    if state.settings().map(|settings| &settings.cluster_id) != Some(&header.cluster_id) {
        return Err(malformed("its rows are not those of its cluster"));
    }
    Ok(Source {
        path: file.to_owned(),
        state,
        position,
        membership,
        unproven_entries: 0,
        ancestors: Vec::new(),
        notes: Vec::new(),
    })
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
    if is_unfinished(root)? {
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
