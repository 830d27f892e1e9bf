//! Opens and checks a folder's log and state before openraft runs on them.
//!
//! The log and the snapshots are the source of truth. An unusable checkpoint is set aside and
//! rebuilt from them. A log that ends before the checkpoint, or begins after the end of both the
//! checkpoint and the snapshots, is corrupt, and the folder is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use seqd_disk::create_dir_durable;
use seqd_peers::table::SyncedPosition;
use seqd_state::{Level, State, StateLoader};
use seqd_store::checkpoint::{self, Opened, Place, StateStore, Stores};
use seqd_store::folder::{Folder, Identity};
use seqd_store::snapshot_file::{self, InstalledMark, Recovered as Kept};
use seqd_wal::{Recovered, Wal, WalError, WalOptions};
use tokio::sync::OwnedMutexGuard;

use crate::blocking;
use crate::handle::{Stop, StopReason};
use crate::records;
use crate::storage::driver;
use crate::storage::log_store::LogStore;
use crate::types::{self, LogId, Member, StoredMembership, farther, reach};

/// The failed step, for the message of a stop.
const MARK_UNREAD: &str = "cannot read or remove `snap/installed`";

/// The folder's log and state, opened, before openraft runs on them.
pub(crate) struct Storage {
    pub(crate) wal: Wal,
    pub(crate) log: LogStore,
    pub(crate) place: Place,
    pub(crate) loaded: LoadedState,
    pub(crate) mark: Arc<InstalledMark>,
    pub(crate) purge_floor: Arc<AtomicU64>,
    pub(crate) repairs: Repairs,
    /// The folder of the snapshots.
    pub(crate) snapshots: PathBuf,
    /// The last entry that the newest snapshot contains.
    snapshot: Option<LogId>,
}

/// The state that a start found in its folder.
#[derive(Clone, Debug)]
pub(crate) struct Began {
    /// The vote and the last log ID.
    pub(crate) synced: SyncedPosition,
    /// The voters, as of the checkpoint.
    pub(crate) voters: BTreeSet<u64>,
    /// The members, as of the checkpoint.
    pub(crate) members: BTreeMap<u64, Member>,
    /// The cluster's level, as of the checkpoint.
    pub(crate) level: Level,
}

/// The faults of the folder that were repaired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repairs {
    /// The remains of an interrupted write were cut off.
    pub(crate) torn_tail: bool,
    pub(crate) snapshots_set_aside: u64,
    pub(crate) rebuilt: bool,
}

impl Storage {
    /// Opens the storage. Holds `opening` until the folder is open and passed to the caller, or
    /// closed again.
    pub(crate) async fn open(
        folder: Arc<Folder>,
        identity: &Identity,
        opening: OwnedMutexGuard<()>,
    ) -> Result<Self, Stop> {
        let cluster_id = identity.cluster_id.clone();
        let open = move || open_storage(&folder, cluster_id, driver::stores(), driver::open_wal);
        // If the caller is gone, the result is dropped in this order: first the storage, then the
        // guard.
        let opened = blocking::run(move || Ok((open(), opening))).await;
        let (opened, _opening) =
            opened.map_err(|e| Stop::invariant(format!("opening the storage panicked: {e}")))?;
        opened
    }

    /// The state with which this start began: the stored vote, and the higher end of log and
    /// snapshot.
    pub(crate) fn began(&self) -> Began {
        let last = farther(self.log.last(), self.snapshot);
        Began {
            synced: records::synced_position(self.log.vote().as_ref(), last.as_ref()),
            voters: self.loaded.membership.voter_ids().collect(),
            members: (self.loaded.membership.nodes())
                .map(|(node, member)| (*node, member.clone()))
                .collect(),
            level: self.loaded.state.level(),
        }
    }

    pub(crate) fn is_pristine(&self) -> bool {
        self.log.is_pristine()
    }
}

/// The state that was found, and its store.
pub(crate) struct LoadedState {
    pub(crate) state: State,
    pub(crate) position: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) rebuilt: bool,
}

