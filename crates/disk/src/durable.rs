//! What several owners of files need: to read a small one, to replace one so that a crash leaves
//! the old or the new, to make a folder that stays.

use std::io;
use std::path::{Path, PathBuf};

use crate::Disk;

/// The whole of a file; `None` if there is none.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it has more than `limit` bytes; whatever the disk says.
pub fn read_file(disk: &dyn Disk, path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    let mut bytes = match usize::try_from(len) {
        Ok(len) if len <= limit => vec![0; len],
        _ => {
            let why = format!("{} has {len} bytes; the most is {limit}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    };
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Replaces a file, or makes it, so that after a power cut the old or the new one is there, whole;
/// once this has returned, the new one.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = sibling(path, ".tmp");
    if disk.kind(&temporary)?.is_some() {
        disk.remove(&temporary)?;
    }
    let file = disk.create(&temporary)?;
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    disk.rename(&temporary, path)?;
    match path.parent() {
        Some(folder) => disk.sync_dir(folder),
        None => Ok(()),
    }
}

/// Makes a folder whose parent is there or can be made, and syncs the folder that holds it.
pub fn create_dir_durable(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.kind(path)?.is_some() {
        // A start before this one may have made it and lost power before it synced the name.
        return sync_parent(disk, path);
    }
    disk.create_dir_all(path)?;
    sync_parent(disk, path)
}

fn sync_parent(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => disk.sync_dir(parent),
        _ => Ok(()),
    }
}

/// The path with something behind its name.
#[must_use]
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsDisk;

    #[test]
    fn a_file_is_replaced_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        assert_eq!(read_file(&OsDisk, &path, 10).unwrap(), None);
        replace_file(&OsDisk, &path, b"old").unwrap();
        // What an interrupted replacement left is in nobody's way.
        std::fs::write(sibling(&path, ".tmp"), "left over").unwrap();
        replace_file(&OsDisk, &path, b"new").unwrap();
        assert_eq!(
            read_file(&OsDisk, &path, 3).unwrap().as_deref(),
            Some(&b"new"[..])
        );
        assert_eq!(
            read_file(&OsDisk, &path, 2).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(OsDisk.list(dir.path()).unwrap(), ["identity"]);
    }
}
