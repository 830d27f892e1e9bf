//! Reads a log without changing it: returns what an open would find, and the damage for which it
//! would fail.
//!
//! The rules are those of [`crate::scan`], as for an open. But nothing is truncated, zeroed,
//! synced, removed or created, and damage is reported together with the data before it. The caller
//! must ensure that nothing writes to the log in the meantime.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, DiskFile};

use crate::error::WalError;
use crate::index::LogIndex;
use crate::read::read_slot;
use crate::scan::{LoadedSegment, Scan, TornTail, split_at_gap};
use crate::segment::SegmentNumber;

pub struct Inspection {
    pub segments: Vec<SegmentReport>,
    /// Files that were never named, or were purged and not removed. The next open removes them.
    pub leftovers: Vec<PathBuf>,
    /// The reason why an open would fail. The other fields cover the log before the damage.
    pub damage: Option<WalError>,
    /// The tail that the next open would remove.
    pub torn: Option<TornTail>,
    pub vote: Option<Vec<u8>>,
    /// The last saved committed mark that reached the disk.
    pub committed: Option<Vec<u8>>,
    /// The highest purged index and the bytes given with it.
    pub purged: Option<(u64, Vec<u8>)>,
    index: LogIndex,
    files: BTreeMap<SegmentNumber, Arc<dyn DiskFile>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    pub path: PathBuf,
    pub bytes: u64,
    /// The bytes up to the end of the last intact batch.
    pub used: u64,
    pub batches: u64,
    /// The first and the last live entry.
    pub entries: Option<(u64, u64)>,
}

/// Reads the log in `dir` in full and verifies every checksum. A missing folder is a log without
/// segments. Fails only if the folder cannot be listed. Damage to a segment is returned in
/// [`Inspection::damage`].
pub fn inspect(disk: &dyn Disk, dir: &Path) -> Result<Inspection, WalError> {
    let mut found = Inspection {
        segments: Vec::new(),
        leftovers: Vec::new(),
        damage: None,
        torn: None,
        vote: None,
        committed: None,
        purged: None,
        index: LogIndex::default(),
        files: BTreeMap::new(),
    };
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(WalError::io(dir, "list", error)),
    };
    let mut numbers = Vec::new();
    for name in names {
        if let Some(number) = SegmentNumber::from_file_name(&name) {
            numbers.push(number);
        } else if name.ends_with(".tmp") {
            found.leftovers.push(dir.join(name));
        } else if name.ends_with(".seg") {
            let what = "the name is not that of a segment";
            found.damage = Some(WalError::corrupt(&dir.join(name), 0, what));
        }
    }
    numbers.sort_unstable();
    found.leftovers.sort_unstable();
    let mut scan = Scan::default();
    if let Err(damage) = found.read(disk, dir, &numbers, &mut scan) {
        found.damage.get_or_insert(damage);
    }
    found.take(scan);
    Ok(found)
}

impl Inspection {
    fn read(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        numbers: &[SegmentNumber],
        scan: &mut Scan,
    ) -> Result<(), WalError> {
        let Some((newest, older)) = numbers.split_last() else {
            return Ok(());
        };
        let (purged, older) = split_at_gap(older, *newest);
        let mut last = None;
        for number in older.iter().chain([newest]) {
            let loaded = LoadedSegment::read(disk, dir, *number)?;
            let bytes = loaded.file.len();
            let bytes = bytes.map_err(|e| WalError::io(&loaded.path, "read", e))?;
            let end = scan.read(loaded)?;
            self.segments.push(SegmentReport {
                path: end.loaded.path.clone(),
                bytes,
                used: end.at as u64,
                batches: end.batches,
                entries: None,
            });
            last = Some(end);
        }
        let Some(mut end) = last else {
            return Ok(());
        };
        scan.judge_tail(&mut end)?;
        self.torn = end.torn()?;
        scan.check_complete(dir, purged, *older.first().unwrap_or(newest))?;
        let purged = purged.iter().map(|number| number.path(dir));
        self.leftovers.extend(purged);
        Ok(())
    }

    fn take(&mut self, scan: Scan) {
        let mut live: BTreeMap<SegmentNumber, (u64, u64)> = BTreeMap::new();
        for at in scan.index.first()..scan.index.next() {
            if let Some(number) = scan.index.get(at).and_then(|slot| slot.segment) {
                live.entry(number).or_insert((at, at)).1 = at;
            }
        }
        for (segment, number) in self.segments.iter_mut().zip(scan.files.keys()) {
            segment.entries = live.get(number).copied();
        }
        self.vote = scan.marks.vote;
        self.committed = scan.marks.committed;
        self.purged = scan.marks.purged;
        self.index = scan.index;
        self.files = scan.files;
    }

    /// Returns the index of the first entry, or of the next entry if there is none.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.index.first()
    }

    /// Returns the index after the last entry.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.index.next()
    }

    /// Reads and verifies the bytes of one entry. Returns `None` if the log does not hold it.
    pub fn entry(&self, index: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(slot) = self.index.get(index) else {
            return Ok(None);
        };
        match slot.segment.and_then(|number| self.files.get(&number)) {
            Some(file) => read_slot(&**file, &slot).map(Some),
            None => Ok(None),
        }
    }
}