/// Opens and checks a folder's log and state. Blocks. `open_wal` opens the log.
pub(crate) fn open_storage(
    folder: &Folder,
    cluster_id: String,
    stores: Arc<dyn Stores>,
    open_wal: impl FnOnce(WalOptions) -> Result<(Wal, Recovered), WalError>,
) -> Result<Storage, Stop> {
    let began = Instant::now();
    let place = Place {
        disk: Arc::clone(folder.disk()),
        data_dir: folder.root().to_owned(),
        cluster_id,
        stores,
    };
    let disk = &*place.disk;
    let snapshots = folder.snapshots();
    create_dir_durable(disk, &snapshots).map_err(|e| Stop::of_io("cannot make `snap`", &e))?;
    let purge_floor = Arc::new(AtomicU64::new(0));
    let (wal, recovered, log) = open_log(folder, &purge_floor, open_wal)?;
    let log_read = began.elapsed();
    let mark =
        InstalledMark::open(&place.disk, &snapshots).map_err(|e| Stop::of_io(MARK_UNREAD, &e))?;
    let (kept, opened) = read_in_full(&place, &snapshots, log.is_pristine())?;
    let floor = kept.valid.get(1).map_or(0, |file| file.index);
    purge_floor.store(floor, Ordering::Release);
    let installing = installing(&mark, &kept, &log);
    let loaded = load(&place, &log, &kept, opened)?;
    check_complete(&loaded, &log, &kept, installing)?;
    // The folder is accepted. Up to this point, nothing was changed that a later start would need
    // if the disk were readable again by then.
    snapshot_file::set_aside(disk, &snapshots, &kept.bad)
        .map_err(|e| Stop::of_io("cannot set a snapshot aside", &e))?;
    if let (None, Some((index, _))) = (installing, mark.get()) {
        mark.clear_upto(index)
            .map_err(|e| Stop::of_io(MARK_UNREAD, &e))?;
    }
    let mark = Arc::new(mark);
    log.watch_mark(&mark);
    if reach(loaded.position) > reach(log.last()) {
        // A snapshot was installed, and the log before it is not purged yet. openraft does that
        // next.
        let installed = loaded.position.map_or(0, |id| id.index());
        // Older snapshots, if any are left, do not fit the log that follows.
        snapshot_file::void_older(disk, &snapshots, installed)
            .map_err(|e| Stop::of_io("cannot drop older snapshots", &e))?;
        purge_floor.store(installed.max(floor), Ordering::Release);
        log.leave_out_covered_tail(loaded.position);
    }
    let newest = kept.valid.first();
    if newest.is_some_and(|file| installing == Some((file.index, file.term))) {
        // The checkpoint does not contain the snapshot yet. openraft installs it next, and then
        // purges the log.
        log.leave_out_covered_tail(newest.map(|file| types::log_id(file.term, file.index)));
    }
    wal.accept();
    tracing::info!(
        log_ms = log_read.as_millis() as u64,
        state_ms = (began.elapsed() - log_read).as_millis() as u64,
        "the folder was read"
    );
    let newest = newest.map(|file| types::log_id(file.term, file.index));
    Ok(Storage {
        wal,
        log,
        place,
        repairs: Repairs {
            torn_tail: recovered.torn.is_some(),
            snapshots_set_aside: kept.bad.len() as u64,
            rebuilt: loaded.rebuilt,
        },
        loaded,
        mark,
        purge_floor,
        snapshots,
        snapshot: newest,
    })
}

/// On a small disk, a segment of the log is at most the disk's size divided by this. Otherwise, the
/// current segment and the prepared one would take a sixth of a disk of 192 MiB.
const SEGMENT_PART_OF_DISK: u64 = 64;
const LEAST_SEGMENT_BYTES: u64 = 1 << 20;

/// The options of a folder's log.
pub(crate) fn wal_options(folder: &Folder) -> WalOptions {
    let mut options = WalOptions {
        disk: Arc::clone(folder.disk()),
        ..WalOptions::new(folder.wal())
    };
    if let Ok(space) = folder.disk().space(folder.root()) {
        let largest = (space.total / SEGMENT_PART_OF_DISK).max(LEAST_SEGMENT_BYTES);
        options.segment_bytes = options.segment_bytes.min(largest);
    }
    options
}

fn open_log(
    folder: &Folder,
    purge_floor: &Arc<AtomicU64>,
    open_wal: impl FnOnce(WalOptions) -> Result<(Wal, Recovered), WalError>,
) -> Result<(Wal, Recovered, LogStore), Stop> {
    let (wal, recovered) = open_wal(wal_options(folder)).map_err(|e| Stop::from(&e))?;
    let log = LogStore::new(wal.clone(), &recovered, Arc::clone(purge_floor))
        .map_err(|e| Stop::of_io("cannot read the log's records", &e))?;
    Ok((wal, recovered, log))
}

