//! Determines the current checkpoint folder, and replaces, sets aside or removes the others.
//!
//! A folder `state-<generation>` is built completely before `CURRENT` names it, and generation
//! numbers only rise. After a crash, `CURRENT` names either the old folder or the new one. An
//! unusable folder is renamed to `state-bad` for inspection; an earlier `state-bad` is removed.
//!
//! sled can hang or panic on a damaged folder, so an open runs on a separate thread with a
//! deadline. A thread that hangs is abandoned: its folder has been renamed by then, and no later
//! generation reuses its name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use seqd_disk::{Disk, Kind, read_file, replace_file};

use super::record::Format;
use super::sled_store::guarded;
use super::take_rows::take_all;
use super::{Between, Checkpoint, Place, Row, StateStore, TakeRows};
use crate::disk_errors::is_of_the_machine;

/// The deadline of an open. A checkpoint of two million rows takes a few seconds if it is in the
/// page cache.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The last folder that was set aside.
const BAD: &str = "state-bad";

const CURRENT: &str = "CURRENT";
const CURRENT_TMP: &str = "CURRENT.tmp";

/// More than any name and its checksum need.
const MAX_CURRENT_BYTES: usize = 4096;

/// The result of opening the checkpoint of a data folder.
#[derive(Debug)]
pub enum Opened<R> {
    /// A checkpoint whose rows match its record. It may be older than the end of the log. The
    /// caller compares its index with the entries that the log still holds.
    Good {
        /// The store, ready for the next checkpoint.
        store: Box<dyn StateStore>,
        /// The loaded rows.
        rows: R,
        /// The checkpoint's own record.
        applied: Checkpoint,
    },
    /// A folder without a checkpoint, created by this or by an earlier start.
    Empty {
        /// The store, ready for the first checkpoint.
        store: Box<dyn StateStore>,
    },
    /// No usable checkpoint. The caller must build the next generation.
    SetAside {
        /// The reason.
        why: String,
        /// The new path of the folder. `None` if there was no folder.
        moved_to: Option<PathBuf>,
    },
}

/// The reason why a new generation could not be created.
#[derive(Debug)]
pub enum NotMade {
    /// The current generation is unchanged, and nothing of the new one remains.
    Unchanged(io::Error),
    /// `CURRENT` may name the new generation. The old one must not be written any more.
    MaybeReplaced(io::Error),
}

impl From<NotMade> for io::Error {
    fn from(not_made: NotMade) -> Self {
        match not_made {
            NotMade::Unchanged(error) | NotMade::MaybeReplaced(error) => error,
        }
    }
}

/// Opens and fully verifies the checkpoint of a node. Never panics.
///
/// A node `is_new` if it cannot have applied anything yet. For such a node no checkpoint is
/// expected, and an empty one is created. For any other node, a missing checkpoint is reported as
/// lost.
///
/// # Errors
/// Only errors that a new generation would not solve: a full or read-only disk, a missing
/// permission, too many open files, or a checkpoint of a newer program
/// ([`io::ErrorKind::Unsupported`]).
pub fn open<R: TakeRows>(place: &Place, is_new: bool) -> io::Result<Opened<R>> {
    open_within(place, is_new, OPEN_DEADLINE)
}

/// Like [`open`], with another deadline.
pub(super) fn open_within<R: TakeRows>(
    place: &Place,
    is_new: bool,
    deadline: Duration,
) -> io::Result<Opened<R>> {
    let (disk, data_dir) = (&*place.disk, &*place.data_dir);
    let generation = match read_current(disk, data_dir)? {
        Current::Missing if is_new => {
            let store = create_empty(place)?;
            return Ok(Opened::Empty { store });
        }
        Current::Missing => {
            return set_newest_aside(disk, data_dir, "CURRENT is missing".to_owned());
        }
        Current::Malformed => {
            return set_newest_aside(disk, data_dir, "CURRENT is malformed".to_owned());
        }
        Current::Generation(generation) => generation,
    };
    let folder = data_dir.join(folder_name(generation));
    if disk.kind(&folder)? != Some(Kind::Folder) {
        let why = format!("{} is missing", folder_name(generation));
        return Ok(Opened::SetAside {
            why,
            moved_to: None,
        });
    }
    match load_on_thread(place, generation, deadline) {
        Ok(LoadedStore { store, rows }) => {
            // The process may have been killed before the directory entry of `CURRENT` was synced.
            // The other generations may be removed only after that.
            disk.sync_dir(data_dir)?;
            drop_generations(disk, data_dir, Some(generation))?;
            Ok(match store.applied() {
                Some(applied) => Opened::Good {
                    store,
                    rows,
                    applied,
                },
                None => Opened::Empty { store },
            })
        }
        Err(error) if is_of_the_machine(&error) => Err(error),
        Err(error) => {
            let moved_to = set_aside(disk, data_dir, generation)?;
            Ok(Opened::SetAside {
                why: error.to_string(),
                moved_to: Some(moved_to),
            })
        }
    }
}

