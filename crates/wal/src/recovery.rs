//! Opens a log: reads it ([`crate::scan`]), removes a torn tail, and makes the data durable before
//! it is reported.
//!
//! A torn tail is overwritten with zeros. Otherwise it could become valid again after a new batch
//! of equal length.
//!
//! The data found by an open may have been only in the page cache and never synced. The last intact
//! batch is therefore written again and synced before anything is reported, and the directories are
//! synced. Earlier batches were synced before the last one was written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seqd_guards::is_out;

use crate::error::{SYNC, WalError};
use crate::format::BatchBuffer;
use crate::index::{Holdings, LogIndex, Marks};
use crate::read::read_slot;
use crate::scan::{LoadedSegment, Scan, SegmentEnd, TornTail, split_at_gap};
use crate::segment::{Prepared, Seeds, SegmentNumber, TailSegment, write_zeroes};
use crate::writer::encode_opening;
use seqd_disk::{Disk, DiskFile};

/// The result of an open, which is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    pub vote: Option<Vec<u8>>,
    /// The last saved committed mark that reached the disk. It may be older than the last one
    /// saved.
    pub committed: Option<Vec<u8>>,
    /// The highest purged index and the bytes given with it.
    pub purged: Option<(u64, Vec<u8>)>,
    /// The index of the first entry, or of the next entry if there is none.
    pub first_index: u64,
    pub last: Option<(u64, Vec<u8>)>,
    /// The removed tail, if the last write was interrupted.
    pub torn: Option<TornTail>,
}

/// A log that was read and is ready to be written.
pub(crate) struct OpenedLog {
    pub(crate) segment: TailSegment,
    /// The older segments in ascending order, each with its length.
    pub(crate) older: Vec<(SegmentNumber, u64)>,
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) index: LogIndex,
    pub(crate) holdings: Holdings,
    pub(crate) files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    pub(crate) unwitnessed: bool,
    pub(crate) recovered: Recovered,
}

/// Opens the log in `dir`, or creates one if there is no segment.
pub(crate) fn open(
    disk: &dyn Disk,
    dir: &Path,
    segment_bytes: u64,
    seeds: &Seeds,
) -> Result<OpenedLog, WalError> {
    disk.create_dir_all(dir)
        .map_err(|e| WalError::io(dir, "create", e))?;
    let numbers = list_segments(disk, dir)?;
    let Some((last, older)) = numbers.split_last() else {
        return create(disk, dir, segment_bytes, seeds);
    };
    let (purged, older) = split_at_gap(older, *last);
    let mut scan = Scan::default();
    for number in older {
        scan.read(LoadedSegment::read(disk, dir, *number)?)?;
    }
    let mut end = scan.read(LoadedSegment::read(disk, dir, *last)?)?;
    scan.judge_tail(&mut end)?;
    scan.check_complete(dir, purged, *older.first().unwrap_or(last))?;
    // The writer removes them like any other purged segments.
    let leftovers = purged.iter().map(|number| (*number, 0));
    scan.older.splice(0..0, leftovers);

    let torn = repair(&mut end)?;
    sync_folders(disk, dir)?;
    finish(scan, end, torn)
}

