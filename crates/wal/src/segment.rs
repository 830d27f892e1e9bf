//! A segment file: its name, its creation, and the segment that is being written.

use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_guards::is_out;

use crate::error::{FailedStep, WalFailure};
use crate::format::{HEADER_BYTES, SegmentHeader};
use seqd_disk::{Disk, DiskFile};

/// Zeros are written in pieces of this size.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// The number of a segment. Numbers only rise, from 1. 2^32 segments outlast any disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentNumber(NonZeroU32);

impl SegmentNumber {
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);

    pub(crate) fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    pub(crate) fn get(self) -> u32 {
        self.0.get()
    }

    /// Saturates after 64 PiB of log; creating the file would then fail because it exists.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub(crate) fn file_name(self) -> String {
        format!("{self}.seg")
    }

    /// Parses a file name. Returns `None` for any name that [`Self::file_name`] does not return.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let number = Self::new(name.strip_suffix(".seg")?.parse().ok()?)?;
        (number.file_name() == name).then_some(number)
    }

    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.file_name())
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010}", self.0)
    }
}

/// The segment that receives the next batch.
pub(crate) struct TailSegment {
    pub(crate) number: SegmentNumber,
    pub(crate) seed: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) len: u64,
    /// The offset of the next batch.
    pub(crate) tail: u64,
}

/// A segment that lacks only its opening and its name: header and zeros, synced, `*.tmp`.
pub(crate) struct Prepared {
    pub(crate) number: SegmentNumber,
    pub(crate) seed: u32,
    pub(crate) len: u64,
    tmp: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// A segment that is being zero-filled.
pub(crate) struct Unfinished {
    prepared: Prepared,
    /// The offset up to which the file is written and synced.
    filled: u64,
}

impl Unfinished {
    /// Creates the file, with its header. A leftover of an earlier attempt is removed first.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        number: SegmentNumber,
        len: u64,
        seeds: &Seeds,
    ) -> Result<Self, WalFailure> {
        let tmp = dir.join(format!("{}.tmp", number.file_name()));
        let fail = |source: io::Error| WalFailure::new(FailedStep::NewSegment, &tmp, &source);
        match disk.remove(&tmp) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        let seed = nonzero(seeds).map_err(fail)?;
        let file = disk.create(&tmp).map_err(fail)?;
        file.reserve(len).map_err(fail)?;
        let header = SegmentHeader {
            number: number.get().into(),
            seed,
            len,
        };
        file.write_at(&header.encode(), 0).map_err(fail)?;
        Ok(Self {
            prepared: Prepared {
                number,
                seed,
                len,
                tmp,
                file,
            },
            filled: HEADER_BYTES as u64,
        })
    }

    /// Zero-fills the file up to `upto`, in whole pieces, or to its end. Returns whether the end is
    /// reached.
    pub(crate) fn fill(&mut self, upto: u64) -> Result<bool, WalFailure> {
        let Prepared { file, tmp, len, .. } = &self.prepared;
        // Written instead of only reserved, so that a later fdatasync does not have to update the
        // size or extents. Synced in pieces, because on a slow disk one large sync would delay the
        // syncs of the writer.
        while self.filled < *len {
            let to = (*len).min((self.filled / PIECE_BYTES + 1) * PIECE_BYTES);
            if to > upto {
                break;
            }
            write_zeroes(&**file, self.filled, to)
                .map_err(|e| WalFailure::new(FailedStep::NewSegment, tmp, &e))?;
            if !is_out!(SegmentSynced) {
                file.sync_all()
                    .map_err(|e| WalFailure::new(FailedStep::Sync, tmp, &e))?;
            }
            self.filled = to;
        }
        Ok(self.filled == *len)
    }

    /// The segment, once it is filled to its end.
    pub(crate) fn finished(self) -> Prepared {
        self.prepared
    }
}

impl Prepared {
    /// Creates a segment at once.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        number: SegmentNumber,
        len: u64,
        seeds: &Seeds,
    ) -> Result<Self, WalFailure> {
        let mut unfinished = Unfinished::create(disk, dir, number, len, seeds)?;
        unfinished.fill(len)?;
        Ok(unfinished.finished())
    }

    /// Writes the opening batch, syncs it, and only then gives the file its name.
    pub(crate) fn publish(
        self,
        disk: &dyn Disk,
        dir: &Path,
        opening: &[u8],
    ) -> Result<TailSegment, WalFailure> {
        let path = self.number.path(dir);
        let start = HEADER_BYTES as u64;
        self.file
            .write_at(opening, start)
            .map_err(|e| WalFailure::new(FailedStep::Write, &self.tmp, &e))?;
        if !is_out!(SegmentSynced) {
            self.file
                .sync_data()
                .map_err(|e| WalFailure::new(FailedStep::Sync, &self.tmp, &e))?;
        }
        disk.rename(&self.tmp, &path)
            .map_err(|e| WalFailure::new(FailedStep::NewSegment, &path, &e))?;
        if !is_out!(NameSynced) {
            disk.sync_dir(dir)
                .map_err(|e| WalFailure::new(FailedStep::Sync, dir, &e))?;
        }
        Ok(TailSegment {
            number: self.number,
            seed: self.seed,
            path,
            file: self.file,
            len: self.len,
            tail: start + opening.len() as u64,
        })
    }

    /// Removes the file. If this fails, the next open repeats it.
    pub(crate) fn discard(self, disk: &dyn Disk) {
        if let Err(error) = disk.remove(&self.tmp) {
            tracing::warn!(path = %self.tmp.display(), %error, "cannot remove a prepared segment");
        }
    }
}

/// Writes zeroes over `from..to`.
pub(crate) fn write_zeroes(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let zeroes = vec![0; PIECE_BYTES as usize];
    let mut at = from;
    while at < to {
        let len = (to - at).min(PIECE_BYTES);
        file.write_at(&zeroes[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// The source of the seeds of segments.
pub(crate) type Seeds = Arc<dyn Fn() -> io::Result<u32> + Send + Sync>;

/// Random seeds, so that remains of an earlier file on the disk never match.
pub(crate) fn random_seeds() -> Seeds {
    Arc::new(|| getrandom::u32().map_err(io::Error::other))
}

fn nonzero(seeds: &Seeds) -> io::Result<u32> {
    loop {
        let seed = seeds()?;
        if seed != 0 {
            return Ok(seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let number = SegmentNumber::new(42).unwrap();
        assert_eq!(number.file_name(), "0000000042.seg");
        assert_eq!(
            SegmentNumber::from_file_name("0000000042.seg"),
            Some(number)
        );
        for bad in [
            "42.seg",
            "0000000000.seg",
            "0000000042",
            "+000000042.seg",
            "x.seg",
        ] {
            assert_eq!(SegmentNumber::from_file_name(bad), None, "{bad}");
        }
    }
}
