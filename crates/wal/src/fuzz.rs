//! A fuzz target that accepts any bytes: opens a folder of segments. `docs/internals/FUZZING.md`
//! describes it.
//!
//! The target panics when a guarantee is violated. The test below runs the stored inputs of
//! `tests/fuzz/corpus`, so that these are checked without a fuzzer too.

use std::sync::Arc;
use std::time::Duration;

use seqd_disk::simulated::SimulatedDisk;

use crate::format::{BatchBuffer, HEADER_BYTES, Kind, SegmentHeader};
use crate::{Record, Recovered, Wal, WalError, WalOptions, inspect};

const DIR: &str = "/data/wal";

/// The largest length in the header of a segment, because an open zero-fills up to it.
const MOST_SEGMENT_BYTES: u64 = 16 << 10;

/// The largest number of segments of one input.
const MOST_SEGMENTS: u32 = 8;

/// Reads numbers and bytes from an input. Missing bytes are 0.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    fn short(&mut self) -> u64 {
        u64::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// Reads an index near 0 or near the largest one.
    fn index(&mut self) -> u64 {
        let near = self.short();
        if near < 0xff00 {
            near
        } else {
            u64::MAX - (near & 0xff)
        }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// A segment under construction.
struct Written {
    number: u32,
    seed: u32,
    bytes: Vec<u8>,
    batch: BatchBuffer,
    has_records: bool,
}

impl Written {
    fn new(number: u32, input: &mut Input<'_>) -> Self {
        let (seed, len) = (u32::from(input.byte()) * 0x0101_0101, input.short());
        let header = SegmentHeader {
            number: number.into(),
            seed,
            len: len % MOST_SEGMENT_BYTES,
        };
        let mut batch = BatchBuffer::default();
        batch.clear();
        Self {
            number,
            seed,
            bytes: header.encode().to_vec(),
            batch,
            has_records: false,
        }
    }

    fn record(&mut self, kind: Kind, index: u64, bytes: &[u8]) {
        self.batch.push(kind, index, bytes);
        self.has_records = true;
    }

    fn finish(&mut self, sequence: u64) {
        let bytes = self.batch.finish(self.seed, sequence);
        self.bytes.extend_from_slice(bytes);
        self.batch.clear();
        self.has_records = false;
    }

    fn put(mut self, disk: &SimulatedDisk, sequence: u64) {
        if self.has_records {
            self.finish(sequence);
        }
        disk.put(format!("{DIR}/{:010}.seg", self.number), &self.bytes);
    }
}

/// Writes the segments of a script and adds the checksums, which a fuzzer cannot guess. Each step
/// is a byte that selects the action, followed by its arguments.
fn write(disk: &SimulatedDisk, mut input: Input<'_>) {
    let (mut number, mut sequence) = (1, 0_u64);
    let mut segment = Written::new(number, &mut input);
    let (mut first, mut next) = (0_u64, 0_u64);
    while !input.0.is_empty() {
        let what = input.byte();
        match what % 16 {
            0..=2 => {
                segment.record(Kind::Entry, next, input.bytes());
                next = next.wrapping_add(1);
            }
            3 => {
                next = input.index();
                segment.record(Kind::Entry, next, input.bytes());
                next = next.wrapping_add(1);
            }
            4 => segment.record(Kind::Vote, 0, input.bytes()),
            5 => segment.record(Kind::Committed, 0, input.bytes()),
            6 => {
                next = input.index();
                segment.record(Kind::Truncate, next, &[]);
            }
            7 => {
                let upto = input.index();
                first = upto.wrapping_add(1);
                next = next.max(first);
                segment.record(Kind::Purge, upto, input.bytes());
            }
            8 => segment.record(Kind::Extent, first, &next.to_le_bytes()),
            9 => {
                let end = input.index().to_le_bytes();
                segment.record(Kind::Extent, input.index(), &end);
            }
            10 | 11 => {
                sequence = sequence.wrapping_add(1);
                segment.finish(sequence);
            }
            12 => {
                sequence = sequence.wrapping_add(input.index());
                segment.finish(sequence);
            }
            13 => {
                let at = input.short() as usize % segment.bytes.len().max(1);
                if let Some(byte) = segment.bytes.get_mut(at) {
                    *byte ^= input.byte();
                }
            }
            14 => {
                let left = segment.bytes.len();
                let left = left.saturating_sub(usize::from(input.byte()));
                segment.bytes.truncate(left);
            }
            _ if number < MOST_SEGMENTS => {
                number += 1 + u32::from(what >> 6);
                let next = Written::new(number, &mut input);
                sequence = sequence.wrapping_add(u64::from(segment.has_records));
                std::mem::replace(&mut segment, next).put(disk, sequence);
            }
            _ => segment.bytes.extend_from_slice(input.bytes()),
        }
    }
    segment.put(disk, sequence.wrapping_add(1));
}

fn options(disk: &SimulatedDisk) -> WalOptions {
    WalOptions {
        segment_bytes: 4096,
        disk: Arc::new(disk.clone()),
        clock: Arc::new(|| Duration::ZERO),
        segment_seeds: Arc::new(|| Ok(7)),
        ..WalOptions::new(DIR)
    }
}

/// Opens the log, reads it in full, and closes it.
fn opened(disk: &SimulatedDisk) -> Result<(Recovered, Vec<Record>), WalError> {
    let (wal, recovered, _pump) = Wal::open_manual(options(disk))?;
    let entries = read(&wal, &recovered);
    closed(&wal);
    Ok((recovered, entries))
}

fn read(wal: &Wal, recovered: &Recovered) -> Vec<Record> {
    let entries = match wal.read(0..u64::MAX, usize::MAX) {
        Ok(entries) => entries,
        Err(error) => panic!("entries that an open found cannot be read: {error}"),
    };
    let last = entries.last().map(|last| (last.index, last.bytes.clone()));
    assert_eq!(last, recovered.last);
    let indexes = entries.iter().map(|entry| entry.index);
    assert!(indexes.eq(recovered.first_index..recovered.first_index + entries.len() as u64));
    entries
}

fn closed(wal: &Wal) {
    if let Err(error) = wal.close() {
        panic!("a log that was opened cannot be closed: {error}");
    }
}

/// A folder with segments. The first byte selects whether the rest is a script (see `write`) or the
/// bytes of one segment.
///
/// An inspection finds the same as an open. A rejected log has an error message, the same one on a
/// second open, and nothing was changed. The result of a successful open is durable, and the log
/// accepts entries after it.
pub fn wal_open(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let disk = SimulatedDisk::holding(DIR);
    if how & 1 == 0 {
        write(&disk, Input(rest));
    } else {
        let mut bytes = rest.to_vec();
        // The length in the header, which an open zero-fills.
        if bytes.len() >= HEADER_BYTES {
            bytes[26..32].fill(0);
        }
        disk.put(format!("{DIR}/0000000001.seg"), &bytes);
    }
    let before = disk.fingerprint();
    let found = match inspect(&disk, DIR.as_ref()) {
        Ok(found) => found,
        Err(error) => panic!("a folder cannot be inspected: {error}"),
    };
    assert_eq!(
        disk.fingerprint(),
        before,
        "an inspection changed something"
    );
    let (recovered, entries) = match opened(&disk) {
        Ok(opened) => opened,
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains(DIR) && words.len() < 1024, "{words}");
            assert!(!matches!(error, WalError::Io { .. }), "{words}");
            let damage = found.damage.map(|damage| damage.to_string());
            assert_eq!(damage.as_ref(), Some(&words));
            let again = opened(&disk).err().map(|error| error.to_string());
            assert_eq!(again, Some(words));
            return;
        }
    };
    assert!(found.damage.is_none(), "{:?}", found.damage);
    assert_eq!(
        (&found.vote, &found.committed),
        (&recovered.vote, &recovered.committed)
    );
    assert_eq!(
        (&found.purged, &found.torn),
        (&recovered.purged, &recovered.torn)
    );
    for entry in &entries {
        let inspected = found.entry(entry.index).ok().flatten();
        assert_eq!(inspected.as_ref(), Some(&entry.bytes));
    }
    let reported = Recovered {
        torn: None,
        ..recovered
    };
    for left in [disk.lost(), disk.killed()] {
        match opened(&left) {
            Ok((again, read)) => {
                assert_eq!(again, reported);
                assert_eq!(read, entries);
            }
            Err(error) => panic!("what was opened is refused: {error}"),
        }
    }
    goes_on(&disk, &reported);
}