/// Creates the next generation without rows and makes it current.
pub fn create_empty(place: &Place) -> io::Result<Box<dyn StateStore>> {
    let (store, generation) = build(place, |_| Ok(()))?;
    Ok(make_current(place, store, generation)?)
}

/// Builds the next generation from `rows` and makes it current. Older generations are removed.
///
/// Nothing changes until `CURRENT` is renamed: an earlier error leaves the old generation
/// unchanged. A store of an older generation may still be open. It must be dropped and not written.
///
/// # Errors
/// An error of `rows`, [`io::ErrorKind::InvalidData`] if the rows do not match `applied`, or an
/// error of the disk.
pub fn create_generation(
    place: &Place,
    rows: impl Iterator<Item = io::Result<Row>>,
    applied: &Checkpoint,
) -> io::Result<Box<dyn StateStore>> {
    Ok(rebuild_generation(place, rows, applied, &mut || Ok(()))?)
}

/// Like [`create_generation`], but calls `between` regularly so that other work can proceed.
pub fn rebuild_generation(
    place: &Place,
    mut rows: impl Iterator<Item = io::Result<Row>>,
    applied: &Checkpoint,
    between: &mut Between<'_>,
) -> Result<Box<dyn StateStore>, NotMade> {
    let built = build(place, |store| store.fill(&mut rows, applied, between));
    let (store, generation) = built.map_err(NotMade::Unchanged)?;
    make_current(place, store, generation)
}

/// Builds a folder that `CURRENT` does not name yet.
pub(super) fn build(
    place: &Place,
    fill: impl FnOnce(&mut dyn StateStore) -> io::Result<()>,
) -> io::Result<(Box<dyn StateStore>, u64)> {
    let generation = next_generation(&*place.disk, &place.data_dir)?;
    let folder = place.data_dir.join(folder_name(generation));
    let format = place.format(generation);
    let built = place
        .stores
        .create(&place.disk, &folder, &format)
        .and_then(|mut store| {
            guarded("filling", || fill(&mut *store))?;
            Ok(store)
        });
    match built {
        Ok(store) => Ok((store, generation)),
        Err(error) => {
            // If this fails, the next open removes the folder.
            let _ = place.disk.remove_dir_all(&folder);
            Err(error)
        }
    }
}

/// Makes `CURRENT` name a complete folder, then removes the others. If `CURRENT` cannot be
/// replaced, the folder is removed, because it takes as much space as the old one.
fn make_current(
    place: &Place,
    store: Box<dyn StateStore>,
    generation: u64,
) -> Result<Box<dyn StateStore>, NotMade> {
    let (disk, data_dir) = (&*place.disk, &*place.data_dir);
    let line = current_line(generation);
    let flipped = disk
        .sync_dir(data_dir)
        .and_then(|()| replace_file(disk, &data_dir.join(CURRENT), line.as_bytes()));
    if let Err(error) = flipped {
        // `CURRENT` may have been replaced although its directory could not be synced.
        return Err(match read_current(disk, data_dir) {
            Ok(Current::Generation(current)) if current == generation => {
                NotMade::MaybeReplaced(error)
            }
            Ok(_) => {
                drop(store);
                // If this fails, the next open removes the folder.
                let _ = disk.remove_dir_all(&data_dir.join(folder_name(generation)));
                NotMade::Unchanged(error)
            }
            Err(_) => NotMade::MaybeReplaced(error),
        });
    }
    drop_generations(disk, data_dir, Some(generation)).map_err(NotMade::MaybeReplaced)?;
    Ok(store)
}

impl Place {
    fn format(&self, generation: u64) -> Format {
        Format {
            cluster_id: self.cluster_id.clone(),
            generation,
        }
    }
}

struct LoadedStore<R> {
    store: Box<dyn StateStore>,
    rows: R,
}

/// Opens and verifies a folder, on a separate thread if the open can hang. The thread is then
/// abandoned at the deadline.
fn load_on_thread<R: TakeRows>(
    place: &Place,
    generation: u64,
    limit: Duration,
) -> io::Result<LoadedStore<R>> {
    let deadline = Instant::now() + limit;
    if !place.stores.may_hang() {
        return load(place, generation, deadline);
    }
    let place = place.clone();
    let (answer, answered) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("checkpoint-open".to_owned())
        .spawn(move || {
            // The receiver no longer exists if the deadline has passed.
            let _ = answer.send(guarded("opening", || load(&place, generation, deadline)));
        })?;
    // The wait for the lock has the same deadline, so a little more time lets its error arrive.
    let loaded = answered.recv_timeout(limit + Duration::from_secs(1));
    loaded.map_err(|_| io::Error::other(format!("it did not open within {limit:?}")))?
}