/// Returns the segments in the folder in ascending order. Removes files that were never named.
fn list_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<SegmentNumber>, WalError> {
    let mut numbers = Vec::new();
    for name in disk.list(dir).map_err(|e| WalError::io(dir, "list", e))? {
        let path = dir.join(&name);
        if name.ends_with(".tmp") {
            disk.remove(&path)
                .map_err(|e| WalError::io(&path, "remove", e))?;
        } else if let Some(number) = SegmentNumber::from_file_name(&name) {
            numbers.push(number);
        } else if name.ends_with(".seg") {
            return Err(WalError::corrupt(
                &path,
                0,
                "the name is not that of a segment",
            ));
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn create(
    disk: &dyn Disk,
    dir: &Path,
    segment_bytes: u64,
    seeds: &Seeds,
) -> Result<OpenedLog, WalError> {
    let marks = Marks::default();
    let sequence = 1;
    let prepared = Prepared::create(disk, dir, SegmentNumber::FIRST, segment_bytes, seeds)
        .map_err(|failure| WalError::from_failure(&failure))?;
    let mut opening = BatchBuffer::default();
    encode_opening(&mut opening, &marks);
    let opening = opening.finish(prepared.seed, sequence);
    let segment = prepared
        .publish(disk, dir, opening)
        .map_err(|failure| WalError::from_failure(&failure))?;
    sync_folders(disk, dir)?;
    Ok(OpenedLog {
        files: BTreeMap::from([(segment.number, Arc::clone(&segment.file))]),
        segment,
        older: Vec::new(),
        sequence,
        marks,
        index: LogIndex::default(),
        holdings: Holdings::default(),
        unwitnessed: false,
        recovered: Recovered::default(),
    })
}

/// Syncs the folder of the log and its parent.
fn sync_folders(disk: &dyn Disk, dir: &Path) -> Result<(), WalError> {
    let parent = match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => dir,
    };
    for folder in [dir, parent] {
        disk.sync_dir(folder)
            .map_err(|e| WalError::io(folder, SYNC, e))?;
    }
    Ok(())
}

/// Turns the scanned log into a log that can be written.
fn finish(mut scan: Scan, end: SegmentEnd, torn: Option<TornTail>) -> Result<OpenedLog, WalError> {
    let last_index = scan.index.next().checked_sub(1);
    let last = match last_index.and_then(|index| Some((index, scan.index.get(index)?))) {
        None => None,
        Some((index, slot)) => {
            // The last entry may be in any segment, because batches without entries may follow it.
            let number = slot.segment.unwrap_or(end.loaded.number);
            let file = scan.files.get(&number).unwrap_or(&end.loaded.file);
            let bytes = read_slot(&**file, &slot).map_err(|e| {
                let path = end.loaded.path.with_file_name(number.file_name());
                WalError::io(&path, "read", e)
            })?;
            Some((index, bytes))
        }
    };
    let loaded = end.loaded;
    scan.older.pop();
    let recovered = Recovered {
        vote: scan.marks.vote.clone(),
        committed: scan.marks.committed.clone(),
        purged: scan.marks.purged.clone(),
        first_index: scan.marks.first,
        last,
        torn,
    };
    Ok(OpenedLog {
        segment: TailSegment {
            number: loaded.number,
            seed: loaded.seed,
            path: loaded.path,
            file: loaded.file,
            len: loaded.bytes.len() as u64,
            tail: end.at as u64,
        },
        older: scan.older,
        sequence: scan.sequence,
        marks: scan.marks,
        index: scan.index,
        holdings: scan.holdings,
        files: scan.files,
        unwitnessed: !end.witnessed,
        recovered,
    })
}

/// Overwrites everything after the last intact batch with zeros, then makes that batch durable
/// again.
///
/// The zeros are written even if zeros are read: after a failed sync the page cache may differ from
/// the disk.
fn repair(end: &mut SegmentEnd) -> Result<Option<TornTail>, WalError> {
    let torn = end.torn()?;
    let last_batch = end.last_batch()?.to_vec();
    let LoadedSegment {
        path,
        file,
        bytes,
        short,
        ..
    } = &end.loaded;
    let write = |e| WalError::io(path, "write", e);
    let sync = |e| WalError::io(path, SYNC, e);
    if let Some(torn) = &torn {
        tracing::warn!(
            path = %path.display(), offset = torn.offset, bytes = torn.bytes, short,
            "the last write was interrupted and never acknowledged; its remains are truncated"
        );
    }
    if !is_out!(TailZeroed) {
        write_zeroes(&**file, end.at as u64, bytes.len() as u64).map_err(write)?;
    }
    if is_out!(OpenSyncs) {
        return Ok(torn);
    }
    file.sync_all().map_err(sync)?;
    file.write_at(&last_batch, end.last_batch_at as u64)
        .map_err(write)?;
    file.sync_data().map_err(sync)?;
    Ok(torn)
}
