//! The byte format of one checkpoint: its record, then each changed row.
//!
//! ```text
//! batch = record  row*
//! row   = key  ( 1 value | 0 )          each of these, and the record, after its length as u32
//! ```

use std::io;

use super::record::{seal, unseal};
use super::{Change, Checkpoint};

pub fn encode(changes: &[Change], applied: &Checkpoint) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    put(&mut bytes, &[&seal(applied)?]);
    for (key, value) in changes {
        put(&mut bytes, &[key]);
        match value {
            Some(value) => put(&mut bytes, &[&[1], value]),
            None => put(&mut bytes, &[&[0]]),
        }
    }
    Ok(bytes)
}

/// Decodes the result of [`encode`] and passes each row to `visit`.
pub fn decode(
    mut rest: &[u8],
    visit: &mut dyn FnMut(Vec<u8>, Option<Vec<u8>>),
) -> io::Result<Checkpoint> {
    let record = take(&mut rest)?;
    while !rest.is_empty() {
        let key = take(&mut rest)?.to_vec();
        match take(&mut rest)?.split_first() {
            Some((1, value)) => visit(key, Some(value.to_vec())),
            _ => visit(key, None),
        }
    }
    unseal(record)
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // A row has at most 1 MiB.
    out.extend_from_slice(&(length as u32).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn take<'a>(rest: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let taken = rest.split_first_chunk::<4>().and_then(|(length, behind)| {
        behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
    });
    let (bytes, behind) = taken
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a batch that ends too early"))?;
    *rest = behind;
    Ok(bytes)
}
