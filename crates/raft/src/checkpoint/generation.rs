//! Which checkpoint folder is the current one, and what becomes of the others.
//!
//! A folder `state-<generation>` is built whole before `CURRENT` names it, and numbers only rise:
//! whatever a crash leaves is either the old folder or the new one. A folder that cannot be
//! believed is set aside as `state-bad-<generation>-<n>`, so that someone can look at it; the two
//! newest of those are kept.
//!
//! sled can hang or panic on a damaged folder, so an open runs on a thread of its own with a
//! deadline. A thread that hangs is left behind: its folder has been renamed under it by then, and
//! no later generation has its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::record::Format;
use super::sled_store::{SledStore, guarded};
use super::{Checkpoint, Row, StateStore};
use crate::folder::{sync_folder, write_durable};

/// How long an open may take. A checkpoint of a million rows takes a few seconds.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// Set-aside folders that are kept: the last fault and the one before it.
const KEPT_SET_ASIDE: usize = 2;

const CURRENT: &str = "CURRENT";
const CURRENT_TMP: &str = "CURRENT.tmp";

/// What was found in a data folder.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A checkpoint whose rows are those that it recorded. It may be older than the log's end; the
    /// caller compares its index with what the log still holds.
    Good {
        /// The store, ready for the next checkpoint.
        store: SledStore,
        /// All rows, in key order.
        rows: Vec<Row>,
        /// What the checkpoint says of itself.
        applied: Checkpoint,
    },
    /// A folder without any checkpoint yet, made now or by an earlier start.
    Empty {
        /// The store, ready for the first checkpoint.
        store: SledStore,
    },
    /// No checkpoint that could be believed: the caller builds the next generation.
    SetAside {
        /// What was wrong.
        why: String,
        /// Where the folder went; none if there was no folder.
        moved_to: Option<PathBuf>,
    },
}

/// Opens the checkpoint of `data_dir`, checked in full. Never panics.
///
/// A node `is_new` if it can have applied nothing yet: then no checkpoint is what is expected, and
/// an empty one is made. For any other node a checkpoint that is missing is gone.
///
/// # Errors
/// Only what building a new generation would not cure: a full or read-only disk, missing
/// permission, no more file handles, or a checkpoint of a newer program
/// ([`io::ErrorKind::Unsupported`]).
pub(crate) fn open(data_dir: &Path, cluster_id: &str, is_new: bool) -> io::Result<Opened> {
    open_within(data_dir, cluster_id, is_new, OPEN_DEADLINE)
}

/// [`open`] with another deadline.
pub(super) fn open_within(
    data_dir: &Path,
    cluster_id: &str,
    is_new: bool,
    deadline: Duration,
) -> io::Result<Opened> {
    let generation = match read_current(data_dir)? {
        Current::Missing if is_new => {
            let store = create_empty(data_dir, cluster_id)?;
            return Ok(Opened::Empty { store });
        }
        Current::Missing => return set_newest_aside(data_dir, "CURRENT is missing".to_owned()),
        Current::Malformed => {
            return set_newest_aside(data_dir, "CURRENT is malformed".to_owned());
        }
        Current::Generation(generation) => generation,
    };
    let folder = data_dir.join(folder_name(generation));
    if !folder.is_dir() {
        let why = format!("{} is gone", folder_name(generation));
        return Ok(Opened::SetAside {
            why,
            moved_to: None,
        });
    }
    let expected = Format {
        cluster_id: cluster_id.to_owned(),
        generation,
    };
    match load_on_thread(&folder, expected, deadline) {
        Ok(Loaded { store, rows }) => {
            drop_generations(data_dir, Some(generation))?;
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
            let moved_to = set_aside(data_dir, generation)?;
            Ok(Opened::SetAside {
                why: error.to_string(),
                moved_to: Some(moved_to),
            })
        }
    }
}

/// Makes the next generation without any row and makes it current.
pub(crate) fn create_empty(data_dir: &Path, cluster_id: &str) -> io::Result<SledStore> {
    let (store, generation) = build(data_dir, cluster_id, |_| Ok(()))?;
    make_current(data_dir, generation)?;
    Ok(store)
}

/// Builds the next generation whole from `rows` and makes it current. Older ones are dropped.
///
/// Until `CURRENT` is renamed nothing has changed: an error before it leaves the old generation as
/// it was. A store of an older generation may still be open; it is to be dropped, not written.
///
/// # Errors
/// Whatever `rows` yields; [`io::ErrorKind::InvalidData`] if the rows are not those of `applied`;
/// whatever the disk says.
pub(crate) fn create_generation(
    data_dir: &Path,
    cluster_id: &str,
    rows: impl Iterator<Item = io::Result<Row>>,
    applied: &Checkpoint,
) -> io::Result<SledStore> {
    let (store, generation) = build(data_dir, cluster_id, |store| store.fill(rows, applied))?;
    make_current(data_dir, generation)?;
    Ok(store)
}

/// Builds a folder that nothing names yet.
pub(super) fn build(
    data_dir: &Path,
    cluster_id: &str,
    fill: impl FnOnce(&mut SledStore) -> io::Result<()>,
) -> io::Result<(SledStore, u64)> {
    let generation = next_generation(data_dir)?;
    let folder = data_dir.join(folder_name(generation));
    let format = Format {
        cluster_id: cluster_id.to_owned(),
        generation,
    };
    let built = SledStore::create(&folder, &format).and_then(|mut store| {
        guarded("filling", || fill(&mut store))?;
        Ok(store)
    });
    match built {
        Ok(store) => Ok((store, generation)),
        Err(error) => {
            // What stays if this fails is removed by the next open.
            let _ = fs::remove_dir_all(&folder);
            Err(error)
        }
    }
}

