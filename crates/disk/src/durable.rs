//! Reads a small file, replaces one atomically, and creates a folder durably.

use std::io;
use std::path::{Path, PathBuf};

use crate::Disk;

/// Reads a whole file. Returns `None` if it does not exist, and [`io::ErrorKind::InvalidData`] if
/// it has more than `limit` bytes.
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

/// Replaces or creates a file atomically: after a power cut either the old or the new file exists
/// completely. After the return, the new one is durable.
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

/// Creates a folder and its parents, and syncs its direct parent.
pub fn create_dir_durable(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.kind(path)?.is_some() {
        // An earlier start may have lost power before it synced the name.
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
        // The remains of an interrupted replacement are harmless.
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
