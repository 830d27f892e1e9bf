//! The format on disk, version 1. [FORMAT.md](../../../docs/internals/FORMAT.md#the-log) has the
//! tables.
//!
//! The seed makes a batch valid only in its own segment: remains of another file are never valid. A
//! **witness** is a batch that no caller waits for: it has no record, or only a `committed` record.
//!
//! The first batch of a segment, its **opening**, repeats everything that the log holds in addition
//! to its entries. Older segments can therefore be removed without losing any of it, and a log that
//! lost its first segments is distinguished from a log that purged them. The opening is synced
//! before the file receives its name: a named segment without an intact opening is corrupt.

use seqd_guards::is_out;

/// The only version.
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 64;
/// The bytes that a record adds to its content.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// Batches begin at multiples of this, so that a search need not try every byte.
pub(crate) const ALIGN: usize = 8;

/// The largest sequence of a batch. No log reaches it, and adding one to it does not overflow.
const MOST_SEQUENCE: u64 = 1 << 63;

const MAGIC: [u8; 8] = *b"seqd-wal";
pub(crate) const BATCH_HEADER_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
const HEADER_CRC_AT: usize = HEADER_BYTES - CRC_BYTES;

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    pub(crate) seed: u32,
    pub(crate) len: u64,
}

/// The reason why a segment header was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderFlaw {
    /// Too short, not a segment of seqd, or damaged.
    Bad(&'static str),
    /// Intact, but of a version that this program does not support.
    Newer(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.len.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderFlaw> {
        let Some(bytes) = bytes.get(..HEADER_BYTES) else {
            return Err(HeaderFlaw::Bad(
                "the file is too short for a segment header",
            ));
        };
        if bytes[0..8] != MAGIC {
            return Err(HeaderFlaw::Bad("the segment header has no magic number"));
        }
        if u32_at(bytes, HEADER_CRC_AT) != crc32c::crc32c(&bytes[..HEADER_CRC_AT])
            && !is_out!(HeaderChecksum)
        {
            return Err(HeaderFlaw::Bad(
                "the segment header does not match its checksum",
            ));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderFlaw::Newer(version));
        }
        Ok(Self {
            seed: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            len: u64_at(bytes, 24),
        })
    }
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Entry = 1,
    Vote = 2,
    Committed = 3,
    Truncate = 4,
    Purge = 5,
    Extent = 6,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Entry,
            Self::Vote,
            Self::Committed,
            Self::Truncate,
            Self::Purge,
            Self::Extent,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// A record inside a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordView<'a> {
    pub(crate) kind: Kind,
    pub(crate) index: u64,
    pub(crate) bytes: &'a [u8],
    /// The offset of `bytes` in the batch.
    pub(crate) at: usize,
}

/// A batch under construction. The buffer is reused for the next batch.
#[derive(Default)]
pub(crate) struct BatchBuffer {
    bytes: Vec<u8>,
}

impl BatchBuffer {
    /// A buffer that grew beyond this size is freed after its batch.
    const KEEP_BYTES: usize = 4 << 20;

    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > Self::KEEP_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.resize(BATCH_HEADER_BYTES, 0);
    }

    /// Adds a record. `bytes` must be shorter than 4 GiB; the callers limit it far below that.
    pub(crate) fn push(&mut self, kind: Kind, index: u64, bytes: &[u8]) {
        self.bytes.extend_from_slice(&[kind as u8, 0, 0, 0]);
        self.bytes
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&index.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn finished_len(&self) -> usize {
        (self.bytes.len() + CRC_BYTES).next_multiple_of(ALIGN)
    }

    /// Pads and seals the batch for one segment and one sequence. Call it once per batch.
    pub(crate) fn finish(&mut self, seed: u32, sequence: u64) -> &[u8] {
        let end = self.finished_len();
        self.bytes.resize(end - CRC_BYTES, 0);
        let body_len = (end - CRC_BYTES - BATCH_HEADER_BYTES) as u32;
        self.bytes[4..8].copy_from_slice(&body_len.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
        let header_crc = crc32c::crc32c_append(seed, &self.bytes[4..BATCH_HEADER_BYTES]);
        self.bytes[0..4].copy_from_slice(&header_crc.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &self.bytes);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// Returns the records of the finished batch.
    pub(crate) fn records(&self) -> impl Iterator<Item = RecordView<'_>> {
        BatchView {
            sequence: u64_at(&self.bytes, 8),
            bytes: &self.bytes,
        }
        .records()
        .flatten()
    }
}

/// An intact batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchView<'a> {
    pub(crate) sequence: u64,
    pub(crate) bytes: &'a [u8],
}