/// Checks that an appended entry survives a power cut.
fn goes_on(disk: &SimulatedDisk, reported: &Recovered) {
    let Ok((wal, ..)) = Wal::open_manual(options(disk)) else {
        panic!("what was opened is refused");
    };
    let index = wal.next_index();
    if index == u64::MAX {
        return;
    }
    let bytes = b"one more".to_vec();
    let one = Record {
        index,
        bytes: bytes.clone(),
    };
    wal.append(
        vec![one],
        Box::new(|result| assert!(result.is_ok(), "{result:?}")),
    );
    closed(&wal);
    match opened(&disk.lost()) {
        Ok((after, _)) => {
            assert_eq!(after.last, Some((index, bytes)));
            assert_eq!(
                (&after.vote, &after.purged),
                (&reported.vote, &reported.purged)
            );
        }
        Err(error) => panic!("what was written is refused: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    /// The first byte of a segment's seed, and the length in its header.
    const SEGMENT: [u8; 3] = [9, 0, 16];
    const OPENING: [u8; 4] = [8, 10, 8, 10];

    fn script(steps: &[&[u8]]) -> Vec<u8> {
        [&[0][..], &SEGMENT, &steps.concat()].concat()
    }

    /// Returns the first segment of a log that was written in the same way as by a node.
    fn real_segment() -> Vec<u8> {
        let disk = SimulatedDisk::holding(DIR);
        let options = WalOptions {
            segment_bytes: 1024,
            ..options(&disk)
        };
        let (wal, _, pump) = Wal::open_manual(options).unwrap();
        wal.save_vote(b"vote".to_vec(), Box::new(Result::unwrap));
        for index in 0..4 {
            let bytes = vec![index as u8; 20];
            wal.append(vec![Record { index, bytes }], Box::new(Result::unwrap));
            pump.run();
        }
        wal.close().unwrap();
        disk.contents(format!("{DIR}/0000000001.seg")).unwrap()
    }

    #[test]
    fn kept_folders_are_opened_or_refused_with_words() {
        let entry: &[u8] = &[0, 3, b'a', b'b', b'c'];
        let inputs = [
            script(&[&OPENING]),
            script(&[&OPENING, entry, entry, &[10], entry, &[4, 1, b'v', 10]]),
            script(&[
                &OPENING,
                entry,
                &[10, 7, 0, 0, 1, b'p', 5, 1, b'c', 10],
                entry,
                &[10],
            ]),
            script(&[
                &OPENING,
                entry,
                entry,
                entry,
                &[10, 6, 1, 0, 10],
                entry,
                &[10],
            ]),
            // Three batches of which the second is damaged, then the last.
            script(&[
                &OPENING,
                entry,
                &[10],
                entry,
                &[10],
                entry,
                &[10, 13, 120, 0, 1],
            ]),
            script(&[&OPENING, entry, &[10], entry, &[10, 14, 3]]),
            // A second segment, and one after a gap.
            script(&[
                &OPENING,
                entry,
                &[10, 15],
                &SEGMENT,
                &OPENING[..2],
                entry,
                &[10],
            ]),
            script(&[
                &OPENING,
                entry,
                &[10, 15 + 64],
                &SEGMENT,
                &OPENING[..2],
                entry,
                &[10],
            ]),
            script(&[&OPENING, &[3, 0xfe, 0xff, 1, b'z', 10]]),
            script(&[&OPENING, &[7, 0xff, 0xff, 0, 10]]),
            [&[1][..], &real_segment()].concat(),
        ];
        replay("wal_open", &seeds(inputs), wal_open);
    }
}
