//! The folder of snapshots: lists, verifies, sets aside and removes them.

use std::io;
use std::path::{Path, PathBuf};

use seqd_disk::{Disk, sibling};

use super::reader::{summary, verify};
use super::{SnapshotFile, file_name, invalid};
use crate::disk_errors::is_of_the_machine;

/// The number of snapshots to keep: the newest, and the previous one in case the newest becomes
/// unreadable.
const KEPT: usize = 2;

/// The number of bad snapshots kept for inspection.
const KEPT_BAD: usize = 2;

/// The suffix of the name of a bad snapshot.
const BAD: &str = ".bad";

/// The content of the folder at a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The snapshots that are readable and have only valid checksums, newest first.
    pub valid: Vec<SnapshotFile>,
    /// The other snapshots, each with the reason. Pass them to [`set_aside`].
    pub bad: Vec<Bad>,
    /// The index and term of the snapshots that were set aside earlier.
    pub aside: Vec<(u64, u64)>,
}

impl Recovered {
    /// Returns whether a snapshot with this index and term has ever had its final name here, as far
    /// as the remaining files show.
    pub fn has_had(&self, of: (u64, u64)) -> bool {
        self.valid.iter().any(|file| (file.index, file.term) == of)
            || self.bad.iter().any(|bad| bad.of == of)
            || self.aside.contains(&of)
    }
}

/// A snapshot that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The index and term in the name of the file.
    pub of: (u64, u64),
    pub path: PathBuf,
    pub why: String,
}

/// Cleans the folder at a start and reads every snapshot in full.
///
/// The remains of interrupted writes and transfers are removed. Bad snapshots, including unreadable
/// ones, stay where they are, because this function cannot determine whether the node can start
/// without them. It must not be called later: a file that is being written has the name of a
/// leftover.
///
/// # Errors
/// An error of the disk or of the machine, or [`io::ErrorKind::Unsupported`] if a newer program
/// wrote a snapshot; such a file is left unchanged.
pub fn recover(disk: &dyn Disk, dir: &Path, cluster_id: &str) -> io::Result<Recovered> {
    let leftovers = disk
        .list(dir)?
        .into_iter()
        .filter(|name| name.ends_with(".tmp"));
    remove_all(disk, dir, leftovers)?;

    let mut found = Recovered {
        aside: set_aside_before(disk, dir)?,
        ..Recovered::default()
    };
    for (index, term) in by_name(disk, dir)? {
        let path = dir.join(file_name(index, term));
        let checked = verify(disk, &path).and_then(|file| check(file, index, term, cluster_id));
        match checked {
            Ok(file) => found.valid.push(file),
            Err(error) => found.bad.push(Bad::of_file((index, term), path, error)?),
        }
    }
    Ok(found)
}

/// Reads a kept snapshot again in full and checks whether it has become bad. A missing file is not
/// bad.
pub fn find_bad(disk: &dyn Disk, kept: &SnapshotFile) -> io::Result<Option<Bad>> {
    let (index, term) = (kept.index, kept.term);
    let checked = verify(disk, &kept.path);
    match checked.and_then(|file| check(file, index, term, &kept.cluster_id)) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Bad::of_file((index, term), kept.path.clone(), error).map(Some),
    }
}

impl Bad {
    /// Creates an entry for a snapshot that an error makes unusable. Returns the error itself if
    /// the machine causes it.
    fn of_file(of: (u64, u64), path: PathBuf, error: io::Error) -> io::Result<Self> {
        if is_of_the_machine(&error) {
            return Err(error);
        }
        let why = error.to_string();
        Ok(Self { of, path, why })
    }
}

/// Renames bad snapshots to `.snap.bad`, so that they count neither as the newest nor as kept, and
/// logs this.
pub fn set_aside(disk: &dyn Disk, dir: &Path, bad: &[Bad]) -> io::Result<()> {
    for Bad { path, why, .. } in bad {
        let aside = sibling(path, BAD);
        disk.rename(path, &aside)?;
        tracing::warn!(path = %aside.display(), %why, "a snapshot is damaged and was set aside");
    }
    if bad.is_empty() {
        return Ok(());
    }
    disk.sync_dir(dir)?;
    drop_bad(disk, dir)
}

