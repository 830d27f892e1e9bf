//! What tests of several crates do with a folder.

use std::fs;
use std::path::Path;

/// Copies a folder, the log last: a checkpoint that is ahead of the log is another story.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names: Vec<_> = fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    for name in names {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy(&source, &target);
        } else if let Err(error) = fs::copy(&source, &target) {
            // A running node replaces its small files.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name:?}");
        }
    }
}

/// A snapshot's bytes as a newer program might have written them: the version of its header is
/// higher, and the header's checksum right.
pub fn of_a_newer_program(snapshot: &[u8]) -> Vec<u8> {
    let mut bytes = snapshot.to_vec();
    let length = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
    bytes[14] += 1;
    let crc = crc32c::crc32c(&bytes[..13 + length]);
    bytes[13 + length..17 + length].copy_from_slice(&crc.to_le_bytes());
    bytes
}
