//! Reads a log and distinguishes a torn tail from corruption. Nothing here writes.
//!
//! A batch is written only after the previous one was synced. At the first offset without an intact
//! batch there are therefore two cases. If anything after it belongs to a later batch, the missing
//! batch was once synced and acknowledged: this is **corruption**, and the open fails. Otherwise it
//! is an interrupted write that was never acknowledged: a **torn tail**.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_guards::is_out;

use crate::bytes::SegmentBytes;
use crate::error::WalError;
use crate::format::{
    BatchFlaw, BatchView, HEADER_BYTES, HeaderFlaw, Kind, RecordView, SegmentHeader, VERSION,
};
use crate::index::{EntrySlot, Holdings, LogIndex, Marks};
use crate::segment::SegmentNumber;
use seqd_disk::{Disk, DiskFile};

/// A segment file whose header has been read.
pub(crate) struct LoadedSegment {
    pub(crate) number: SegmentNumber,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) seed: u32,
    pub(crate) bytes: SegmentBytes,
    /// `true` if the file itself is shorter than that.
    pub(crate) short: bool,
}

impl LoadedSegment {
    pub(crate) fn read(
        disk: &dyn Disk,
        dir: &Path,
        number: SegmentNumber,
    ) -> Result<Self, WalError> {
        let path = number.path(dir);
        let failed = |e| WalError::io(&path, "read", e);
        let file = disk.open(&path).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        let there = usize::try_from(len).map_or(HEADER_BYTES, |len| len.min(HEADER_BYTES));
        let header = &mut header[..there];
        file.read_at(header, 0).map_err(failed)?;
        let header = SegmentHeader::decode(header).map_err(|flaw| match flaw {
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
        let bytes = SegmentBytes::new(Arc::clone(&file), len, header.len as usize, header.seed);
        Ok(Self {
            number,
            path,
            file,
            seed: header.seed,
            bytes,
            short,
        })
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> WalError + use<> {
        let path = self.path.clone();
        move |error| WalError::io(&path, "read", error)
    }
}

/// The remains of an interrupted write, which were removed and zeroed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    pub path: PathBuf,
    /// The end of the log, in bytes from the start of the file.
    pub offset: u64,
    /// The length of the remains after it.
    pub bytes: u64,
}

/// A segment and the end of its intact batches.
pub(crate) struct SegmentEnd {
    pub(crate) loaded: LoadedSegment,
    pub(crate) at: usize,
    /// The offset of the last batch, and whether it needs no witness.
    pub(crate) last_batch_at: usize,
    pub(crate) witnessed: bool,
    pub(crate) batches: u64,
}

impl SegmentEnd {
    /// Returns the remains of an interrupted write after the last intact batch, if there are any.
    ///
    /// # Errors
    /// The error of the disk.
    pub(crate) fn torn(&mut self) -> Result<Option<TornTail>, WalError> {
        let failed = self.loaded.failed();
        let LoadedSegment {
            path, bytes, short, ..
        } = &mut self.loaded;
        let end = bytes.end_of_content(self.at).map_err(failed)?;
        let bytes = end.map_or(0, |end| (end - self.at) as u64);
        Ok((bytes > 0 || *short).then(|| TornTail {
            path: path.clone(),
            offset: self.at as u64,
            bytes,
        }))
    }

    pub(crate) fn last_batch(&mut self) -> Result<&[u8], WalError> {
        let failed = self.loaded.failed();
        let bytes = &mut self.loaded.bytes;
        bytes.range(self.last_batch_at, self.at).map_err(failed)
    }
}

#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) index: LogIndex,
    pub(crate) holdings: Holdings,
    pub(crate) files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
    pub(crate) older: Vec<(SegmentNumber, u64)>,
    /// The path of the previous segment, and the end of its intact batches.
    pub(crate) before: Option<(PathBuf, usize)>,
}

impl Scan {
    /// Reads the batches of the next segment as far as they are intact.
    pub(crate) fn read(&mut self, mut loaded: LoadedSegment) -> Result<SegmentEnd, WalError> {
        let failed = loaded.failed();
        let LoadedSegment {
            number,
            path,
            file,
            bytes,
            ..
        } = &mut loaded;
        let path = &*path;
        let mut at = HEADER_BYTES;
        let mut last_batch_at = at;
        let mut witnessed = true;
        let mut batches = 0;
        while let Ok(batch) = bytes.batch_at(at).map_err(&failed)? {
            let corrupt = |what: String| WalError::corrupt(path, at as u64, what);
            if at == HEADER_BYTES {
                self.check_sequence_of_opening(path, batch.sequence)?;
                self.enter_opening(&batch).map_err(corrupt)?;
            } else if batch.sequence == self.sequence + 1 {
                witnessed = self.enter(*number, at, &batch).map_err(corrupt)?;
            } else {
                let expected = self.sequence + 1;
                return Err(corrupt(format!(
                    "batch {} instead of batch {expected}",
                    batch.sequence
                )));
            }
            self.sequence = batch.sequence;
            last_batch_at = at;
            at += batch.bytes.len();
            batches += 1;
        }
        if at == HEADER_BYTES {
            let what = "the segment has no intact opening, although its opening was synced before \
                the segment got its name";
            return Err(WalError::corrupt(path, at as u64, what));
        }
        self.before = Some((path.clone(), at));
        self.files.insert(*number, Arc::clone(file));
        self.older.push((*number, bytes.len() as u64));
        Ok(SegmentEnd {
            loaded,
            at,
            last_batch_at,
            witnessed,
            batches,
        })
    }

