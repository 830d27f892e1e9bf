//! The node under test: the real storage on a simulated disk, driven by hand.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::stream;
use openraft::storage::{RaftLogReader, RaftLogStorage, RaftStateMachine};
use seqd_disk::Disk;
use seqd_disk::simulated::SimulatedDisk;
use seqd_wal::{Pump, Wal, WalOptions};

use super::Plant;
use super::log_model::{Content, encode};
use crate::handle::Stop;
use crate::storage::applied::Applied;
use crate::storage::checkpointer::{CheckpointWorker, Checkpointer, SyncedLog};
use crate::storage::log_store::LogStore;
use crate::storage::machine::Machine;
use crate::storage::opening::{Storage, open_storage};
use crate::types::{Entry, LogId, StoredMembership};
use seqd_store::checkpoint::file_store::FileStores;
use seqd_store::folder::{Folder, Identity};

pub(super) const CLUSTER: &str = "SIMULATED";
pub(super) const ROOT: &str = "/data";

/// Small, so that segments are created and removed often.
const SEGMENT_BYTES: u64 = 4096;

/// Entries that are applied between two rows while a snapshot is written.
pub(super) type Feed = Arc<Mutex<VecDeque<Entry>>>;

pub(super) struct Opened {
    pub(super) identity: Option<Identity>,
    pub(super) boot: u64,
    pub(super) position: Option<LogId>,
    pub(super) membership: StoredMembership,
    pub(super) digest: u128,
    pub(super) rebuilt: bool,
}

/// An open folder.
pub(super) struct Node {
    pub(super) disk: SimulatedDisk,
    pub(super) folder: Folder,
    pub(super) wal: Wal,
    pub(super) pump: Pump,
    pub(super) log: LogStore,
    pub(super) machine: Machine,
    pub(super) purge_floor: Arc<AtomicU64>,
    pub(super) feed: Feed,
}

impl Node {
    /// Opens the folder like a start.
    pub(super) fn open(
        disk: &SimulatedDisk,
        seeds: &Arc<AtomicU32>,
        plant: Plant,
    ) -> Result<(Self, Opened), Stop> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let folder = Folder::open_unlocked(shared, Path::new(ROOT))?;
        let identity = folder.identity()?;
        let boot = folder.raise_boot()?;
        let (storage, pump) = open_driven(&folder, Arc::clone(seeds))?;
        let (wal, loaded) = (storage.wal.clone(), &storage.loaded);
        let opened = Opened {
            identity,
            boot,
            position: loaded.position,
            membership: loaded.membership.clone(),
            digest: loaded.state.digest().0,
            rebuilt: loaded.rebuilt,
        };
        let feed = Feed::default();
        let assembled = storage.assemble(
            |applied| pace(&feed, applied),
            Box::new(|_| {}),
            |worker| {
                let log = match plant {
                    Plant::CheckpointAheadOfLog => Box::new(NeverWaits),
                    _ => worker.log,
                };
                Ok(Checkpointer::inline(CheckpointWorker { log, ..worker }))
            },
        );
        let (log, machine) = assembled.expect("no thread is started");
        let purge_floor = Arc::clone(&machine.purge_floor);
        let node = Self {
            disk: disk.clone(),
            folder,
            wal,
            pump,
            log,
            machine,
            purge_floor,
            feed,
        };
        Ok((node, opened))
    }

    /// Runs a future to its end. Writes the log whenever the future waits.
    pub(super) fn drive<T>(pump: &Pump, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            assert!(pump.step(), "a future waits for what nobody does");
        }
    }

    pub(super) fn applied(&self) -> Option<LogId> {
        self.machine.applied.read().applied
    }

    pub(super) fn digest(&self) -> u128 {
        self.machine.applied.read().state.digest().0
    }

    /// Applies entries as openraft delivers them.
    pub(super) fn apply(&mut self, entries: Vec<Entry>) -> io::Result<()> {
        let items = entries.into_iter().map(|entry| Ok((entry, None)));
        Self::drive(&self.pump, self.machine.apply(stream::iter(items)))
    }

    pub(super) fn content(&mut self) -> io::Result<Content> {
        let entries = Self::drive(&self.pump, self.log.try_get_log_entries(..))?;
        Ok(Content {
            vote: self.log.vote(),
            purged: self.log.purged(),
            entries: entries
                .iter()
                .map(|entry| (entry.log_id.index(), encode(entry)))
                .collect(),
        })
    }

    /// Performs openraft's steps on a storage before openraft runs on it. `purging` is called
    /// before each purge.
    pub(super) fn start(&mut self, purging: &mut dyn FnMut(LogId)) -> io::Result<()> {
        let pump = self.pump.clone();
        let committed = Self::drive(&pump, self.log.read_committed())?;
        let committed = committed.max(self.applied());
        if let Some(snapshot) = Self::drive(&pump, self.machine.get_current_snapshot())?
            && snapshot.meta.last_log_id > self.applied()
        {
            let installed = self
                .machine
                .install_snapshot(&snapshot.meta, snapshot.snapshot);
            Self::drive(&pump, installed)?;
        }
        let next = |id: Option<LogId>| id.map_or(0, |id| id.index() + 1);
        let range = next(self.applied())..next(committed);
        if !range.is_empty() {
            let entries = Self::drive(&pump, self.log.try_get_log_entries(range.clone()))?;
            if entries.len() as u64 != range.end - range.start {
                let why = format!("{} entries of {range:?} are there", entries.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            self.apply(entries)?;
        }
        if let Some(applied) = self.applied()
            && self.log.last() < Some(applied)
        {
            purging(applied);
            Self::drive(&pump, self.log.purge(applied))?;
        }
        Ok(())
    }
}

/// Opens the folder's log and state. The log is written only when its pump is driven.
fn open_driven(folder: &Folder, seeds: Arc<AtomicU32>) -> Result<(Storage, Pump), Stop> {
    let mut pump = None;
    let (cluster, stores) = (CLUSTER.to_owned(), Arc::new(FileStores));
    let storage = open_storage(folder, cluster, stores, |options| {
        let (wal, recovered, driven) = Wal::open_manual(WalOptions {
            segment_bytes: SEGMENT_BYTES,
            segment_seeds: Arc::new(move || Ok(seeds.fetch_add(1, Ordering::Relaxed))),
            ..options
        })?;
        pump = Some(driven);
        Ok((wal, recovered))
    })?;
    Ok((storage, pump.expect("the log was opened")))
}

/// The planted fault: a checkpoint may be ahead of the synced log.
struct NeverWaits;

impl SyncedLog for NeverWaits {
    fn wait_until_synced(&self, _index: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Between two rows of a snapshot, applies one entry of the feed, if there is one.
fn pace(feed: &Feed, applied: &Arc<Applied>) -> crate::storage::checkpointer::Pace {
    let (feed, applied) = (Arc::clone(feed), Arc::clone(applied));
    Box::new(move || {
        let next = feed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        next.is_some_and(|entry| {
            applied.apply(&entry);
            true
        })
    })
}