/// The snapshot that is being installed: the marked one, unless the log is past it or its file
/// never got its name. It counts even if it can no longer be read, because the checkpoint may
/// contain it.
fn installing(mark: &InstalledMark, kept: &Kept, log: &LogStore) -> Option<(u64, u64)> {
    let marked = mark.get().filter(|marked| kept.has_had(*marked));
    marked.filter(|_| marked > reach(log.last()))
}

/// Refuses a folder in which entries are missing between the state and the log.
fn check_complete(
    loaded: &LoadedState,
    log: &LogStore,
    kept: &Kept,
    installing: Option<(u64, u64)>,
) -> Result<(), Stop> {
    let held = reach(loaded.position);
    if held > reach(log.last()) && held != installing {
        return Err(corrupt(
            kept,
            &format!(
                "the checkpoint contains entry {}, but the log ends at {}: the log was lost or is \
                 older",
                loaded.position.map_or(0, |id| id.index()),
                log.last().map_or(0, |id| id.index()),
            ),
        ));
    }
    let covered = loaded
        .position
        .map(|id| id.index())
        .max(kept.valid.first().map(|file| file.index));
    if log.purged().map(|id| id.index()) > covered {
        let gap = "the log begins after the end of the checkpoint and of the snapshots";
        return Err(corrupt(kept, gap));
    }
    Ok(())
}

/// Reads the snapshots and the checkpoint, and checks each in full. If the store may hang, they are
/// read in parallel, because a store's first step with its folder keeps one core busy.
fn read_in_full(
    place: &Place,
    snapshots: &Path,
    is_new: bool,
) -> Result<(Kept, Opened<StateLoader>), Stop> {
    let disk = &*place.disk;
    let unread = |e: io::Error| Stop::of_io("cannot read the snapshots", &e);
    let recover = || snapshot_file::recover(disk, snapshots, &place.cluster_id).map_err(unread);
    let open = || checkpoint::open::<StateLoader>(place, is_new).map_err(state_failed);
    if !place.stores.may_hang() {
        return Ok((recover()?, open()?));
    }
    // A refusal because of the snapshots must come before the checkpoint is changed.
    snapshot_file::check_readable(disk, snapshots).map_err(unread)?;
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("snapshots".to_owned());
        let recovered = reader.spawn_scoped(scope, recover).map_err(unread)?;
        let opened = open();
        let kept = recovered
            .join()
            .map_err(|_| Stop::invariant("reading the snapshots panicked".to_owned()))?;
        Ok((kept?, opened?))
    })
}

fn state_failed(error: io::Error) -> Stop {
    Stop::of_io("the state could not be opened", &error)
}

/// Loads the state: from the checkpoint, else from the newest valid snapshot, else from the whole
/// log.
fn load(
    place: &Place,
    log: &LogStore,
    kept: &Kept,
    opened: Opened<StateLoader>,
) -> Result<LoadedState, Stop> {
    let rebuilt = matches!(opened, Opened::SetAside { .. });
    let (state, store, applied) = match opened {
        Opened::Good {
            store,
            rows,
            applied,
        } => {
            let applied = Some((applied.log_id, applied.membership));
            (rows.finish(), store, applied)
        }
        Opened::Empty { store } => (State::default(), store, None),
        Opened::SetAside { why, moved_to } => {
            let moved_to = moved_to.map(|path| path.display().to_string());
            let moved_to = moved_to.as_deref();
            tracing::warn!(%why, moved_to, "the checkpoint cannot be used and is rebuilt from \
                snapshot and log");
            if let Some(file) = kept.valid.first() {
                let (state, store) = snapshot_file::load(file, place).map_err(state_failed)?;
                let applied = (file.log_id.clone(), file.membership.clone());
                (state, store, Some(applied))
            } else if log.purged().is_some() {
                let gone = "there is no valid snapshot, and the log was purged";
                return Err(corrupt(kept, gone));
            } else {
                let store = checkpoint::create_empty(place).map_err(state_failed)?;
                (State::default(), store, None)
            }
        }
    };
    let (position, membership) = match applied {
        Some((log_id, membership)) => {
            records::restore_position(&log_id, &membership).map_err(state_failed)?
        }
        None => (None, StoredMembership::default()),
    };
    Ok(LoadedState {
        state,
        position,
        membership,
        store,
        rebuilt,
    })
}

/// A stop whose message contains the gap and the bad snapshots that might have filled it.
fn corrupt(kept: &Kept, what: &str) -> Stop {
    let bad: String = kept
        .bad
        .iter()
        .map(|bad| format!(" ({})", bad.why))
        .collect();
    Stop::new(
        StopReason::Corrupt,
        format!("{what}{bad}; remove this member, empty its folder, and add the machine again"),
    )
}