/// Flips `CURRENT` to a folder that is complete, then drops the others.
pub(super) fn make_current(data_dir: &Path, generation: u64) -> io::Result<()> {
    sync_folder(data_dir)?;
    write_durable(&data_dir.join(CURRENT), current_line(generation).as_bytes())?;
    drop_generations(data_dir, Some(generation))
}

struct Loaded {
    store: SledStore,
    rows: Vec<Row>,
}

/// Opens and checks a folder on a thread of its own, which is left behind at the deadline.
fn load_on_thread(folder: &Path, expected: Format, limit: Duration) -> io::Result<Loaded> {
    let (answer, answered) = mpsc::sync_channel(1);
    let folder = folder.to_owned();
    let deadline = Instant::now() + limit;
    thread::Builder::new()
        .name("checkpoint-open".to_owned())
        .spawn(move || {
            let loaded = guarded("opening", || load(&folder, &expected, deadline));
            // Nobody listens any more if the deadline has passed.
            let _ = answer.send(loaded);
        })?;
    // The lock's own deadline is this one: a little more time lets its reason arrive.
    match answered.recv_timeout(limit + Duration::from_secs(1)) {
        Ok(loaded) => loaded,
        Err(_) => Err(io::Error::other(format!(
            "it did not open within {limit:?}"
        ))),
    }
}

fn load(folder: &Path, expected: &Format, deadline: Instant) -> io::Result<Loaded> {
    let (store, found) = SledStore::open(folder, deadline)?;
    let checked = if found == *expected {
        store.checked_rows()
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "it belongs to cluster {:?}, generation {}",
                found.cluster_id, found.generation
            ),
        ))
    };
    checked.map(|rows| Loaded { store, rows })
}

/// Whether an error says something of the machine and nothing of the folder.
fn is_of_the_machine(error: &io::Error) -> bool {
    use io::ErrorKind;
    let no_handles = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::PermissionDenied
            | ErrorKind::OutOfMemory
            | ErrorKind::Unsupported
    ) || no_handles
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

enum Current {
    Missing,
    Malformed,
    Generation(u64),
}

fn read_current(data_dir: &Path) -> io::Result<Current> {
    let bytes = match fs::read(data_dir.join(CURRENT)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Current::Missing),
        Err(error) => return Err(error),
    };
    Ok(parse_current(&bytes).map_or(Current::Malformed, Current::Generation))
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

/// The generation and the number of a set-aside folder.
fn parse_set_aside(name: &str) -> Option<(u64, u64)> {
    let (generation, number) = name.strip_prefix("state-bad-")?.split_once('-')?;
    Some((generation.parse().ok()?, number.parse().ok()?))
}

fn names(data_dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(data_dir)?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries
        .iter()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

/// One above every generation that is here, set aside, or named by `CURRENT`.
fn next_generation(data_dir: &Path) -> io::Result<u64> {
    let names = names(data_dir)?;
    let folders = names.iter().filter_map(|name| parse_folder(name));
    let set_aside = names
        .iter()
        .filter_map(|name| parse_set_aside(name))
        .map(|(of, _)| of);
    let newest = folders.chain(set_aside).max().unwrap_or(0);
    Ok(1 + match read_current(data_dir)? {
        Current::Generation(current) => newest.max(current),
        Current::Missing | Current::Malformed => newest,
    })
}

/// Removes every generation but `kept`, and what an interrupted flip left.
fn drop_generations(data_dir: &Path, kept: Option<u64>) -> io::Result<()> {
    for name in names(data_dir)? {
        if parse_folder(&name).is_some_and(|generation| Some(generation) != kept) {
            fs::remove_dir_all(data_dir.join(&name))?;
        } else if name == CURRENT_TMP {
            fs::remove_file(data_dir.join(&name))?;
        }
    }
    Ok(())
}

/// Without a `CURRENT` no folder can be believed, as it may be half built; the newest is kept.
fn set_newest_aside(data_dir: &Path, why: String) -> io::Result<Opened> {
    let newest = names(data_dir)?
        .iter()
        .filter_map(|name| parse_folder(name))
        .max();
    let moved_to = newest
        .map(|generation| set_aside(data_dir, generation))
        .transpose()?;
    drop_generations(data_dir, None)?;
    Ok(Opened::SetAside { why, moved_to })
}

/// Renames a generation and drops the oldest set-aside folders.
fn set_aside(data_dir: &Path, generation: u64) -> io::Result<PathBuf> {
    let mut kept: Vec<(u64, u64)> = names(data_dir)?
        .iter()
        .filter_map(|name| parse_set_aside(name))
        .collect();
    let taken = kept
        .iter()
        .filter(|(of, _)| *of == generation)
        .map(|(_, number)| *number);
    let number = 1 + taken.max().unwrap_or(0);
    let path = |(of, number): (u64, u64)| data_dir.join(format!("state-bad-{of}-{number}"));

    let moved_to = path((generation, number));
    fs::rename(data_dir.join(folder_name(generation)), &moved_to)?;
    sync_folder(data_dir)?;

    kept.push((generation, number));
    kept.sort_unstable();
    for oldest in kept.iter().rev().skip(KEPT_SET_ASIDE) {
        fs::remove_dir_all(path(*oldest))?;
    }
    Ok(moved_to)
}
