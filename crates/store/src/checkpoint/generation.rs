//! Which checkpoint folder is the current one, and what becomes of the others.
//!
//! A folder `state-<generation>` is built whole before `CURRENT` names it, and numbers only rise:
//! whatever a crash leaves is either the old folder or the new one. A folder that cannot be used is
//! renamed to `state-bad`, so that someone can look at it; the one before it goes.
//!
//! sled can hang or panic on a damaged folder, so an open runs on a thread of its own with a
//! deadline. A thread that hangs is left behind: its folder has been renamed under it by then, and
//! no later generation has its name.

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
use crate::faults::is_of_the_machine;

/// How long an open may take. A checkpoint of two million rows takes a few seconds where the disk need
/// not be read.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The last folder that was set aside.
const BAD: &str = "state-bad";

const CURRENT: &str = "CURRENT";
const CURRENT_TMP: &str = "CURRENT.tmp";

/// More than any name and its checksum.
const MAX_CURRENT_BYTES: usize = 4096;

/// What was found in a data folder.
#[derive(Debug)]
pub enum Opened<R> {
    /// A checkpoint whose rows are those that it recorded. It may be older than the log's end; the
    /// caller compares its index with what the log still holds.
    Good {
        /// The store, ready for the next checkpoint.
        store: Box<dyn StateStore>,
        /// What took in all rows.
        rows: R,
        /// The checkpoint's own record.
        applied: Checkpoint,
    },
    /// A folder without any checkpoint yet, made now or by an earlier start.
    Empty {
        /// The store, ready for the first checkpoint.
        store: Box<dyn StateStore>,
    },
    /// No usable checkpoint: the caller builds the next generation.
    SetAside {
        /// What was wrong.
        why: String,
        /// Where the folder went; none if there was no folder.
        moved_to: Option<PathBuf>,
    },
}

/// Why there is no new generation to write to.
#[derive(Debug)]
pub enum NotMade {
    /// The current generation is as it was, and nothing else is left.
    Unchanged(io::Error),
    /// `CURRENT` may name the new generation: the old one must not be written any more.
    MaybeReplaced(io::Error),
}

impl From<NotMade> for io::Error {
    fn from(not_made: NotMade) -> Self {
        match not_made {
            NotMade::Unchanged(error) | NotMade::MaybeReplaced(error) => error,
        }
    }
}

/// Opens the checkpoint of a node, checked in full. Never panics.
///
/// A node `is_new` if it can have applied nothing yet: then no checkpoint is what is expected, and
/// an empty one is made. For any other node a checkpoint that is missing is gone.
///
/// # Errors
/// Only what building a new generation would not cure: a full or read-only disk, missing
/// permission, no more file handles, or a checkpoint of a newer program
/// ([`io::ErrorKind::Unsupported`]).
pub fn open<R: TakeRows>(place: &Place, is_new: bool) -> io::Result<Opened<R>> {
    open_within(place, is_new, OPEN_DEADLINE)
}

/// [`open`] with another deadline.
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
        let why = format!("{} is gone", folder_name(generation));
        return Ok(Opened::SetAside {
            why,
            moved_to: None,
        });
    }
    match load_on_thread(place, generation, deadline) {
        Ok(Loaded { store, rows }) => {
            // A kill may have come before the flip was synced: the others may go only after it.
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

/// Makes the next generation without any row and makes it current.
pub fn create_empty(place: &Place) -> io::Result<Box<dyn StateStore>> {
    let (store, generation) = build(place, |_| Ok(()))?;
    Ok(make_current(place, store, generation)?)
}

/// Builds the next generation whole from `rows` and makes it current. Older ones are dropped.
///
/// Until `CURRENT` is renamed nothing has changed: an error before it leaves the old generation as
/// it was. A store of an older generation may still be open; it is to be dropped, not written.
///
/// # Errors
/// Whatever `rows` yields; [`io::ErrorKind::InvalidData`] if the rows are not those of `applied`;
/// the disk's error.
pub fn create_generation(
    place: &Place,
    rows: impl Iterator<Item = io::Result<Row>>,
    applied: &Checkpoint,
) -> io::Result<Box<dyn StateStore>> {
    Ok(rebuild_generation(place, rows, applied, &mut || Ok(()))?)
}

/// [`create_generation`] while other work goes on, which `between` does.
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

/// Builds a folder that nothing names yet.
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
            // What stays if this fails is removed by the next open.
            let _ = place.disk.remove_dir_all(&folder);
            Err(error)
        }
    }
}

/// Flips `CURRENT` to a folder that is complete, then drops the others. If `CURRENT` cannot be
/// flipped, the folder is removed: it takes as much space as the old one.
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
        // The name may have changed although its folder could not be synced.
        return Err(match read_current(disk, data_dir) {
            Ok(Current::Generation(current)) if current == generation => {
                NotMade::MaybeReplaced(error)
            }
            Ok(_) => {
                drop(store);
                // What stays if this fails is removed by the next open.
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

struct Loaded<R> {
    store: Box<dyn StateStore>,
    rows: R,
}

/// Opens and checks a folder, on a thread of its own if that may hang: it is left behind at the
/// deadline then.
fn load_on_thread<R: TakeRows>(
    place: &Place,
    generation: u64,
    limit: Duration,
) -> io::Result<Loaded<R>> {
    let deadline = Instant::now() + limit;
    if !place.stores.may_hang() {
        return load(place, generation, deadline);
    }
    let place = place.clone();
    let (answer, answered) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("checkpoint-open".to_owned())
        .spawn(move || {
            // The receiver has gone if the limit has passed.
            let _ = answer.send(guarded("opening", || load(&place, generation, deadline)));
        })?;
    // The lock's own deadline is this one: a little more time lets its reason arrive.
    let loaded = answered.recv_timeout(limit + Duration::from_secs(1));
    loaded.map_err(|_| io::Error::other(format!("it did not open within {limit:?}")))?
}

fn load<R: TakeRows>(place: &Place, generation: u64, deadline: Instant) -> io::Result<Loaded<R>> {
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
    // A row that is no record is an error only where the rows are those that were recorded.
    taken.refused.map_or(Ok(Loaded { store, rows }), Err)
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

/// The folder's name and the CRC of that name: a flipped byte must not name another folder.
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

/// One above every generation that is here or named by `CURRENT`.
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

/// Removes every generation but `kept`, and what an interrupted flip left.
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

/// Without a `CURRENT` no folder can be used, as it may be half built; the newest is kept.
fn set_newest_aside<R>(disk: &dyn Disk, data_dir: &Path, why: String) -> io::Result<Opened<R>> {
    let newest = newest_generation(disk, data_dir)?;
    let moved_to = newest
        .map(|generation| set_aside(disk, data_dir, generation))
        .transpose()?;
    drop_generations(disk, data_dir, None)?;
    Ok(Opened::SetAside { why, moved_to })
}

/// Renames a generation; what was set aside before goes.
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