    /// Checks that the opening follows the last batch of the previous segment. Otherwise batches of
    /// that segment are lost.
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

    /// Applies an opening. The opening of the first segment is the state of the log at that point;
    /// later openings repeat the state.
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
            return Err("the opening contradicts the segments before it".into());
        }
        Ok(())
    }

    /// Applies a batch. Returns whether it is a witness.
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
                        .push(record.index, EntrySlot::of(number, at as u64, &record));
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

    /// Judges the first offset without an intact batch. This is the last segment, so no later
    /// segment has evidence.
    pub(crate) fn judge_tail(&self, end: &mut SegmentEnd) -> Result<(), WalError> {
        let failed = end.loaded.failed();
        let LoadedSegment { path, bytes, .. } = &mut end.loaded;
        let next = self.sequence + 1;
        let evidence = match bytes.batch_at(end.at).map_err(&failed)? {
            Err(BatchFlaw::Body { sequence }) if sequence != next => Some((end.at, sequence)),
            _ => bytes
                .later_batch(end.at + 1, self.sequence)
                .map_err(failed)?,
        };
        match evidence {
            None => Ok(()),
            Some(_) if is_out!(LaterBatchSearched) => Ok(()),
            Some((at, sequence)) => {
                let what = format!(
                    "no intact batch {next}, but batch {sequence} was written at byte {at}, which \
                     happens only after batch {next} was synced"
                );
                Err(WalError::corrupt(path, end.at as u64, what))
            }
        }
    }

    /// Checks that all live entries are present, so that none was in a segment before the first
    /// one. `before` are the segments before a gap.
    pub(crate) fn check_complete(
        &self,
        dir: &Path,
        before: &[SegmentNumber],
        first: SegmentNumber,
    ) -> Result<(), WalError> {
        if self.marks.first == self.marks.next || self.marks.first == self.index.first() {
            return Ok(());
        }
        if let Some(last_before) = before.last() {
            let missing = last_before.next().path(dir);
            let what = format!("this segment is missing, segment {first} is there");
            return Err(WalError::corrupt(&missing, 0, what));
        }
        let what = format!(
            "entries {} to {} are missing: they were in segments before this one",
            self.marks.first,
            self.index.first() - 1
        );
        Err(WalError::corrupt(&first.path(dir), 0, what))
    }
}

/// Splits the ascending segments before `last` at the last gap in their numbers.
///
/// Segments are removed oldest first, but after a failed removal, or a power cut, some segments can
/// remain. They are ignored if the segments after the gap are complete, because these begin with
/// everything that the log holds in addition to its entries. Otherwise the segment in the gap is
/// missing.
pub(crate) fn split_at_gap(
    older: &[SegmentNumber],
    last: SegmentNumber,
) -> (&[SegmentNumber], &[SegmentNumber]) {
    let mut next = last;
    let follows = |number: &&SegmentNumber| {
        let follows = number.next() == next;
        next = **number;
        follows
    };
    let behind = older.iter().rev().take_while(follows).count();
    older.split_at(older.len() - behind)
}
