//! Opening a log: reading back what is there, and telling a torn tail from corruption.
//!
//! A batch is written only after the one before it was synced. So at the first place where no
//! intact batch follows there are two cases. If anything behind it is of a later batch, then the
//! batch that should be here was once synced, and acknowledged: **corruption**, refused. If not,
//! it is a write that was interrupted and acknowledged to nobody: a **torn tail**, which is cut.
//! What was cut is zeroed, or else it could come back behind a new batch of equal length.
//!
//! What an open finds may have been in the page cache alone, never synced. So the last intact
//! batch is written again and synced before anything is reported (those before it were synced
//! before it was written), and the folders are synced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{SYNC, WalError};
use crate::format::{
    BatchBuffer, BatchFlaw, BatchView, HEADER_BYTES, HeaderFlaw, Kind, RecordView, SegmentHeader,
    VERSION, batch_at, later_batch,
};
use crate::index::{Holdings, LogIndex, Marks, Slot};
use crate::read::read_slot;
use crate::segment::{Prepared, Segment, SegmentNumber, write_zeroes};
use crate::wal::{Recovered, TornTail};
use crate::writer::encode_opening;

/// A log that was read back, ready to be written.
pub(crate) struct Opened {
    pub(crate) segment: Segment,
    /// The older segments, ascending, each with its length.
    pub(crate) older: Vec<(SegmentNumber, u64)>,
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) index: LogIndex,
    pub(crate) holdings: Holdings,
    pub(crate) files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    /// The last batch has no witness.
    pub(crate) unwitnessed: bool,
    pub(crate) recovered: Recovered,
}

/// Opens the log in `dir`, or founds one where there is no segment.
pub(crate) fn open(disk: &dyn Disk, dir: &Path, segment_bytes: u64) -> Result<Opened, WalError> {
    disk.create_dir_all(dir)
        .map_err(|e| WalError::io(dir, "create", e))?;
    let numbers = list_segments(disk, dir)?;
    let Some((last, older)) = numbers.split_last() else {
        return found(disk, dir, segment_bytes);
    };
    let mut scan = Scan::default();
    for number in older {
        scan.read(Loaded::read(disk, dir, *number)?)?;
    }
    let end = scan.read(Loaded::read(disk, dir, *last)?)?;
    scan.judge_tail(&end)?;
    scan.check_complete(dir, older.first().unwrap_or(last))?;

    let torn = repair(&end)?;
    sync_folders(disk, dir)?;
    scan.finish(end, torn)
}

/// The segments in the folder, ascending. Removes what was never named.
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
            return Err(WalError::corrupt(&path, 0, "no segment has such a name"));
        }
    }
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        if pair[0].next() != pair[1] {
            let missing = pair[0].next().path(dir);
            let what = format!("this segment is missing, segment {} is there", pair[1]);
            return Err(WalError::corrupt(&missing, 0, what));
        }
    }
    Ok(numbers)
}

fn found(disk: &dyn Disk, dir: &Path, segment_bytes: u64) -> Result<Opened, WalError> {
    let marks = Marks::default();
    let sequence = 1;
    let prepared = Prepared::create(disk, dir, SegmentNumber::FIRST, segment_bytes)
        .map_err(|failure| WalError::from_failure(&failure))?;
    let mut opening = BatchBuffer::default();
    encode_opening(&mut opening, &marks);
    let opening = opening.finish(prepared.seed, sequence);
    let segment = prepared
        .publish(disk, dir, opening)
        .map_err(|failure| WalError::from_failure(&failure))?;
    sync_folders(disk, dir)?;
    let recovered = Recovered {
        created: true,
        vote: None,
        committed: None,
        purged: None,
        first_index: marks.first,
        last: None,
        torn: None,
    };
    Ok(Opened {
        files: BTreeMap::from([(segment.number, Arc::clone(&segment.file))]),
        segment,
        older: Vec::new(),
        sequence,
        marks,
        index: LogIndex::default(),
        holdings: Holdings::default(),
        unwitnessed: false,
        recovered,
    })
}

/// The log's folder and the one that names it.
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

/// A segment file in memory.
struct Loaded {
    number: SegmentNumber,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    seed: u32,
    /// As long as the header says; what the file lacks is zeroes.
    data: Vec<u8>,
    /// The file itself is shorter than that.
    short: bool,
}

