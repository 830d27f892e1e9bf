//! A disk in memory. It remembers what was synced and what was only written, so that a power cut
//! can be simulated at any moment: of the writes since the last sync any subset of the sectors
//! survives, of the changes to a folder any prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use seqd_disk::{Disk, DiskFile, Kind};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(crate) struct MemDisk {
    shared: Arc<(Mutex<Mem>, Condvar)>,
}

#[derive(Clone, Default)]
struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that differ, perhaps, from the durable ones.
    dirty: BTreeSet<usize>,
}

impl Inode {
    /// Writes back what is dirty: no more, as a kernel does.
    fn sync(&mut self) {
        let Self {
            current,
            durable,
            dirty,
        } = self;
        durable.resize(current.len(), 0);
        for sector in std::mem::take(dirty) {
            let at = sector * SECTOR..((sector + 1) * SECTOR).min(current.len());
            durable[at.clone()].copy_from_slice(&current[at]);
        }
    }
}

#[derive(Clone)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Default)]
struct Mem {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    syncs_held: bool,
    syncs_waiting: usize,
    let_through: usize,
    fail_sync: Option<io::ErrorKind>,
    fail_write: Option<io::ErrorKind>,
    full: bool,
    data_syncs: u64,
    dir_syncs: Vec<PathBuf>,
}

fn change(names: &mut BTreeMap<PathBuf, usize>, change: &Change) {
    match change {
        Change::Create(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Change::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Change::Remove(path) => {
            names.remove(path);
        }
    }
}

impl MemDisk {
    fn lock(&self) -> MutexGuard<'_, Mem> {
        self.shared.0.lock().unwrap()
    }

    /// From here on `sync_data` waits until [`Self::release_syncs`].
    pub(crate) fn hold_syncs(&self) {
        self.lock().syncs_held = true;
    }

    pub(crate) fn release_syncs(&self) {
        self.lock().syncs_held = false;
        self.shared.1.notify_all();
    }

    /// Lets the one held sync end; later ones are held again.
    pub(crate) fn release_one_sync(&self) {
        self.lock().let_through = 1;
        self.shared.1.notify_all();
        let mem = self.lock();
        drop(
            self.shared
                .1
                .wait_while(mem, |mem| mem.let_through > 0)
                .unwrap(),
        );
    }

    /// Waits until a `sync_data` is held.
    pub(crate) fn wait_for_held_sync(&self) {
        let mem = self.lock();
        drop(
            self.shared
                .1
                .wait_while(mem, |mem| mem.syncs_waiting == 0)
                .unwrap(),
        );
    }

    /// The next `sync_data` fails, once; the one after it succeeds and makes nothing durable of
    /// what the failed one should have.
    pub(crate) fn fail_next_sync(&self, kind: io::ErrorKind) {
        self.lock().fail_sync = Some(kind);
    }

    pub(crate) fn fail_next_write(&self, kind: io::ErrorKind) {
        self.lock().fail_write = Some(kind);
    }

    /// Whether new files find no room.
    pub(crate) fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    pub(crate) fn data_syncs(&self) -> u64 {
        self.lock().data_syncs
    }

    pub(crate) fn dir_syncs(&self) -> Vec<PathBuf> {
        self.lock().dir_syncs.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
        self.lock().names.keys().map(name).collect()
    }

    pub(crate) fn contents(&self, name: &str) -> Vec<u8> {
        let mem = self.lock();
        mem.inodes[mem.names[&super::dir().join(name)]]
            .current
            .clone()
    }

    /// The same disk in an independent copy, everything on it durable, as it is in this moment.
    pub(crate) fn image(&self) -> Self {
        self.cut(|| true)
    }

    /// What a killed process leaves on a machine that lives on: all that was written can be read,
    /// and what was not synced is still lost by a later power cut.
    pub(crate) fn image_with_unsynced(&self) -> Self {
        let mem = self.lock();
        let left = Mem {
            inodes: mem.inodes.clone(),
            names: mem.names.clone(),
            durable_names: mem.durable_names.clone(),
            changes: mem.changes.clone(),
            ..Mem::default()
        };
        Self {
            shared: Arc::new((Mutex::new(left), Condvar::new())),
        }
    }

    /// What a power cut in this moment leaves; `survives` is asked for each unsynced sector and
    /// each unsynced change of a folder.
    pub(crate) fn cut(&self, mut survives: impl FnMut() -> bool) -> Self {
        let mut mem = self.lock().clone();
        for inode in &mut mem.inodes {
            let Inode {
                current,
                durable,
                dirty,
            } = inode;
            durable.resize(current.len(), 0);
            for sector in std::mem::take(dirty) {
                let at = sector * SECTOR..((sector + 1) * SECTOR).min(current.len());
                if survives() {
                    durable[at.clone()].copy_from_slice(&current[at]);
                }
            }
            current.clone_from(durable);
        }
        for made in std::mem::take(&mut mem.changes) {
            if !survives() {
                break;
            }
            change(&mut mem.durable_names, &made);
        }
        let left = Mem {
            names: mem.durable_names.clone(),
            durable_names: mem.durable_names,
            inodes: mem.inodes,
            ..Mem::default()
        };
        Self {
            shared: Arc::new((Mutex::new(left), Condvar::new())),
        }
    }

    /// Changes a file behind the log's back, durably.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut mem = self.lock();
        let inode = mem.names[&super::dir().join(name)];
        let inode = &mut mem.inodes[inode];
        edit(&mut inode.current);
        inode.durable.clone_from(&inode.current);
        inode.dirty.clear();
    }

    pub(crate) fn delete(&self, name: &str) {
        let path = super::dir().join(name);
        let mut mem = self.lock();
        mem.names.remove(&path).unwrap();
        mem.durable_names.remove(&path);
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = super::dir().join(name);
        let mut mem = self.lock();
        let inode = mem.inodes.len();
        mem.inodes.push(Inode {
            current: bytes.to_vec(),
            durable: bytes.to_vec(),
            ..Inode::default()
        });
        mem.names.insert(path.clone(), inode);
        mem.durable_names.insert(path, inode);
    }

    fn make(&self, made: Change) {
        let mut mem = self.lock();
        change(&mut mem.names, &made);
        mem.changes.push(made);
    }
}

