//! Reads the bytes of a segment file in pieces, so that a start keeps no copy of the log in memory.

use std::io;
use std::sync::Arc;

use seqd_disk::DiskFile;

use crate::format::{
    ALIGN, BATCH_HEADER_BYTES, BatchFlaw, BatchView, batch_at, batch_end, later_batch,
};

/// The size of one read: large enough for few calls, small enough for little memory.
const PIECE_BYTES: usize = 256 << 10;

/// The bytes of a segment. If the file is too short, the missing bytes read as zeros.
pub(crate) struct SegmentBytes {
    file: Arc<dyn DiskFile>,
    file_len: u64,
    len: usize,
    seed: u32,
    piece: Vec<u8>,
    piece_at: usize,
}

impl SegmentBytes {
    /// `len` and `seed` come from the header of the segment.
    pub(crate) fn new(file: Arc<dyn DiskFile>, file_len: u64, len: usize, seed: u32) -> Self {
        Self {
            file,
            file_len,
            len,
            seed,
            piece: Vec::new(),
            piece_at: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes from `from` up to `to`, or up to the end of the segment.
    pub(crate) fn range(&mut self, from: usize, to: usize) -> io::Result<&[u8]> {
        let (from, to) = (from.min(self.len), to.min(self.len));
        if from < self.piece_at || to > self.piece_at + self.piece.len() {
            self.load(from, to.max(from + PIECE_BYTES).min(self.len))?;
        }
        Ok(&self.piece[from - self.piece_at..to - self.piece_at])
    }

    fn load(&mut self, from: usize, to: usize) -> io::Result<()> {
        self.piece.clear();
        self.piece.resize(to - from, 0);
        self.piece_at = from;
        let in_file = self.file_len.saturating_sub(from as u64);
        let there = usize::try_from(in_file).map_or(to - from, |len| len.min(to - from));
        self.file.read_at(&mut self.piece[..there], from as u64)
    }

    /// Like [`batch_at`], for the bytes at `at`.
    pub(crate) fn batch_at(&mut self, at: usize) -> io::Result<Result<BatchView<'_>, BatchFlaw>> {
        let seed = self.seed;
        let header = self.range(at, at + BATCH_HEADER_BYTES)?;
        let Some(len) = batch_end(header, seed) else {
            return Ok(Err(BatchFlaw::Header));
        };
        Ok(batch_at(self.range(at, at + len)?, seed))
    }

    /// Like [`later_batch`], from `from` on.
    pub(crate) fn later_batch(
        &mut self,
        from: usize,
        last: u64,
    ) -> io::Result<Option<(usize, u64)>> {
        let seed = self.seed;
        let mut at = from.next_multiple_of(ALIGN);
        while at < self.len {
            // A header may begin in one piece and end in the next.
            let piece = self.range(at, at + PIECE_BYTES + BATCH_HEADER_BYTES - ALIGN)?;
            if let Some((found, sequence)) = later_batch(piece, 0, seed, last) {
                return Ok(Some((at + found, sequence)));
            }
            at += PIECE_BYTES;
        }
        Ok(None)
    }

    /// Returns the offset after the last nonzero byte from `from` on, or `None` if all bytes are
    /// zero.
    pub(crate) fn end_of_content(&mut self, from: usize) -> io::Result<Option<usize>> {
        let (mut at, mut end) = (from, None);
        while at < self.len {
            let piece = self.range(at, at + PIECE_BYTES)?;
            if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
                end = Some(at + last + 1);
            }
            at += PIECE_BYTES;
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use seqd_disk::{Disk, OsDisk};

    use super::*;
    use crate::format::{BatchBuffer, Kind};

    const SEED: u32 = 0x5eed_0001;
    const PIECE: usize = PIECE_BYTES;

    fn batch(sequence: u64, payload: usize) -> Vec<u8> {
        let mut buffer = BatchBuffer::default();
        buffer.clear();
        buffer.push(Kind::Entry, 1, &vec![0xa5; payload]);
        buffer.finish(SEED, sequence).to_vec()
    }

    /// Builds a segment with content at the given offsets. The other bytes, and the bytes after the
    /// end of the file, are zeros.
    fn segment(len: usize, file_len: usize, content: &[(usize, &[u8])]) -> SegmentBytes {
        let dir = tempfile::tempdir().unwrap();
        let file = OsDisk.create(&dir.path().join("segment")).unwrap();
        for (at, bytes) in content {
            file.write_at(bytes, *at as u64).unwrap();
        }
        file.set_len(file_len as u64).unwrap();
        SegmentBytes::new(file, file_len as u64, len, SEED)
    }

    #[test]
    fn a_batch_is_found_wherever_a_piece_ends() {
        for before in [8, 16, 24, 40] {
            let at = PIECE - before;
            let first = batch(7, 100);
            let mut bytes = segment(3 * PIECE, 3 * PIECE, &[(at, &first)]);
            // The first read is at the beginning of the segment, so that a piece ends within the
            // batch.
            assert_eq!(bytes.batch_at(0).unwrap(), Err(BatchFlaw::Header));
            assert_eq!(bytes.later_batch(0, 6).unwrap(), Some((at, 7)), "{before}");
            assert_eq!(bytes.later_batch(0, 7).unwrap(), None, "{before}");
            bytes.range(0, 1).unwrap();
            let found = bytes.batch_at(at).unwrap().unwrap();
            assert_eq!((found.sequence, found.bytes), (7, &first[..]), "{before}");
            let end = Some(at + first.len());
            assert_eq!(bytes.end_of_content(0).unwrap(), end, "{before}");
            assert_eq!(bytes.end_of_content(at + first.len()).unwrap(), None);
        }
    }

    #[test]
    fn a_batch_of_many_pieces_is_read_whole() {
        let large = batch(3, 3 * PIECE);
        let mut bytes = segment(5 * PIECE, 5 * PIECE, &[(64, &large)]);
        assert_eq!(bytes.batch_at(64).unwrap().unwrap().bytes, &large[..]);
        // If the segment ends before the batch, its body is missing.
        let mut cut = segment(2 * PIECE, 2 * PIECE, &[(64, &large)]);
        let flaw = BatchFlaw::Body { sequence: 3 };
        assert_eq!(cut.batch_at(64).unwrap(), Err(flaw));
    }

    #[test]
    fn missing_bytes_of_a_short_file_are_zeroes() {
        let first = batch(1, 100);
        let mut bytes = segment(2 * PIECE, 80, &[(64, &first)]);
        let flaw = BatchFlaw::Body { sequence: 1 };
        assert_eq!(bytes.batch_at(64).unwrap(), Err(flaw));
        assert_eq!(bytes.range(PIECE, PIECE + 3).unwrap(), [0; 3]);
        assert_eq!(bytes.range(2 * PIECE - 1, 2 * PIECE + 9).unwrap(), [0; 1]);
        assert!(bytes.end_of_content(0).unwrap().unwrap() <= 80);
    }
}