/// Lists the snapshots in `dir`, newest first, as described by their headers and footers.
///
/// Their blocks are not read, since they were verified when they were written, received or
/// recovered. A file whose header or footer is damaged or unreadable is omitted.
pub fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<SnapshotFile>> {
    let mut listed = Vec::new();
    for summary in summaries(disk, dir)? {
        match summary {
            Ok(file) => listed.push(file),
            // The file was removed after its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "a snapshot cannot be used"),
        }
    }
    Ok(listed)
}

/// Returns whether `dir` has a snapshot, readable or not.
pub fn is_any(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(!by_name(disk, dir)?.is_empty())
}

/// Checks whether headers and footers are readable. Fails like [`recover`], but does not read the
/// blocks.
pub fn check_readable(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    summaries(disk, dir).map(drop)
}

/// Returns the summary of each snapshot in `dir`, newest first, or its error.
fn summaries(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<io::Result<SnapshotFile>>> {
    let mut summaries = Vec::new();
    for (index, term) in by_name(disk, dir)? {
        match summary(disk, &dir.join(file_name(index, term))) {
            Err(error) if is_of_the_machine(&error) => return Err(error),
            other => summaries.push(other),
        }
    }
    Ok(summaries)
}

/// Removes all but the two newest snapshots.
pub fn keep_two(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    keep(disk, dir, KEPT)
}

/// Removes all but the newest snapshot, because a full disk needs the space for the next one.
pub fn keep_newest(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    keep(disk, dir, 1)
}

fn keep(disk: &dyn Disk, dir: &Path, count: usize) -> io::Result<()> {
    let dropped = by_name(disk, dir)?.into_iter().skip(count);
    let names = dropped.map(|(index, term)| file_name(index, term));
    remove_all(disk, dir, names)
}

/// Removes all snapshots below `index`, which an installed snapshot makes obsolete.
pub fn void_older(disk: &dyn Disk, dir: &Path, index: u64) -> io::Result<()> {
    let older = by_name(disk, dir)?
        .into_iter()
        .filter(|(of, _)| *of < index);
    let names = older.map(|(index, term)| file_name(index, term));
    remove_all(disk, dir, names)
}

fn check(file: SnapshotFile, index: u64, term: u64, cluster_id: &str) -> io::Result<SnapshotFile> {
    if (file.index, file.term) != (index, term) {
        let other = format!("it is of index {}, term {}", file.index, file.term);
        return Err(invalid(&file.path, other));
    }
    if file.cluster_id != cluster_id {
        let other = format!("it belongs to cluster {:?}", file.cluster_id);
        return Err(invalid(&file.path, other));
    }
    Ok(file)
}

/// Returns the index and term of all snapshots by their names, newest first.
fn by_name(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut named: Vec<_> = disk
        .list(dir)?
        .iter()
        .filter_map(|name| parse(name))
        .collect();
    named.sort_unstable_by(|one, other| other.cmp(one));
    Ok(named)
}

/// Returns the index and term of the bad snapshots that were set aside.
fn set_aside_before(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let names = disk.list(dir)?;
    let named = names
        .iter()
        .filter_map(|name| parse(name.strip_suffix(BAD)?));
    Ok(named.collect())
}

fn drop_bad(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let mut bad = set_aside_before(disk, dir)?;
    bad.sort_unstable_by(|one, other| other.cmp(one));
    let dropped = bad.into_iter().skip(KEPT_BAD);
    let names = dropped.map(|(index, term)| file_name(index, term) + BAD);
    remove_all(disk, dir, names)
}

fn parse(name: &str) -> Option<(u64, u64)> {
    let (index, term) = name.strip_suffix(".snap")?.split_once('-')?;
    let (index, term) = (index.parse().ok()?, term.parse().ok()?);
    (file_name(index, term) == name).then_some((index, term))
}

fn remove_all(disk: &dyn Disk, dir: &Path, names: impl Iterator<Item = String>) -> io::Result<()> {
    let mut removed = false;
    for name in names {
        disk.remove(&dir.join(name))?;
        removed = true;
    }
    if removed { disk.sync_dir(dir) } else { Ok(()) }
}