/// The reason why there is no intact batch at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchFlaw {
    /// The batch's header is not intact. Zeros are not an intact header either.
    Header,
    /// The batch's header is intact, so a batch with this sequence was written here, but its body
    /// is not intact.
    Body { sequence: u64 },
}

/// Returns the batch at the start of `data`.
pub(crate) fn batch_at(data: &[u8], seed: u32) -> Result<BatchView<'_>, BatchFlaw> {
    let (sequence, body_len) = batch_header_at(data, 0, seed).ok_or(BatchFlaw::Header)?;
    let crc_at = BATCH_HEADER_BYTES + body_len;
    let Some(bytes) = data.get(..crc_at + CRC_BYTES) else {
        return Err(BatchFlaw::Body { sequence });
    };
    if u32_at(data, crc_at) != crc32c::crc32c_append(seed, &data[..crc_at])
        && !is_out!(BatchChecksum)
    {
        return Err(BatchFlaw::Body { sequence });
    }
    Ok(BatchView { sequence, bytes })
}

/// Returns the length of the batch that begins with `header`, if the header is intact.
pub(crate) fn batch_end(header: &[u8], seed: u32) -> Option<usize> {
    let (_, body_len) = batch_header_at(header, 0, seed)?;
    Some(BATCH_HEADER_BYTES + body_len + CRC_BYTES)
}

fn batch_header_at(data: &[u8], at: usize, seed: u32) -> Option<(u64, usize)> {
    let header = data.get(at..at + BATCH_HEADER_BYTES)?;
    let sequence = u64_at(header, 8);
    // Sequence 0 is never written, so zeros are not a valid header, whatever the seed.
    if !(1..=MOST_SEQUENCE).contains(&sequence)
        || u32_at(header, 0) != crc32c::crc32c_append(seed, &header[4..])
    {
        return None;
    }
    Some((sequence, u32_at(header, 4) as usize))
}

/// Searches from `from` on for an intact batch header with a sequence above `last`.
///
/// A header is sufficient evidence: a batch is written only after the previous one was synced, so
/// even a torn batch proves that the previous ones were complete. It cannot come from the remains
/// of the torn batch `last + 1` either, because these follow the header of that batch.
pub(crate) fn later_batch(data: &[u8], from: usize, seed: u32, last: u64) -> Option<(usize, u64)> {
    let from = from.next_multiple_of(ALIGN);
    (from..data.len().saturating_sub(BATCH_HEADER_BYTES - 1))
        .step_by(ALIGN)
        .find_map(|at| {
            // Compared first because it is cheap and nearly always decides.
            if u64_at(data, at + 8) <= last {
                return None;
            }
            batch_header_at(data, at, seed).map(|(sequence, _)| (at, sequence))
        })
}

impl<'a> BatchView<'a> {
    /// Returns the records in order. An error is the last item.
    pub(crate) fn records(&self) -> Records<'a> {
        let end = self.bytes.len() - CRC_BYTES;
        Records {
            batch: &self.bytes[..end],
            at: BATCH_HEADER_BYTES,
        }
    }
}

/// See [`BatchView::records`].
pub(crate) struct Records<'a> {
    batch: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.batch[self.at..];
        if rest.len() < ALIGN && rest.iter().all(|byte| *byte == 0) {
            return None;
        }
        let start = self.at;
        // After an error there are no further items.
        self.at = self.batch.len();
        if rest.len() < RECORD_HEADER_BYTES {
            return Some(Err(format!(
                "{} bytes are too few for a record",
                rest.len()
            )));
        }
        let Some(kind) = Kind::from_byte(rest[0]) else {
            return Some(Err(format!("a record has the unknown kind {}", rest[0])));
        };
        let len = u32_at(rest, 4) as usize;
        let Some(bytes) = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + len) else {
            return Some(Err(format!(
                "a record of {len} bytes extends beyond its batch"
            )));
        };
        let at = start + RECORD_HEADER_BYTES;
        self.at = at + len;
        Some(Ok(RecordView {
            kind,
            index: u64_at(rest, 8),
            bytes,
            at,
        }))
    }
}

