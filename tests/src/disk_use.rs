//! The disk space of a node's data folder, in total and by part.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes on the disk, by part of a data folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub wal: u64,
    /// The checkpoints (`state-*`), which sled writes.
    pub state: u64,
    pub snap: u64,
    /// All files of the folder.
    pub all: u64,
}

impl DiskUse {
    /// Returns the present use of a node's data folder.
    pub fn of(data: &Path) -> Self {
        let mut used = Self {
            all: bytes_below(data),
            ..Self::default()
        };
        for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let part = match &*name {
                "wal" => &mut used.wal,
                "snap" => &mut used.snap,
                _ if name.starts_with("state-") => &mut used.state,
                _ => continue,
            };
            *part += bytes_below(&entry.path());
        }
        used
    }

    /// The larger of each part.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            wal: self.wal.max(other.wal),
            state: self.state.max(other.state),
            snap: self.snap.max(other.snap),
            all: self.all.max(other.all),
        }
    }
}

/// The disk space of the files of a folder, in bytes. A file that is removed in the meantime counts
/// as 0.
pub fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_by_the_names_of_their_folders() {
        let data = tempfile::tempdir().unwrap();
        for (part, kib) in [("wal", 64), ("state-1", 128), ("state-2", 32), ("snap", 16)] {
            let folder = data.path().join(part);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("file"), vec![1; kib << 10]).unwrap();
        }
        std::fs::write(data.path().join("identity"), [1]).unwrap();
        // Without a sync, a file system may not have allocated the blocks of the files.
        rustix::fs::sync();
        let used = DiskUse::of(data.path());
        let least = [(used.wal, 64), (used.state, 160), (used.snap, 16)];
        assert!(
            least.iter().all(|(bytes, kib)| *bytes >= kib << 10),
            "{used:?}"
        );
        assert!(used.all > used.wal + used.state + used.snap, "{used:?}");
        let none = DiskUse::default();
        assert_eq!(
            (none.max(used), DiskUse::of(&data.path().join("none"))),
            (used, none)
        );
    }
}
