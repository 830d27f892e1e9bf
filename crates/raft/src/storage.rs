//! A folder's log and state, opened and checked before openraft runs on them.
//!
//! The log and the snapshots are the truth. A checkpoint that cannot be believed is set aside and
//! rebuilt from them; a log that ends before the checkpoint, or begins after all that is held, is
//! corruption, and refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seqd_state::State;
use seqd_wal::{Wal, WalError, WalOptions};

use crate::checkpoint::{self, Opened, StateStore};
use crate::checkpointer;
use crate::folder::{self, Identity, create_durable};
use crate::handle::Stop;
use crate::local::Local;
use crate::log_store::LogStore;
use crate::snapshot_file::{self, SnapshotFile};
use crate::types::{self, LogId, StoredMembership};

/// The folder's log and state, open, before openraft runs on them.
pub(crate) struct Storage {
    pub(crate) wal: Wal,
    pub(crate) log: LogStore,
    pub(crate) loaded: Loaded,
    pub(crate) purge_floor: Arc<AtomicU64>,
}

impl Storage {
    /// Opens and checks the folder's log and state.
    pub(crate) async fn open(local: &Arc<Local>, identity: &Identity) -> Result<Self, Stop> {
        let local = Arc::clone(local);
        let cluster_id = identity.cluster_id.clone();
        tokio::task::spawn_blocking(move || open_storage(&local, &cluster_id))
            .await
            .map_err(|e| folder::invariant(format!("opening the storage panicked: {e}")))?
    }

    /// The membership as of the checkpoint.
    pub(crate) fn membership(&self) -> &StoredMembership {
        &self.loaded.membership
    }

    /// Whether neither a vote nor an entry was ever stored.
    pub(crate) fn is_pristine(&self) -> bool {
        self.log.is_pristine()
    }
}

/// The state as it was found, and where it is kept.
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) position: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) rebuilt: bool,
}

fn open_storage(local: &Local, cluster_id: &str) -> Result<Storage, Stop> {
    let snapshots = local.folder.snapshots();
    create_durable(&snapshots).map_err(|e| folder::disk_failure("cannot make `snap`", &e))?;
    let (wal, recovered) =
        Wal::open(WalOptions::new(local.folder.wal())).map_err(|e| wal_refused(&e))?;
    let kept = snapshot_file::recover(&snapshots, cluster_id)
        .map_err(|e| folder::disk_failure("cannot read the snapshots", &e))?;
    for (path, why) in &kept.bad {
        tracing::warn!(path = %path.display(), %why, "a snapshot is not usable");
    }
    let floor = kept.valid.get(1).map_or(0, |file| file.index);
    let purge_floor = Arc::new(AtomicU64::new(floor));
    let log = LogStore::new(wal.clone(), &recovered, Arc::clone(&purge_floor))
        .map_err(|e| folder::disk_failure("cannot read the log's records", &e))?;
    let loaded = load(local, cluster_id, &log, &kept.valid)?;
    let newest = kept
        .valid
        .first()
        .map(|file| types::log_id(file.term, file.index));
    if loaded.position > log.last() {
        if newest < loaded.position {
            return Err(corrupt(format!(
                "the checkpoint holds entry {} and the log ends at {}: the log was lost or is \
                 older",
                loaded.position.map_or(0, |id| id.index()),
                log.last().map_or(0, |id| id.index()),
            )));
        }
        // A snapshot was installed, and the log before it not purged yet: openraft does that now.
        let installed = loaded.position.map_or(0, |id| id.index());
        purge_floor.store(installed.max(floor), Ordering::Release);
    }
    let covered = loaded
        .position
        .map(|id| id.index())
        .max(kept.valid.first().map(|file| file.index));
    if log.purged().map(|id| id.index()) > covered {
        return Err(corrupt(
            "the log begins after what the checkpoint and the snapshots hold".to_owned(),
        ));
    }
    Ok(Storage {
        wal,
        log,
        loaded,
        purge_floor,
    })
}

/// The state as found: sled's, else the newest valid snapshot's, else that of the whole log.
fn load(
    local: &Local,
    cluster_id: &str,
    log: &LogStore,
    kept: &[SnapshotFile],
) -> Result<Loaded, Stop> {
    let root = local.folder.root();
    let failed = |e: io::Error| folder::disk_failure("the state could not be opened", &e);
    let is_new = log.is_pristine();
    let opened = checkpoint::open(root, cluster_id, is_new).map_err(failed)?;
    let (why, moved_to) = match opened {
        Opened::Good {
            store,
            rows,
            applied,
        } => {
            let (position, membership) =
                checkpointer::restore_position(&applied.log_id, &applied.membership)
                    .map_err(failed)?;
            let state = State::from_rows(rows)
                .map_err(|e| corrupt(format!("the checkpoint cannot be read: {e}")))?;
            let store = Box::new(store);
            return Ok(Loaded {
                state,
                position,
                membership,
                store,
                rebuilt: false,
            });
        }
        Opened::Empty { store } => {
            return Ok(Loaded {
                state: State::default(),
                position: None,
                membership: StoredMembership::default(),
                store: Box::new(store),
                rebuilt: false,
            });
        }
        Opened::SetAside { why, moved_to } => (why, moved_to),
    };
    tracing::warn!(%why, ?moved_to, "the checkpoint is not usable and is rebuilt from snapshot and log");
    if let Some(file) = kept.first() {
        let (state, store) = checkpointer::load(file, root, cluster_id).map_err(failed)?;
        let (position, membership) =
            checkpointer::restore_position(&file.log_id, &file.membership).map_err(failed)?;
        return Ok(Loaded {
            state,
            position,
            membership,
            store,
            rebuilt: true,
        });
    }
    if log.purged().is_some() {
        return Err(corrupt(
            "no valid snapshot is left, and the log was purged".to_owned(),
        ));
    }
    let store = checkpoint::create_empty(root, cluster_id).map_err(failed)?;
    Ok(Loaded {
        state: State::default(),
        position: None,
        membership: StoredMembership::default(),
        store: Box::new(store),
        rebuilt: true,
    })
}

fn wal_refused(error: &WalError) -> Stop {
    match error {
        WalError::Corrupt { .. } => Stop {
            exit: 10,
            code: "corrupt",
            message: error.to_string(),
        },
        WalError::NewerFormat { .. } => folder::refusal("newer-format", error.to_string()),
        WalError::Option { .. } => folder::invariant(error.to_string()),
        WalError::Io {
            path,
            doing,
            source,
        } => folder::disk_failure(&format!("cannot {doing} {}", path.display()), source),
    }
}

fn corrupt(what: String) -> Stop {
    Stop {
        exit: 10,
        code: "corrupt",
        message: format!("{what}; remove this member, empty its folder, and add the machine again"),
    }
}