impl Loaded {
    fn read(disk: &dyn Disk, dir: &Path, number: SegmentNumber) -> Result<Self, WalError> {
        let path = number.path(dir);
        let failed = |e| WalError::io(&path, "read", e);
        let file = disk.open(&path).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let mut data = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_at(&mut data, 0).map_err(failed)?;
        let header = SegmentHeader::decode(&data).map_err(|flaw| match flaw {
            HeaderFlaw::Bad(what) => WalError::corrupt(&path, 0, what),
            HeaderFlaw::Newer(found) => WalError::NewerFormat {
                path: path.clone(),
                found,
                known: VERSION,
            },
        })?;
        if header.number != u64::from(number.get()) || header.len > u64::from(u32::MAX) {
            let what = format!("the header is that of segment {}", header.number);
            return Err(WalError::corrupt(&path, 0, what));
        }
        let short = len < header.len;
        data.resize(header.len as usize, 0);
        Ok(Self {
            number,
            path,
            file,
            seed: header.seed,
            data,
            short,
        })
    }
}

/// A segment and where its intact batches end.
struct End {
    loaded: Loaded,
    at: usize,
    /// Where the last batch begins, and whether it needs no witness.
    last_batch_at: usize,
    witnessed: bool,
}

/// What the batches so far say.
#[derive(Default)]
struct Scan {
    sequence: u64,
    marks: Marks,
    index: LogIndex,
    holdings: Holdings,
    files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    older: Vec<(SegmentNumber, u64)>,
    /// Path of the segment before, and where its intact batches end.
    before: Option<(PathBuf, usize)>,
}

impl Scan {
    /// Reads the batches of the next segment as far as they are intact.
    fn read(&mut self, loaded: Loaded) -> Result<End, WalError> {
        let Loaded {
            number,
            path,
            seed,
            data,
            ..
        } = &loaded;
        let mut at = HEADER_BYTES;
        let mut last_batch_at = at;
        let mut witnessed = true;
        while let Ok(batch) = batch_at(data, at, *seed) {
            let corrupt = |what: String| WalError::corrupt(path, at as u64, what);
            if at == HEADER_BYTES {
                self.check_sequence_of_opening(path, batch.sequence)?;
                self.enter_opening(&batch).map_err(corrupt)?;
            } else if batch.sequence == self.sequence + 1 {
                witnessed = self.enter(*number, at, &batch).map_err(corrupt)?;
            } else {
                let expected = self.sequence + 1;
                return Err(corrupt(format!(
                    "batch {} where {expected} belongs",
                    batch.sequence
                )));
            }
            self.sequence = batch.sequence;
            last_batch_at = at;
            at += batch.bytes.len();
        }
        if at == HEADER_BYTES {
            let what = "the segment has no intact opening, which was synced before it was named";
            return Err(WalError::corrupt(path, at as u64, what));
        }
        self.before = Some((path.clone(), at));
        self.files.insert(*number, Arc::clone(&loaded.file));
        self.older.push((*number, data.len() as u64));
        Ok(End {
            loaded,
            at,
            last_batch_at,
            witnessed,
        })
    }

    /// The opening follows the last batch of the segment before, or batches of that are lost.
    fn check_sequence_of_opening(&self, path: &Path, found: u64) -> Result<(), WalError> {
        match &self.before {
            Some((before, at)) if found != self.sequence + 1 => {
                let what = format!(
                    "no intact batch {}, and {} begins with batch {found}",
                    self.sequence + 1,
                    path.display()
                );
                Err(WalError::corrupt(before, *at as u64, what))
            }
            _ => Ok(()),
        }
    }

    /// In the first segment the opening says how the log stood; in a later one it repeats it.
    fn enter_opening(&mut self, batch: &BatchView<'_>) -> Result<(), String> {
        let mut opened = Marks::default();
        for (position, record) in batch.records().enumerate() {
            let record = record?;
            let fits = match record.kind {
                Kind::Extent => position == 0,
                Kind::Vote | Kind::Committed | Kind::Purge => position > 0,
                Kind::Entry | Kind::Truncate => false,
            };
            if !fits {
                return Err(format!("a record of kind {:?} in an opening", record.kind));
            }
            opened.apply(&record)?;
        }
        if self.before.is_none() {
            self.index = LogIndex::empty_at(opened.next);
            self.marks = opened;
        } else if self.marks != opened {
            return Err("the opening does not repeat what the segments before it say".into());
        }
        Ok(())
    }

