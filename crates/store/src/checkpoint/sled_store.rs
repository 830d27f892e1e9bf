//! A checkpoint folder on sled. Only this file depends on sled.
//!
//! `flush` in sled 0.34.7 ends with `sync_file_range`, which is not a barrier: a power cut after it
//! loses acknowledged batches. Each batch is therefore flushed *and then* synced with fdatasync
//! through a separate handle on sled's file before the next batch may begin. One batch in flight
//! also avoids the deadlock of sled 0.34.7 with many unflushed batches.
//!
//! sled panics where other libraries return errors. Every call into sled is guarded here, and a
//! panic becomes an error.

use std::any::Any;
use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use seqd_disk::{Disk, DiskFile, Kind};
use seqd_guards::is_out;

use super::record::{Format, seal, unseal};
use super::witness::Witness;
use super::{
    Between, Change, Checkpoint, RowSource, StateStore, Stores, Tally, VisitRow, check_row,
    check_write,
};

/// The first byte of the keys of the state's rows.
const STATE: u8 = b's';

/// The first byte of the keys of the further parts of a row's value, after the first
/// [`PART_BYTES`].
const PART: u8 = b'v';

/// The value of a row is stored in parts of this size. sled splits a page only by the number of its
/// items, and reads and writes each page as a whole. With sixteen results of 16 KiB in one page, a
/// change of one result would read 256 KiB and write them to a separate file.
///
/// A smaller value has no further parts.
const PART_BYTES: usize = 2048;
const FORMAT_KEY: &[u8] = b"m/format";
const APPLIED_KEY: &[u8] = b"m/applied";

/// The size of sled's page cache. Its actual memory use is a multiple of this. The state is in
/// memory anyway, so the cache serves only writes and one scan at a start.
const CACHE_BYTES: u64 = 2 << 20;

/// The rows and bytes of one batch while a folder is filled: enough that the fdatasync between two
/// batches does not dominate, and few enough that sled buffers little.
const FILL_BATCH_ROWS: usize = 4096;
const FILL_BATCH_BYTES: usize = 1 << 20;

/// One collection frees up to 8 bags of 64 nodes. A row replaces one node, rarely a few.
const ROWS_PER_COLLECTION: usize = 64;

/// Garbage of one epoch is freed two epochs later, and each collection attempts one step.
const EPOCHS: usize = 3;

/// The pause between two attempts to open a folder whose lock is held. sled closes its files
/// shortly after its handle was dropped.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Stores on sled. sled itself does not use the given disk. Only the additional syncs and the
/// witness go through it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SledStores;

impl Stores for SledStores {
    fn may_hang(&self) -> bool {
        true
    }

    fn create(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        format: &Format,
    ) -> io::Result<Box<dyn StateStore>> {
        let format = seal(format)?;
        let mut store = SledStore::open_folder(disk, folder, Instant::now())?;
        let mut batch = sled::Batch::default();
        batch.insert(FORMAT_KEY, format);
        store.commit(batch, 1)?;
        sync_tree(&**disk, folder)?;
        Ok(Box::new(store))
    }

    fn open(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<(Box<dyn StateStore>, Format)> {
        let mut store = SledStore::open_folder(disk, folder, deadline)?;
        let records = guarded("reading its records", || {
            let format = store.db()?.get(FORMAT_KEY).map_err(io_error)?;
            Ok((format, store.db()?.get(APPLIED_KEY).map_err(io_error)?))
        });
        let (format, applied) = records?;
        let format = format.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the format record is missing")
        })?;
        let applied = applied
            .map(|bytes| unseal::<Checkpoint>(&bytes))
            .transpose()?;
        let index = applied.as_ref().map(|applied| applied.index);
        store.witness.check(index)?;
        // The content may be only in the page cache, including the names of sled's own snapshots.
        store.file.sync_data()?;
        disk.sync_dir(folder)?;
        let format = unseal::<Format>(&format)?;
        store.applied = applied;
        Ok((Box::new(store), format))
    }
}

struct SledStore {
    /// Taken when the store is dropped.
    db: Option<sled::Db>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// A separate handle on sled's file, opened before the first write so that no write error of
    /// the kernel is missed.
    file: Arc<dyn DiskFile>,
    witness: Witness,
    /// The blobs that have been synced. sled writes each blob once.
    blobs: HashSet<String>,
    applied: Option<Checkpoint>,
    failed: bool,
}