struct MemFile {
    disk: MemDisk,
    inode: usize,
}

impl DiskFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mem = self.disk.lock();
        let at = offset as usize;
        let bytes = mem.inodes[self.inode].current.get(at..at + buf.len());
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut mem = self.disk.lock();
        if let Some(kind) = mem.fail_write.take() {
            return Err(kind.into());
        }
        let (at, end) = (offset as usize, offset as usize + buf.len());
        let inode = &mut mem.inodes[self.inode];
        if inode.current.len() < end {
            inode.current.resize(end, 0);
        }
        inode.current[at..end].copy_from_slice(buf);
        inode.dirty.extend(at / SECTOR..end.div_ceil(SECTOR));
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let mut mem = self.disk.lock();
        if mem.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        mem.inodes[self.inode].current.resize(len as usize, 0);
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut mem = self.disk.lock();
        mem.data_syncs += 1;
        mem.syncs_waiting += 1;
        self.disk.shared.1.notify_all();
        let held = |mem: &mut Mem| mem.syncs_held && mem.let_through == 0;
        // Not for ever: a test that fails must still be able to close its log.
        let woken = self
            .disk
            .shared
            .1
            .wait_timeout_while(mem, super::DEADLINE, held);
        mem = woken.unwrap().0;
        mem.let_through = mem.let_through.saturating_sub(1);
        mem.syncs_waiting -= 1;
        self.disk.shared.1.notify_all();
        if let Some(kind) = mem.fail_sync.take() {
            // As on Linux: the pages count as clean, and the disk does not have them.
            mem.inodes[self.inode].dirty.clear();
            return Err(kind.into());
        }
        mem.inodes[self.inode].sync();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut mem = self.disk.lock();
        mem.inodes[self.inode].sync();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().inodes[self.inode].current.len() as u64)
    }
}

impl Disk for MemDisk {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        assert_eq!(path, super::dir());
        Ok(self.names())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.lock().names.get(path).copied();
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(self.lock().names.get(path).map(|_| Kind::File))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn remove_dir_all(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut mem = self.lock();
        if mem.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = mem.inodes.len();
        mem.inodes.push(Inode::default());
        drop(mem);
        self.make(Change::Create(path.to_path_buf(), inode));
        Ok(Arc::new(MemFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.make(Change::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.lock().names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.make(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut mem = self.lock();
        mem.dir_syncs.push(path.to_path_buf());
        if path == super::dir() {
            mem.durable_names = mem.names.clone();
            mem.changes.clear();
        }
        Ok(())
    }
}
