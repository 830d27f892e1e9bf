//! Reads a snapshot with one block in memory at a time, and returns no unverified data.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use seqd_disk::{Disk, FileReader};
use seqd_state::codec::{self, Versioned};

use super::{
    BLOCK_BYTES, CRC_BYTES, FOOTER_BYTES, FRAME_START_BYTES, Footer, FrameKind, MAGIC,
    MAX_BLOCK_BYTES, MAX_FOOTER_BYTES, MAX_HEADER_BYTES, ROW_PREFIX_BYTES, SnapshotFile,
    SnapshotHeader, invalid,
};
use crate::checkpoint::{MAX_ROW_BYTES, Row, Tally, VisitRow};
use crate::disk_errors::{in_file, is_newer, named, newer};

/// A snapshot whose header has been read and verified.
pub struct SnapshotReader {
    input: BufReader<FileReader>,
    path: PathBuf,
    header: SnapshotHeader,
    crc: u32,
    len: u64,
    /// The offset of the current frame, and of the frame after it.
    frame_at: u64,
    next_at: u64,
}

/// The rows of a snapshot, in the order in which they were written.
///
/// Each returned row has a valid checksum, but the rows are complete only when the iterator ends:
/// they must not be used before it returns `None` without an earlier error.
pub struct Rows {
    reader: SnapshotReader,
    block: Vec<u8>,
    at: usize,
    tally: Tally,
    done: bool,
}

/// Reads the whole file and verifies every checksum, the number of rows and their digest.
pub(super) fn verify(disk: &dyn Disk, path: &Path) -> io::Result<SnapshotFile> {
    let reader = SnapshotReader::open(disk, path)?;
    let (header, len) = (reader.header.clone(), reader.len);
    let Tally { rows, digest } = reader.rows().visit(&mut |_, _| Ok(()))?;
    Ok(SnapshotFile::new(
        path.to_owned(),
        header,
        Footer { rows, digest },
        len,
    ))
}

/// Reads only the header and the footer. Only the header is verified. `verify` checks the rest, and
/// whether the footer matches it.
pub fn summary(disk: &dyn Disk, path: &Path) -> io::Result<SnapshotFile> {
    let mut reader = SnapshotReader::open(disk, path)?;
    let mut footer = [0; FOOTER_BYTES];
    let from_end = (FOOTER_BYTES + CRC_BYTES) as i64;
    reader
        .input
        .seek(SeekFrom::End(-from_end))
        .map_err(|_| invalid(path, "it is too short"))?;
    reader.fill(&mut footer)?;
    let footer = reader.decode(&footer).map_err(|error| {
        // The footer's checksum was not verified, so its version is not reliable.
        if is_newer(&error) {
            invalid(
                path,
                "the footer is damaged, or was written by a newer program",
            )
        } else {
            error
        }
    })?;
    Ok(SnapshotFile::new(
        path.to_owned(),
        reader.header,
        footer,
        reader.len,
    ))
}

impl SnapshotReader {
    /// Opens a file and verifies its header.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is damaged or not a snapshot,
    /// [`io::ErrorKind::Unsupported`] if a newer program wrote it, and otherwise the error of the
    /// disk. All errors of a reader contain the path of the file.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<SnapshotReader> {
        let file = disk.open_read(path).and_then(FileReader::new);
        let file = file.map_err(|error| in_file(path, error))?;
        let len = file.len();
        let mut reader = SnapshotReader {
            input: BufReader::with_capacity(BLOCK_BYTES, file),
            path: path.to_owned(),
            header: SnapshotHeader::default(),
            crc: crc32c::crc32c(MAGIC),
            len,
            frame_at: 0,
            next_at: MAGIC.len() as u64,
        };
        let mut magic = [0; MAGIC.len()];
        reader.fill(&mut magic)?;
        if &magic != MAGIC {
            return Err(invalid(path, "not a snapshot"));
        }
        let mut payload = Vec::new();
        if reader.frame(&mut payload)? != FrameKind::Header {
            return Err(invalid(path, "it does not begin with a header"));
        }
        reader.header = reader.decode(&payload)?;
        Ok(reader)
    }

    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Returns all rows, which are verified while they are read.
    pub fn rows(self) -> Rows {
        Rows {
            reader: self,
            block: Vec::new(),
            at: 0,
            tally: Tally::default(),
            done: false,
        }
    }

    /// Reads one frame into `payload` and verifies its checksum.
    fn frame(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind> {
        self.frame_at = self.next_at;
        let mut start = [0; FRAME_START_BYTES];
        self.fill(&mut start)?;
        let [kind, length @ ..] = start;
        let (kind, limit) = match kind {
            1 => (FrameKind::Header, MAX_HEADER_BYTES),
            2 => (FrameKind::Block, MAX_BLOCK_BYTES),
            3 => (FrameKind::Footer, MAX_FOOTER_BYTES),
            other => return Err(self.wrong(format!("unknown kind of frame {other}"))),
        };
        let length = u32::from_le_bytes(length) as usize;
        if length > limit {
            return Err(self.wrong(format!("a frame of {length} bytes")));
        }
        payload.clear();
        payload.resize(length, 0);
        self.fill(payload)?;
        let mut crc = [0; CRC_BYTES];
        self.fill(&mut crc)?;
        self.crc = crc32c::crc32c_append(crc32c::crc32c_append(self.crc, &start), payload);
        if self.crc != u32::from_le_bytes(crc) {
            return Err(self.wrong("a checksum does not match"));
        }
        self.next_at += (FRAME_START_BYTES + length + CRC_BYTES) as u64;
        Ok(kind)
    }

    /// An error that contains the offset of the frame.
    fn wrong(&self, why: impl std::fmt::Display) -> io::Error {
        let at = self.frame_at;
        invalid(&self.path, format!("in the frame at byte {at}: {why}"))
    }

    /// An error of the disk, with the offset of the frame.
    fn unread(&self, error: io::Error) -> io::Error {
        let (path, at) = (self.path.display(), self.frame_at);
        named(format!("{path}: in the frame at byte {at}"), error)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => self.wrong("it ends too early"),
                _ => self.unread(error),
            })
    }

    fn decode<T: Versioned>(&self, payload: &[u8]) -> io::Result<T> {
        codec::decode(payload).map_err(|error| {
            // The checksum was valid, so these bytes were written.
            if error.is_newer() {
                newer(format!("{}: {error}", self.path.display()))
            } else {
                self.wrong(error)
            }
        })
    }
}