fn load<R: TakeRows>(
    place: &Place,
    generation: u64,
    deadline: Instant,
) -> io::Result<LoadedStore<R>> {
    let folder = place.data_dir.join(folder_name(generation));
    let (store, found) = place.stores.open(&place.disk, &folder, deadline)?;
    if found != place.format(generation) {
        let why = format!(
            "it belongs to cluster {:?}, generation {}",
            found.cluster_id, found.generation
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let taken = take_all(&*store)?;
    let digest = store.applied().map_or(0, |recorded| recorded.digest);
    taken.tally.expect(digest)?;
    let rows = taken.rows;
    // An invalid row is reported only after the rows were found to match the record.
    taken.refused.map_or(Ok(LoadedStore { store, rows }), Err)
}

enum Current {
    Missing,
    Malformed,
    Generation(u64),
}

fn read_current(disk: &dyn Disk, data_dir: &Path) -> io::Result<Current> {
    Ok(
        match read_file(disk, &data_dir.join(CURRENT), MAX_CURRENT_BYTES) {
            Ok(None) => Current::Missing,
            Ok(Some(bytes)) => {
                parse_current(&bytes).map_or(Current::Malformed, Current::Generation)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Current::Malformed,
            Err(error) => return Err(error),
        },
    )
}

/// Returns the name of the folder and the CRC of that name, so that a flipped byte cannot name
/// another folder.
fn current_line(generation: u64) -> String {
    let name = folder_name(generation);
    format!("{name} {:08x}\n", crc32c::crc32c(name.as_bytes()))
}

fn parse_current(bytes: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(bytes).ok()?;
    let (name, _) = line.split_once(' ')?;
    let generation = parse_folder(name)?;
    (current_line(generation) == line).then_some(generation)
}

fn folder_name(generation: u64) -> String {
    format!("state-{generation}")
}

fn parse_folder(name: &str) -> Option<u64> {
    let generation = name.strip_prefix("state-")?.parse().ok()?;
    (folder_name(generation) == name).then_some(generation)
}

/// Returns a number above every generation that exists or that `CURRENT` names.
fn next_generation(disk: &dyn Disk, data_dir: &Path) -> io::Result<u64> {
    let newest = newest_generation(disk, data_dir)?.unwrap_or(0);
    Ok(1 + match read_current(disk, data_dir)? {
        Current::Generation(current) => newest.max(current),
        Current::Missing | Current::Malformed => newest,
    })
}

fn newest_generation(disk: &dyn Disk, data_dir: &Path) -> io::Result<Option<u64>> {
    let names = disk.list(data_dir)?;
    Ok(names.iter().filter_map(|name| parse_folder(name)).max())
}

/// Removes every generation except `kept`, and the remains of an interrupted replacement of
/// `CURRENT`.
fn drop_generations(disk: &dyn Disk, data_dir: &Path, kept: Option<u64>) -> io::Result<()> {
    for name in disk.list(data_dir)? {
        if parse_folder(&name).is_some_and(|generation| Some(generation) != kept) {
            disk.remove_dir_all(&data_dir.join(&name))?;
        } else if name == CURRENT_TMP {
            disk.remove(&data_dir.join(&name))?;
        }
    }
    Ok(())
}

/// Without a `CURRENT`, no folder can be used because it may be incomplete. The newest one is set
/// aside and the others are removed.
fn set_newest_aside<R>(disk: &dyn Disk, data_dir: &Path, why: String) -> io::Result<Opened<R>> {
    let newest = newest_generation(disk, data_dir)?;
    let moved_to = newest
        .map(|generation| set_aside(disk, data_dir, generation))
        .transpose()?;
    drop_generations(disk, data_dir, None)?;
    Ok(Opened::SetAside { why, moved_to })
}

/// Renames a generation to `state-bad`. The folder that was set aside before is removed.
fn set_aside(disk: &dyn Disk, data_dir: &Path, generation: u64) -> io::Result<PathBuf> {
    for name in disk.list(data_dir)? {
        if name.starts_with(BAD) {
            disk.remove_dir_all(&data_dir.join(name))?;
        }
    }
    let moved_to = data_dir.join(BAD);
    disk.rename(&data_dir.join(folder_name(generation)), &moved_to)?;
    disk.sync_dir(data_dir)?;
    Ok(moved_to)
}