impl SledStore {
    /// Opens or creates a folder. Waits for sled's lock on it until `deadline`.
    fn open_folder(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<SledStore> {
        let config = sled::Config::new()
            .path(folder)
            .mode(sled::Mode::HighThroughput)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None);
        let db = loop {
            drop_unfinished_tables(&**disk, folder)?;
            match guarded("opening", || config.open().map_err(io_error)) {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    thread::sleep(LOCK_RETRY);
                }
                other => break other?,
            }
        };
        let file = disk.open(&folder.join("db"))?;
        let witness = Witness::open(&**disk, folder)?;
        Ok(SledStore {
            db: Some(db),
            disk: Arc::clone(disk),
            folder: folder.to_owned(),
            file,
            witness,
            blobs: HashSet::new(),
            applied: None,
            failed: false,
        })
    }

    /// Writes one batch and syncs it to the disk. After a failure nothing more is written.
    fn commit(&mut self, batch: sled::Batch, rows: usize) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier checkpoint failed"));
        }
        let written = guarded("writing", || {
            self.db()?.apply_batch(batch).map_err(io_error)?;
            self.db()?.flush().map_err(io_error)?;
            Ok(())
        });
        let synced = written.and_then(|()| {
            self.sync_blobs()?;
            if is_out!(CheckpointSynced) {
                return Ok(());
            }
            self.file.sync_data()
        });
        self.failed = synced.is_err();
        collect_garbage(rows);
        synced
    }

    /// Syncs the new blobs, which are pages that are too large for sled's log. A cluster with large
    /// results has hundreds of them, and each sync flushes the disk, which delays the syncs of the
    /// log.
    fn sync_blobs(&mut self) -> io::Result<()> {
        let folder = self.folder.join("blobs");
        let names = HashSet::from_iter(self.disk.list(&folder)?);
        let mut has_new = false;
        for name in names.difference(&self.blobs) {
            match self.disk.open_read(&folder.join(name)) {
                Ok(file) => file.sync_data()?,
                // sled removes a blob as soon as its page was written again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            has_new = true;
        }
        if has_new {
            self.disk.sync_dir(&folder)?;
        }
        self.blobs = names;
        Ok(())
    }

    /// Removes the further parts of a row, if it exists and has any. Returns their number.
    fn remove_parts(&self, key: &[u8], batch: &mut sled::Batch) -> io::Result<usize> {
        let db = self.db()?;
        let first = db.get(state_key(key)).map_err(io_error)?;
        if first.is_none_or(|first| first.len() != PART_BYTES) {
            return Ok(0);
        }
        let mut removed = 0;
        for part in db.scan_prefix(parts_key(key)).keys() {
            batch.remove(part.map_err(io_error)?);
            removed += 1;
        }
        Ok(removed)
    }

    fn db(&self) -> io::Result<&sled::Db> {
        self.db
            .as_ref()
            .ok_or_else(|| io::Error::other("the checkpoint store is closed"))
    }
}

impl Drop for SledStore {
    /// Dropping sled's handle flushes, which can panic like any call into sled.
    fn drop(&mut self) {
        let db = self.db.take();
        let dropped = guarded("closing", || {
            drop(db);
            Ok(())
        });
        // The result does not matter: everything written is synced, or the folder is unusable.
        let _ = dropped;
    }
}

impl StateStore for SledStore {
    fn applied(&self) -> Option<Checkpoint> {
        self.applied.clone()
    }

    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()> {
        check_write(self.applied.as_ref(), &changes, applied)?;
        let mut batch = sled::Batch::default();
        let mut items = 1;
        for (key, value) in changes {
            items += guarded("reading a row", || self.remove_parts(&key, &mut batch))?;
            match value {
                Some(value) => items += insert(&mut batch, &key, &value),
                None => {
                    batch.remove(state_key(&key));
                    items += 1;
                }
            }
        }
        batch.insert(APPLIED_KEY, seal(applied)?);
        self.commit(batch, items)?;
        self.applied = Some(applied.clone());
        self.witness.note(applied.index)
    }

    fn fill(
        &mut self,
        rows: &mut RowSource<'_>,
        applied: &Checkpoint,
        between: &mut Between<'_>,
    ) -> io::Result<()> {
        let mut batch = sled::Batch::default();
        let (mut batch_rows, mut batch_bytes) = (0, 0);
        for row in rows {
            between()?;
            let (key, value) = row?;
            check_row(&key, &value)?;
            batch_rows += insert(&mut batch, &key, &value);
            batch_bytes += key.len() + value.len();
            if batch_rows >= FILL_BATCH_ROWS || batch_bytes >= FILL_BATCH_BYTES {
                self.commit(std::mem::take(&mut batch), batch_rows)?;
                (batch_rows, batch_bytes) = (0, 0);
            }
        }
        batch.insert(APPLIED_KEY, seal(applied)?);
        self.commit(batch, batch_rows + 1)?;
        self.witness.note(applied.index)?;
        self.applied = Some(applied.clone());
        let mut tally = Tally::default();
        self.stream(&mut |key, value| {
            tally.add(key, value);
            between()
        })?;
        tally.expect(applied.digest)?;
        sync_tree(&*self.disk, &self.folder)
    }

    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        guarded("reading", || show(self.db()?, visit))
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.commit(sled::Batch::default(), 0)?;
        self.witness.sync()
    }

    fn disk_bytes(&self) -> u64 {
        // Only a metric: a file that sled removes in the meantime counts as zero.
        folder_bytes(&self.folder)
    }
}

