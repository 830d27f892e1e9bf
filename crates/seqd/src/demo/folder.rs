//! The folder of the demo: a temporary one that goes with it, or one that the user keeps.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;

/// Where the nodes' folders are.
#[derive(Debug)]
pub(crate) enum Folder {
    /// Removed when it is closed or dropped.
    Temporary(TempDir),
    /// Left as it is.
    Kept(PathBuf),
}

impl Folder {
    /// Makes the folder that was asked for, or a temporary one.
    pub(crate) fn open(kept: Option<PathBuf>) -> Result<Self, Failure> {
        match kept {
            None => tempfile::Builder::new()
                .prefix("seqd-demo.")
                .tempdir()
                .map(Self::Temporary)
                .map_err(|error| Failure::failed(format!("cannot make a folder: {error}"))),
            Some(path) => {
                let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
                made.map(Self::Kept).map_err(|error| {
                    Failure::failed(format!("cannot make {}: {error}", path.display()))
                })
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }

    /// Whether it stays when the demo ends.
    pub(crate) const fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// Removes it, unless it is kept.
    pub(crate) fn close(self) -> Result<(), Failure> {
        match self {
            Self::Kept(_) => Ok(()),
            Self::Temporary(folder) => {
                let path = folder.path().to_owned();
                folder.close().map_err(|error| {
                    Failure::failed(format!("cannot remove {}: {error}", path.display()))
                })
            }
        }
    }
}
