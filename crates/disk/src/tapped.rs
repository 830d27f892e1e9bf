//! A disk with some of its calls intercepted by a test. All other calls go to the underlying disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Disk, DiskFile, Kind, Space};

/// Intercepts calls. By default, each call goes to the underlying disk.
pub trait Tap: Send + Sync + 'static {
    /// A read from the file that was opened as `_path`. `below` performs it.
    fn read(&self, _path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        below()
    }
    fn list(&self, below: &dyn Disk, path: &Path) -> io::Result<Vec<String>> {
        below.list(path)
    }
    fn kind(&self, below: &dyn Disk, path: &Path) -> io::Result<Option<Kind>> {
        below.kind(path)
    }
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        below.write_at(buf, offset)
    }
    /// `sync_data` or `sync_all` of the file that was opened as `_path`. `below` performs it.
    fn sync(&self, _path: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        below()
    }
    fn sync_dir(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        below.sync_dir(path)
    }
    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        below.rename(from, to)
    }
    fn remove(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        below.remove(path)
    }
    fn remove_dir_all(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        below.remove_dir_all(path)
    }
    fn space(&self, below: &dyn Disk, path: &Path) -> io::Result<Space> {
        below.space(path)
    }
}

pub struct Tapped<T> {
    pub disk: Arc<dyn Disk>,
    pub tap: Arc<T>,
}

struct TappedFile<T> {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    tap: Arc<T>,
}

impl<T: Tap> Tapped<T> {
    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let (path, tap) = (path.to_owned(), Arc::clone(&self.tap));
        Arc::new(TappedFile { file, path, tap })
    }
}

impl<T: Tap> DiskFile for TappedFile<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut below = || self.file.read_at(buf, offset);
        self.tap.read(&self.path, &mut below)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.tap.write_at(&*self.file, buf, offset)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.tap.sync(&self.path, &|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.tap.sync(&self.path, &|| self.file.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl<T: Tap> Disk for Tapped<T> {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.tap.list(&*self.disk, path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.tap.kind(&*self.disk, path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(path, self.disk.open(path)?))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(path, self.disk.open_read(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(path, self.disk.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tap.rename(&*self.disk, from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.tap.remove(&*self.disk, path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.tap.remove_dir_all(&*self.disk, path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.tap.sync_dir(&*self.disk, path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.tap.space(&*self.disk, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    struct Through;

    impl Tap for Through {}

    struct Refusing;

    fn refused() -> io::Result<()> {
        Err(io::Error::other("refused"))
    }

    impl Tap for Refusing {
        fn read(&self, path: &Path, _: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
            assert_eq!(path, Path::new("/data/a"));
            refused()
        }
        fn list(&self, _: &dyn Disk, _: &Path) -> io::Result<Vec<String>> {
            refused().map(|()| Vec::new())
        }
        fn write_at(&self, _: &dyn DiskFile, _: &[u8], _: u64) -> io::Result<()> {
            refused()
        }
        fn sync(&self, path: &Path, _: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
            assert_eq!(path, Path::new("/data/a"));
            refused()
        }
        fn sync_dir(&self, _: &dyn Disk, _: &Path) -> io::Result<()> {
            refused()
        }
        fn rename(&self, _: &dyn Disk, _: &Path, _: &Path) -> io::Result<()> {
            refused()
        }
        fn remove(&self, _: &dyn Disk, _: &Path) -> io::Result<()> {
            refused()
        }
        fn remove_dir_all(&self, _: &dyn Disk, _: &Path) -> io::Result<()> {
            refused()
        }
    }

    /// Makes each call that reads or changes something. Returns which calls failed.
    fn use_all(disk: &dyn Disk) -> Vec<bool> {
        let [a, b, folder] = ["a", "b", "folder"].map(|name| Path::new("/data").join(name));
        disk.create_dir_all(&folder).unwrap();
        let file = disk.create(&a).unwrap();
        file.reserve(4).unwrap();
        file.set_len(3).unwrap();
        let opened = [disk.open(&a).unwrap(), disk.open_read(&a).unwrap()];
        assert!(opened.iter().all(|file| file.len().unwrap() == 3));
        let mut bytes = [0; 3];
        let calls = [
            file.write_at(b"abc", 0),
            opened[1].read_at(&mut bytes, 0),
            file.sync_data(),
            opened[0].sync_all(),
            opened[1].sync_data(),
            disk.rename(&a, &b),
            disk.sync_dir(Path::new("/data")),
            disk.list(Path::new("/data"))
                .map(|names| assert_eq!(names.len(), 2)),
        ];
        let left = if calls[5].is_ok() { b } else { a };
        assert!(disk.kind(&left).unwrap().is_some());
        assert_eq!(bytes == *b"abc", calls[0].is_ok() && calls[1].is_ok());
        let removals = [disk.remove_dir_all(&folder), disk.remove(&left)];
        for (path, removal) in [folder, left].iter().zip(&removals) {
            assert_eq!(disk.kind(path).unwrap().is_none(), removal.is_ok());
        }
        let all = calls.iter().chain(&removals);
        all.map(io::Result::is_err).collect()
    }

    fn tapped(tap: impl Tap) -> (Vec<bool>, SimulatedDisk) {
        let below = SimulatedDisk::holding("/data");
        let (disk, tap) = (Arc::new(below.clone()), Arc::new(tap));
        (use_all(&Tapped { disk, tap }), below)
    }

    #[test]
    fn untapped_operations_reach_the_disk_unchanged() {
        let alone = SimulatedDisk::holding("/data");
        use_all(&alone);
        let (refused, below) = tapped(Through);
        assert_eq!(refused, [false; 10]);
        assert_eq!(
            format!("{:?}", below.operations()),
            format!("{:?}", alone.operations())
        );
    }

    #[test]
    fn tapped_operations_reach_the_disk_only_if_the_tap_permits_them() {
        let (refused, below) = tapped(Refusing);
        assert_eq!(refused, [true; 10]);
        // A folder and a file are created, and the file is reserved and truncated.
        assert_eq!(below.operations().len(), 4, "{:?}", below.operations());
    }
}