/// Removes page tables that sled did not finish before a crash. It would use such a table as its
/// newest, find it damaged, and reject the whole store.
fn drop_unfinished_tables(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let names = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let unfinished = |name: &String| name.starts_with("snap.") && name.ends_with(".generating");
    for name in names.into_iter().filter(unfinished) {
        disk.remove(&folder.join(name))?;
    }
    Ok(())
}

/// Frees the garbage of a batch of this many rows.
///
/// Each row that sled writes replaces a whole node and leaves the old one to the collector of
/// `crossbeam-epoch`, which frees a bounded number of nodes each time a thread has entered an epoch
/// a certain number of times. A batch enters an epoch once, however many rows it has. Without this
/// call, the old nodes of two million new rows would stay permanently, almost 7 GiB.
fn collect_garbage(rows: usize) {
    for _ in 0..rows.div_ceil(ROWS_PER_COLLECTION) + EPOCHS {
        crossbeam_epoch::pin().flush();
    }
}

/// Visits all rows in the order of their keys.
///
/// sled counts the accesses to its pages in blocks of 64 for each of 256 parts of its cache, and
/// evicts pages only when a block is full. A scan accesses each page once, so up to 16,384 pages
/// would stay in memory, 60 MB more than the cache may have. Each row is therefore looked up once
/// more, which fills the blocks at no measurable cost.
fn show(db: &sled::Db, visit: &mut VisitRow<'_>) -> io::Result<()> {
    for row in db.scan_prefix([STATE]) {
        let (key, value) = row.map_err(io_error)?;
        if !is_out!(ScanEvicts) {
            db.contains_key(&key).map_err(io_error)?;
        }
        let key = key.get(1..).unwrap_or_default();
        if value.len() != PART_BYTES {
            visit(key, &value)?;
            continue;
        }
        let mut whole = value.to_vec();
        for part in db.scan_prefix(parts_key(key)) {
            whole.extend_from_slice(&part.map_err(io_error)?.1);
        }
        visit(key, &whole)?;
    }
    Ok(())
}

/// Inserts a row and returns the number of items that it takes.
fn insert(batch: &mut sled::Batch, key: &[u8], value: &[u8]) -> usize {
    let (first, rest) = value.split_at(value.len().min(PART_BYTES));
    batch.insert(state_key(key), first);
    let parts = rest.chunks(PART_BYTES);
    let items = 1 + parts.len();
    for (number, part) in (0_u32..).zip(parts) {
        let mut part_key = parts_key(key);
        part_key.extend(number.to_be_bytes());
        batch.insert(part_key, part);
    }
    items
}

/// Returns the key prefix of a row's further parts. It contains the length of the key, so that no
/// prefix is the beginning of another.
fn parts_key(key: &[u8]) -> Vec<u8> {
    let mut prefixed = vec![PART];
    prefixed.extend((key.len() as u32).to_be_bytes());
    prefixed.extend_from_slice(key);
    prefixed
}

fn state_key(key: &[u8]) -> Vec<u8> {
    let mut prefixed = Vec::with_capacity(1 + key.len());
    prefixed.push(STATE);
    prefixed.extend_from_slice(key);
    prefixed
}

/// Runs `call` and converts a panic into an error that contains `what`.
pub(crate) fn guarded<T>(
    what: &'static str,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Err(io::Error::other(format!(
            "panic while {what}: {}",
            panic_text(panic.as_ref())
        )))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

fn io_error(error: sled::Error) -> io::Error {
    match error {
        sled::Error::Io(error) => in_plain_words(error),
        sled::Error::Corruption { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        other => io::Error::other(other),
    }
}

/// Restores the original error: sled stores the first error of a failed write and returns copies of
/// it whose message is its `Debug` text.
fn in_plain_words(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.strip_prefix("Os { code: ");
    let code = code.and_then(|rest| rest.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}

/// sled has no error kind for a held lock, only this text.
fn is_locked(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// Syncs each file below `folder`, and each directory after its files.
fn sync_tree(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    for name in disk.list(folder)? {
        let path = folder.join(name);
        match disk.kind(&path)? {
            Some(Kind::Folder) => sync_tree(disk, &path)?,
            Some(Kind::File) => disk.open_read(&path)?.sync_all()?,
            None => {}
        }
    }
    disk.sync_dir(folder)
}

/// Returns the disk usage of the files below a folder, in bytes.
pub fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(known) if known.is_dir() => folder_bytes(&entry.path()),
        Ok(known) => known.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}
