//! A checkpoint folder on sled: the only file that names sled.
//!
//! sled 0.34.7's `flush` ends in `sync_file_range`, which is no barrier: a power cut after it loses
//! acknowledged batches. So each batch is flushed *and then* fdatasynced through a handle of our
//! own on sled's file before the next one may begin. One batch in flight also keeps clear of the
//! deadlock that sled 0.34.7 has when many unflushed batches wait.
//!
//! sled panics where others return errors. Every call into it is caught here and becomes an error.

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

/// First byte of the keys of the state's rows.
const STATE: u8 = b's';

/// First byte of the keys of what follows [`PART_BYTES`] of a row's value.
const PART: u8 = b'v';

/// A row's value is stored in parts of so many bytes. sled splits a page by the number of its items alone,
/// and reads and writes it as a whole: sixteen results of 16 KiB in one page made each change of one of
/// them a read and a write of 256 KiB, in a file of its own.
///
/// A value of fewer bytes has no further parts.
const PART_BYTES: usize = 2048;
const FORMAT_KEY: &[u8] = b"m/format";
const APPLIED_KEY: &[u8] = b"m/applied";

/// sled's page cache. Its real memory is a multiple of this; the state is in memory anyway, so the
/// cache only serves writes and one scan at a start.
const CACHE_BYTES: u64 = 8 << 20;

/// Rows and bytes of one batch while a folder is filled: enough that the fdatasync between two
/// batches does not dominate, few enough that sled buffers little.
const FILL_BATCH_ROWS: usize = 4096;
const FILL_BATCH_BYTES: usize = 1 << 20;

/// One collection frees up to 8 bags of 64 nodes; a row replaces one node, now and then a few.
const ROWS_PER_COLLECTION: usize = 64;

/// What is left behind in one epoch is freed in the next but one, and each collection tries one
/// step.
const EPOCHS: usize = 3;

/// Pause between two attempts at a folder whose lock is held: sled lets go of its files shortly
/// after its handle was dropped, not with it.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Stores on sled. What sled does by itself goes past the disk that these are given: only what we
/// add, the syncs and the witness, goes through it.
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
        Ok(Box::new(SledStore::create(disk, folder, format)?))
    }

    fn open(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<(Box<dyn StateStore>, Format)> {
        let (store, format) = SledStore::open(disk, folder, deadline)?;
        Ok((Box::new(store), format))
    }
}

struct SledStore {
    /// Taken out when the store is dropped.
    db: Option<sled::Db>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Our own handle on sled's file, opened before the first write so that no write error of the
    /// kernel goes unseen.
    file: Arc<dyn DiskFile>,
    witness: Witness,
    /// The blobs that were synced. sled writes each blob once.
    blobs: HashSet<String>,
    applied: Option<Checkpoint>,
    failed: bool,
}

impl SledStore {
    /// Makes an empty folder for `format`, durable but for its own name in the parent.
    fn create(disk: &Arc<dyn Disk>, folder: &Path, format: &Format) -> io::Result<SledStore> {
        let format = seal(format)?;
        let mut store = SledStore::open_folder(disk, folder, Instant::now())?;
        let mut batch = sled::Batch::default();
        batch.insert(FORMAT_KEY, format);
        store.commit(batch, 1)?;
        sync_tree(&**disk, folder)?;
        Ok(store)
    }

    /// Opens a folder and reads its records, but not the state's rows.
    ///
    /// Waits for sled's lock on it until `deadline`.
    fn open(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<(SledStore, Format)> {
        let mut store = SledStore::open_folder(disk, folder, deadline)?;
        let records = guarded("reading its records", || {
            let format = store.db()?.get(FORMAT_KEY).map_err(io_error)?;
            Ok((format, store.db()?.get(APPLIED_KEY).map_err(io_error)?))
        });
        let read = records.and_then(|(format, applied)| {
            let format = format.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "the format record is missing")
            })?;
            let applied = applied
                .map(|bytes| unseal::<Checkpoint>(&bytes))
                .transpose()?;
            let index = applied.as_ref().map(|applied| applied.index);
            store.witness.check(index)?;
            // What is found may be in the page cache alone, also the names of sled's own snapshots.
            store.file.sync_data()?;
            disk.sync_dir(folder)?;
            Ok((unseal::<Format>(&format)?, applied))
        });
        let (format, applied) = read?;
        store.applied = applied;
        Ok((store, format))
    }

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

    /// One batch, down to the disk. After a failure nothing more is written.
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

    /// Syncs the blobs that are new: pages that sled finds too large for its log. A cluster with large
    /// results has hundreds, and each sync is a flush of the disk, which the log's own syncs wait for.
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

    /// Removes the further parts of a row, if it is there and has some; returns how many.
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
    /// Dropping sled's handle flushes, which can panic as anything in sled.
    fn drop(&mut self) {
        let db = self.db.take();
        let dropped = guarded("closing", || {
            drop(db);
            Ok(())
        });
        // Nothing depends on it: what was written is synced, or the folder is of no use.
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
        // A metric: a file that sled removes meanwhile counts as nothing.
        folder_bytes(&self.folder)
    }
}

/// Removes tables of pages that sled had not finished when it was cut off: it would take one for its
/// newest, find it damaged, and give up the whole store.
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

/// Frees what a batch of this many rows left behind.
///
/// Each row that sled writes replaces a whole node, and the old one is left to the collector of
/// `crossbeam-epoch`, which frees a bounded number with every so many entries into an epoch. A batch
/// is one entry, however many rows it has: without this the old nodes of two million new rows
/// stayed for good, almost 7 GiB of them.
fn collect_garbage(rows: usize) {
    for _ in 0..rows.div_ceil(ROWS_PER_COLLECTION) + EPOCHS {
        crossbeam_epoch::pin().flush();
    }
}

fn show(db: &sled::Db, visit: &mut VisitRow<'_>) -> io::Result<()> {
    for row in db.scan_prefix([STATE]) {
        let (key, value) = row.map_err(io_error)?;
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

/// Inserts a row; returns how many items that takes.
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

/// What the keys of a row's further parts begin with. Its length is in it, so that none begins another.
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

/// Runs `call`; a panic inside becomes an error that names `what`.
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

/// sled keeps the first error of a failed write and hands copies of it out, with its `Debug` text
/// as their message.
fn in_plain_words(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.strip_prefix("Os { code: ");
    let code = code.and_then(|rest| rest.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}

/// sled has no kind for a held lock, only this text.
fn is_locked(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// Syncs each file below `folder`, and each folder after its files.
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

/// Bytes that the files below a folder take on the disk.
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
