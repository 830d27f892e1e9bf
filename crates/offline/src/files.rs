//! Reads the files of a data folder through a disk that cannot write.

use std::io;
use std::path::Path;

use seqd_disk::{Disk, OsDisk, ReadOnly, read_file};
use seqd_state::codec::Versioned;
use seqd_store::folder::read_checked;

/// The largest size of `format` in bytes.
const MAX_FORMAT_BYTES: usize = 256 << 10;

/// The problem of a folder without a format.
pub(super) const NO_FORMAT: &str =
    "it is missing: this is not a data folder of seqd, or part of it was deleted";

pub(super) const DISK: ReadOnly<OsDisk> = ReadOnly(OsDisk);

/// Returns the first line of `format`.
pub(super) fn format_of(root: &Path) -> io::Result<Option<String>> {
    let bytes = read_file(&DISK, &root.join("format"), MAX_FORMAT_BYTES);
    Ok(bytes?.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}

/// Reads a small file that ends in its checksum.
pub(super) fn small_file<T: Versioned>(root: &Path, name: &str) -> io::Result<Option<T>> {
    read_checked(&DISK, &root.join(name))
}

/// Returns the names in a folder in order. The result is empty if the folder does not exist.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names = DISK.list(folder).unwrap_or_default();
    names.sort_unstable();
    names
}

/// Returns a path relative to the data folder.
pub(super) fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}