/// Returns the integer at `at`. The callers have checked that it lies within `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut buf = [0; 8];
    buf.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(buf)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut buf = [0; 4];
    buf.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u32 = 0x5eed_0001;

    fn batch(sequence: u64, records: &[(Kind, u64, &[u8])]) -> Vec<u8> {
        let mut buffer = BatchBuffer::default();
        buffer.clear();
        for (kind, index, bytes) in records {
            buffer.push(*kind, *index, bytes);
        }
        let len = buffer.finished_len();
        let bytes = buffer.finish(SEED, sequence).to_vec();
        assert_eq!(bytes.len(), len);
        assert_eq!(len % ALIGN, 0);
        bytes
    }

    #[test]
    fn the_bytes_of_version_1_never_change() {
        let header = SegmentHeader {
            number: 3,
            seed: SEED,
            len: 4096,
        }
        .encode();
        assert_eq!(
            hex(&header),
            "736571642d77616c010000000100ed5e03000000000000000010000000000000\
             00000000000000000000000000000000000000000000000000000000095683cc"
        );
        let bytes = batch(7, &[(Kind::Entry, 9, b"abc"), (Kind::Truncate, 4, b"")]);
        assert_eq!(
            hex(&bytes),
            "4b254ecf240000000700000000000000010000000300000009000000\
             0000000061626304000000000000000400000000000000007fc5a894"
        );
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_batch_is_read_back() {
        let written: [(Kind, u64, &[u8]); 4] = [
            (Kind::Extent, 5, &9u64.to_le_bytes()),
            (Kind::Vote, 0, b"vote"),
            (Kind::Entry, 9, b""),
            (Kind::Purge, 3, b"meta"),
        ];
        let bytes = batch(11, &written);
        let view = batch_at(&bytes, SEED).unwrap();
        assert_eq!(view.sequence, 11);
        let read: Vec<_> = view.records().map(|r| r.unwrap()).collect();
        assert_eq!(read.len(), written.len());
        for (record, (kind, index, payload)) in read.iter().zip(written) {
            assert_eq!(
                (record.kind, record.index, record.bytes),
                (kind, index, payload)
            );
            assert_eq!(&bytes[record.at..record.at + payload.len()], payload);
        }
    }

    #[test]
    fn a_batch_without_records_is_a_batch() {
        let bytes = batch(1, &[]);
        assert_eq!(bytes.len(), 24);
        assert_eq!(batch_at(&bytes, SEED).unwrap().records().count(), 0);
    }

    #[test]
    fn every_flipped_bit_of_a_batch_shows() {
        let bytes = batch(2, &[(Kind::Entry, 1, b"some bytes"), (Kind::Vote, 0, b"v")]);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(batch_at(&bad, SEED).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_batch_of_another_segment_is_not_accepted() {
        let bytes = batch(2, &[(Kind::Entry, 1, b"some bytes")]);
        assert_eq!(batch_at(&bytes, SEED + 1), Err(BatchFlaw::Header));
    }

    #[test]
    fn zeroes_are_no_batch_under_any_seed() {
        let zeroes = [0; 64];
        for seed in (0..=u32::MAX).step_by(65_537) {
            assert_eq!(batch_at(&zeroes, seed), Err(BatchFlaw::Header));
        }
    }

    #[test]
    fn a_later_header_is_found_even_when_its_body_is_torn() {
        let mut data = vec![0xa5; 200];
        let mut later = batch(9, &[(Kind::Entry, 1, b"0123456789")]);
        let end = later.len() - 1;
        later[end] ^= 1;
        data[80..80 + later.len()].copy_from_slice(&later);
        assert_eq!(later_batch(&data, 8, SEED, 8), Some((80, 9)));
        assert_eq!(later_batch(&data, 8, SEED, 9), None);
        assert_eq!(later_batch(&data, 88, SEED, 8), None);
    }

    #[test]
    fn a_header_is_newer_only_if_it_is_intact() {
        let mut bytes = SegmentHeader {
            number: 1,
            seed: 2,
            len: 3,
        }
        .encode();
        bytes[8] = 2;
        assert!(matches!(
            SegmentHeader::decode(&bytes),
            Err(HeaderFlaw::Bad(_))
        ));
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFlaw::Newer(2)));
    }
}
