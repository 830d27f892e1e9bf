//! Reads entries: from the queue while they are not durable, otherwise from their segment.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::index::EntrySlot;
use crate::queue::{Bytes, Record, Shared};
use crate::segment::SegmentNumber;
use seqd_disk::DiskFile;

/// Neighboring entries are fetched together up to this size: a long read needs few calls, and no
/// large buffer in addition to its result.
const FETCH_BYTES: u64 = 1 << 20;

/// The source of the bytes of one entry.
enum EntrySource {
    Memory(Bytes),
    Disk(SegmentNumber, Arc<dyn DiskFile>, EntrySlot),
}

/// Returns the entries that exist in `range`, in order, beginning with the first: at most
/// `max_bytes`, but at least one entry.
pub(crate) fn read(
    shared: &Shared,
    range: Range<u64>,
    max_bytes: usize,
) -> io::Result<Vec<Record>> {
    // Chosen under the lock and fetched outside it: an open file stays readable after it is
    // removed.
    let chosen = choose(shared, range, max_bytes)?;
    let mut records = Vec::with_capacity(chosen.len());
    let mut rest = chosen.as_slice();
    while let Some((index, source)) = rest.first() {
        match source {
            EntrySource::Memory(bytes) => {
                records.push(Record {
                    index: *index,
                    bytes: bytes.to_vec(),
                });
                rest = &rest[1..];
            }
            EntrySource::Disk(number, file, first) => {
                let run = run_length(rest, *number, first);
                fetch(&**file, &rest[..run], &mut records)?;
                rest = &rest[run..];
            }
        }
    }
    Ok(records)
}

fn choose(
    shared: &Shared,
    range: Range<u64>,
    max_bytes: usize,
) -> io::Result<Vec<(u64, EntrySource)>> {
    let state = shared.lock();
    let mut chosen = Vec::new();
    let mut total = 0;
    for index in range.start.max(state.index.first())..range.end.min(state.index.next()) {
        let Some(slot) = state.index.get(index) else {
            break;
        };
        let source = match slot.segment {
            None => match state.unwritten.get(&index) {
                Some((_, bytes)) => EntrySource::Memory(Arc::clone(bytes)),
                None => return Err(lost(index, "it is in neither the queue nor a segment")),
            },
            Some(number) => match state.files.get(&number) {
                Some(file) => EntrySource::Disk(number, Arc::clone(file), slot),
                None => return Err(lost(index, "its segment no longer exists")),
            },
        };
        total += match &source {
            EntrySource::Memory(bytes) => bytes.len(),
            EntrySource::Disk(_, _, slot) => slot.len as usize,
        };
        if total > max_bytes && !chosen.is_empty() {
            break;
        }
        chosen.push((index, source));
    }
    Ok(chosen)
}

/// Returns how many entries of `rest` are close enough to `first` for one fetch, at least one.
fn run_length(rest: &[(u64, EntrySource)], number: SegmentNumber, first: &EntrySlot) -> usize {
    let near = |source: &EntrySource| match source {
        EntrySource::Disk(other, _, slot) => {
            let end = u64::from(slot.offset) + u64::from(slot.len);
            *other == number && end - u64::from(first.offset) <= FETCH_BYTES
        }
        EntrySource::Memory(_) => false,
    };
    rest.iter()
        .take_while(|(_, source)| near(source))
        .count()
        .max(1)
}

fn fetch(
    file: &dyn DiskFile,
    run: &[(u64, EntrySource)],
    records: &mut Vec<Record>,
) -> io::Result<()> {
    let slots = || {
        run.iter().filter_map(|(index, source)| match source {
            EntrySource::Disk(_, _, slot) => Some((*index, slot)),
            EntrySource::Memory(_) => None,
        })
    };
    let start = slots().next().map_or(0, |(_, slot)| slot.offset as usize);
    let end = slots()
        .next_back()
        .map_or(0, |(_, slot)| slot.offset as usize + slot.len as usize);
    let mut buf = vec![0; end - start];
    file.read_at(&mut buf, start as u64)?;
    for (index, slot) in slots() {
        let at = slot.offset as usize - start;
        let bytes = buf[at..at + slot.len as usize].to_vec();
        check(&bytes, slot).map_err(|why| lost(index, why))?;
        records.push(Record { index, bytes });
    }
    Ok(())
}

pub(crate) fn read_slot(file: &dyn DiskFile, slot: &EntrySlot) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; slot.len as usize];
    file.read_at(&mut bytes, slot.offset.into())?;
    check(&bytes, slot).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(bytes)
}

fn check(bytes: &[u8], slot: &EntrySlot) -> Result<(), &'static str> {
    if crc32c::crc32c(bytes) == slot.crc {
        Ok(())
    } else {
        Err("its bytes on disk differ from the written bytes")
    }
}

fn lost(index: u64, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("entry {index} of the log: {why}"),
    )
}
