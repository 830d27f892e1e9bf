//! The folder of the demo: a temporary folder that is removed with the demo, or a folder that the
//! user keeps.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Removed when it is closed or dropped.
    temporary: Option<TempDir>,
}

impl Folder {
    /// Creates the requested folder, or a temporary one.
    pub(crate) fn open(kept: Option<PathBuf>) -> Result<Self, Failure> {
        let (path, temporary) = match kept {
            None => {
                let folder = tempfile::Builder::new().prefix("seqd-demo.").tempdir();
                let folder = folder
                    .map_err(|error| Failure::failed(format!("cannot make a folder: {error}")))?;
                (folder.path().to_owned(), Some(folder))
            }
            Some(path) => {
                let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
                let made = made.map_err(|error| {
                    Failure::failed(format!("cannot make {}: {error}", path.display()))
                });
                (made?, None)
            }
        };
        Ok(Self { path, temporary })
    }

    pub(crate) const fn is_kept(&self) -> bool {
        self.temporary.is_none()
    }

    /// Removes the folder, unless the user keeps it.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Some(folder) = self.temporary else {
            return Ok(());
        };
        folder.close().map_err(|error| {
            Failure::failed(format!("cannot remove {}: {error}", self.path.display()))
        })
    }
}