    /// Enters a batch. Answers whether it is a witness.
    fn enter(
        &mut self,
        number: SegmentNumber,
        at: usize,
        batch: &BatchView<'_>,
    ) -> Result<bool, String> {
        let mut witness = true;
        for record in batch.records() {
            let record: RecordView<'_> = record?;
            self.marks.apply(&record)?;
            witness &= record.kind == Kind::Committed;
            match record.kind {
                Kind::Entry => {
                    self.index
                        .push(record.index, Slot::of(number, at as u64, &record));
                    self.holdings.append(number, record.index);
                }
                Kind::Truncate => {
                    self.index.truncate(record.index);
                    self.holdings.truncate(record.index);
                }
                Kind::Purge => {
                    if record.index >= self.index.first() {
                        self.index.purge(record.index);
                    }
                    self.holdings.purge(record.index);
                }
                Kind::Vote | Kind::Committed => {}
                Kind::Extent => return Err("an extent record outside an opening".into()),
            }
        }
        Ok(witness)
    }

    /// Decides what the first place without an intact batch is: nothing is behind it in later
    /// segments, as this one is the last.
    fn judge_tail(&self, end: &End) -> Result<(), WalError> {
        let Loaded {
            path, data, seed, ..
        } = &end.loaded;
        let next = self.sequence + 1;
        let evidence = match batch_at(data, end.at, *seed) {
            Err(BatchFlaw::Body { sequence }) if sequence != next => Some((end.at, sequence)),
            _ => later_batch(data, end.at + 1, *seed, self.sequence),
        };
        match evidence {
            None => Ok(()),
            Some((at, sequence)) => {
                let what = format!(
                    "no intact batch {next}, but one with number {sequence} was written at byte \
                     {at}, and that happens only after batch {next} was synced"
                );
                Err(WalError::corrupt(path, end.at as u64, what))
            }
        }
    }

    /// All live entries are there: none was in a segment before the first.
    fn check_complete(&self, dir: &Path, first: &SegmentNumber) -> Result<(), WalError> {
        if self.marks.first == self.marks.next || self.marks.first == self.index.first() {
            return Ok(());
        }
        let what = format!(
            "entries {} to {} are missing: they were in segments before this one",
            self.marks.first,
            self.index.first() - 1
        );
        Err(WalError::corrupt(&first.path(dir), 0, what))
    }

    fn finish(mut self, end: End, torn: Option<TornTail>) -> Result<Opened, WalError> {
        let last = match self
            .index
            .next()
            .checked_sub(1)
            .and_then(|i| Some((i, self.index.get(i)?)))
        {
            None => None,
            Some((index, slot)) => {
                // The last entry may be in any segment: batches without entries may follow it.
                let number = slot.segment.unwrap_or(end.loaded.number);
                let file = self.files.get(&number).unwrap_or(&end.loaded.file);
                let bytes = read_slot(&**file, &slot)
                    .map_err(|e| WalError::io(&end.loaded.path, "read", e))?;
                Some((index, bytes))
            }
        };
        let Loaded {
            number,
            path,
            file,
            seed,
            data,
            ..
        } = end.loaded;
        self.older.pop();
        let recovered = Recovered {
            created: false,
            vote: self.marks.vote.clone(),
            committed: self.marks.committed.clone(),
            purged: self.marks.purged.clone(),
            first_index: self.marks.first,
            last,
            torn,
        };
        let (len, tail) = (data.len() as u64, end.at as u64);
        Ok(Opened {
            segment: Segment {
                number,
                seed,
                path,
                file,
                len,
                tail,
            },
            older: self.older,
            sequence: self.sequence,
            marks: self.marks,
            index: self.index,
            holdings: self.holdings,
            files: self.files,
            unwitnessed: !end.witnessed,
            recovered,
        })
    }
}

/// Zeroes what lies behind the last intact batch, then makes that batch durable again.
///
/// The zeroes are written even where zeroes are read: what is read may be the page cache's
/// opinion after a sync that failed.
fn repair(end: &End) -> Result<Option<TornTail>, WalError> {
    let Loaded {
        path,
        file,
        data,
        short,
        ..
    } = &end.loaded;
    let write = |e| WalError::io(path, "write", e);
    let sync = |e| WalError::io(path, SYNC, e);
    let remains = &data[end.at.min(data.len())..];
    let bytes = remains
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last as u64 + 1);
    let torn = (bytes > 0 || *short).then(|| TornTail {
        path: path.clone(),
        offset: end.at as u64,
        bytes,
    });
    if let Some(torn) = &torn {
        tracing::warn!(
            path = %path.display(), offset = torn.offset, bytes = torn.bytes, short,
            "the last write was interrupted and acknowledged to nobody; its remains are cut off"
        );
    }
    write_zeroes(&**file, end.at as u64, data.len() as u64).map_err(write)?;
    file.sync_all().map_err(sync)?;
    let last_batch = &data[end.last_batch_at..end.at];
    file.write_at(last_batch, end.last_batch_at as u64)
        .map_err(write)?;
    file.sync_data().map_err(sync)?;
    Ok(torn)
}