/// The position of a row in the block.
struct RowSpan {
    key: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

impl Rows {
    /// Passes all rows to `visit` without copying them. Returns their number and digest.
    pub fn visit(mut self, visit: &mut VisitRow<'_>) -> io::Result<Tally> {
        while let Some(step) = self.advance() {
            let RowSpan { key, value } = step?;
            visit(&self.block[key], &self.block[value])?;
        }
        Ok(self.tally)
    }

    /// Returns the position of the next row, or `None` after a valid footer. An error ends the
    /// iterator.
    fn advance(&mut self) -> Option<io::Result<RowSpan>> {
        if self.done {
            return None;
        }
        let step = self.step();
        self.done = !matches!(step, Ok(Some(_)));
        step.transpose()
    }

    fn step(&mut self) -> io::Result<Option<RowSpan>> {
        while self.at == self.block.len() {
            self.at = 0;
            match self.reader.frame(&mut self.block)? {
                FrameKind::Block => {}
                FrameKind::Footer => return self.end().map(|()| None),
                FrameKind::Header => return Err(self.reader.wrong("a second header")),
            }
        }
        let place = self
            .place()
            .ok_or_else(|| self.reader.wrong("a malformed block"))?;
        self.at = place.value.end;
        self.tally.add(
            &self.block[place.key.clone()],
            &self.block[place.value.clone()],
        );
        Ok(Some(place))
    }

    /// Returns the position of the row that begins at `at`, if it lies within the block.
    fn place(&self) -> Option<RowSpan> {
        let (lengths, rest) = self
            .block
            .get(self.at..)?
            .split_first_chunk::<ROW_PREFIX_BYTES>()?;
        let (key, value) = lengths.split_at(ROW_PREFIX_BYTES / 2);
        let key = u32::from_le_bytes(key.try_into().ok()?) as usize;
        let value = u32::from_le_bytes(value.try_into().ok()?) as usize;
        if key.checked_add(value)? > rest.len().min(MAX_ROW_BYTES) {
            return None;
        }
        let key_start = self.at + ROW_PREFIX_BYTES;
        let value_start = key_start + key;
        Some(RowSpan {
            key: key_start..value_start,
            value: value_start..value_start + value,
        })
    }

    /// Compares the rows with the footer, after which the file must end.
    fn end(&mut self) -> io::Result<()> {
        let footer: Footer = self.reader.decode(&self.block)?;
        self.block.clear();
        let path = &self.reader.path;
        if self.tally.rows != footer.rows {
            let why = format!(
                "{} rows, but {} were recorded",
                self.tally.rows, footer.rows
            );
            return Err(invalid(path, why));
        }
        self.tally
            .expect(footer.digest)
            .map_err(|error| invalid(path, error))?;
        let mut more = [0; 1];
        let behind = self.reader.input.read(&mut more);
        if behind.map_err(|error| self.reader.unread(error))? != 0 {
            return Err(invalid(
                &self.reader.path,
                "there are bytes after the footer",
            ));
        }
        Ok(())
    }
}

impl Iterator for Rows {
    type Item = io::Result<Row>;

    fn next(&mut self) -> Option<io::Result<Row>> {
        let step = self.advance()?;
        Some(
            step.map(|RowSpan { key, value }| {
                (self.block[key].to_vec(), self.block[value].to_vec())
            }),
        )
    }
}
