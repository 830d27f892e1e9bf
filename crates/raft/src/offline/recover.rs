//! `data recover-quorum`: what one node still has becomes a new cluster of that node, in place.
//!
//! Its state is its newest snapshot and every entry of its log, to the end: more than is known to
//! be committed, and perhaps less than was acknowledged.
//!
//! The new folder is built in one inside the old, and takes its place in steps that each survive a
//! crash. In between the folder is marked as refused, so that it is never started half way:
//!
//! 1. mark; build `successor-new` whole; rename it to `successor`: from here on it is certain;
//! 2. move everything old into `before-<cluster>`; rename `successor` to `successor-in`;
//! 3. move everything of it into the folder; remove it; take the mark away.
//!
//! What is interrupted in 1 is begun again, what is interrupted later is finished. What was there
//! before is never removed, and nothing at all changes before somebody has agreed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openraft::entry::RaftEntry as _;
use seqd_disk::{Disk, OsDisk, create_dir_durable, read_file, replace_file};
use seqd_state::State;
use seqd_wal::Inspection;

use super::inspect::DISK;
use super::restore;
use super::takeover::{
    NewMember, Source, Successor, Takeover, Wishes, from_io, from_stop, take_over,
};
use super::{FolderLock, OfflineError};
use crate::records::{self, LogIdRecord};
use crate::storage::folder::{Folder, Identity, refusal};
use crate::storage::snapshot_file;
use crate::types::{LogId, Payload, StoredMembership};

/// The word in the mark of a folder that is being recovered.
const UNFINISHED: &str = "recovery-unfinished";

const NEW: &str = "successor-new";
const WHOLE: &str = "successor";
const MOVING_IN: &str = "successor-in";

/// What the old content is called once it is moved away; the old cluster's ID follows.
const BEFORE: &str = "before-";

/// The most bytes of the small files that are carried over.
const SMALL_FILE_BYTES: usize = 64 << 10;

/// What is recovered.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// The folder of a stopped node.
    pub data_dir: PathBuf,
    /// Another name for the node.
    pub name: Option<String>,
    /// Another peer address, `HOST:PORT`.
    pub peer: Option<String>,
    /// Another client address.
    pub http: Option<String>,
    /// What else the operator says.
    pub wishes: Wishes,
}

/// What there is to do in a folder.
pub enum Recovery {
    /// A recovery that can be carried out.
    Planned(Box<Recovering>),
    /// One that was interrupted after its outcome was certain.
    Unfinished(Unfinished),
}

/// A recovery that can be carried out. It holds the folder's lock.
pub struct Recovering {
    takeover: Takeover,
    successor: Successor,
    root: PathBuf,
    /// Nothing where the folder has no lock file: then nobody uses it.
    lock: Option<FolderLock>,
    /// What it is carried out on.
    pub(super) disk: Arc<dyn Disk>,
}

/// A recovery whose new folder is whole, and not in its place yet.
pub struct Unfinished {
    root: PathBuf,
    lock: FolderLock,
}

impl Recovery {
    /// Reads the folder and says what it would become; writes nothing in it and removes nothing.
    ///
    /// # Errors
    /// Whatever is wrong with the folder or the wishes.
    pub fn plan(options: RecoveryOptions) -> Result<Self, OfflineError> {
        let RecoveryOptions {
            data_dir: root,
            name,
            peer,
            http,
            wishes,
        } = options;
        if [WHOLE, MOVING_IN]
            .iter()
            .any(|name| root.join(name).is_dir())
        {
            let lock = FolderLock::to_change(&root)?;
            return Ok(Self::Unfinished(Unfinished { root, lock }));
        }
        if !root.join("identity").is_file() {
            return Err(no_identity(&root));
        }
        let lock = lock_if_any(&root)?;
        let folder = Folder::of_tool(Arc::new(DISK), &root, UNFINISHED).map_err(from_stop)?;
        let identity = folder
            .identity()
            .map_err(from_stop)?
            .ok_or_else(|| no_identity(&root))?;
        let source = read(&folder, &identity)?;
        let own = source
            .membership
            .nodes()
            .find(|(id, _)| **id == identity.node)
            .map(|(_, own)| (own.peer.clone(), own.http.clone()))
            .or_else(|| {
                let own = identity.members.iter().find(|m| m.node == identity.node)?;
                Some((own.peer.clone(), own.http.clone()))
            });
        let (own_peer, own_http) = own.unzip();
        let Some((peer, http)) = peer.or(own_peer).zip(http.or(own_http)) else {
            let text = "the folder does not say where this node is reached";
            return Err(OfflineError::new("invalid-argument", text)
                .with_hint("--peer HOST:PORT and --http URL"));
        };
        let name = name.unwrap_or_else(|| identity.name.clone());
        let member = NewMember { name, peer, http };
        let (successor, takeover) = take_over(source, member, &wishes)?;
        Ok(Self::Planned(Box::new(Recovering {
            takeover,
            successor,
            root,
            lock,
            disk: Arc::new(OsDisk),
        })))
    }
}

impl Recovering {
    /// What will be done.
    #[must_use]
    pub fn takeover(&self) -> &Takeover {
        &self.takeover
    }

    /// Puts the new cluster in the old one's place. Returns where the old content is kept. `said` is
    /// what whoever agreed to it was told: it is told again if this is interrupted.
    ///
    /// # Errors
    /// What the disk says. A repeated recovery begins again or finishes this one.
    pub fn carry_out(mut self, said: &str) -> Result<PathBuf, OfflineError> {
        if self.lock.is_none() {
            let path = self.root.join("LOCK");
            self.disk.create(&path).map_err(from_io(&path))?;
            self.lock = Some(FolderLock::to_change(&self.root)?);
        }
        let root = &self.root;
        let failed = from_io(root);
        let folder =
            Folder::of_tool(Arc::clone(&self.disk), root, UNFINISHED).map_err(from_stop)?;
        let mark = refusal(
            UNFINISHED,
            "a recovery of this folder was interrupted: repeat `seqd data recover-quorum`"
                .to_owned(),
        );
        folder.mark_refused(&mark).map_err(&failed)?;
        if let Err(error) = self.build(said) {
            // Without its certain name the new folder is nothing, and the old content can be started,
            // or recovered, as before. With it the recovery is to be finished.
            if !root.join(WHOLE).exists() {
                let _ = self.disk.remove_dir_all(&root.join(NEW));
                let _ = folder.unmark_refused();
            }
            return Err(failed(error));
        }
        put_in_place(&*self.disk, root, &self.takeover.from_cluster).map_err(&failed)
    }

    /// The new folder, whole, under the name that makes it certain.
    fn build(&self, said: &str) -> io::Result<()> {
        let (disk, root, path) = (&self.disk, &self.root, self.root.join(NEW));
        // What an interrupted recovery left before its outcome was certain.
        if disk.kind(&path)?.is_some() {
            disk.remove_dir_all(&path)?;
        }
        create_dir_durable(&**disk, &path)?;
        let new =
            Folder::open(Arc::clone(disk), &path).map_err(|stop| io::Error::other(stop.message))?;
        // The start numbers go on, and so does what tells a clock that went back.
        for name in ["boot", "last-tick"] {
            if let Some(bytes) = read_file(&**disk, &root.join(name), SMALL_FILE_BYTES)? {
                replace_file(&**disk, &path.join(name), &bytes)?;
            }
        }
        let from = self.takeover.from_cluster.as_bytes();
        replace_file(&**disk, &path.join(FROM), from)?;
        replace_file(&**disk, &path.join(SAID), said.as_bytes())?;
        self.successor.write(&new)?;
        disk.sync_dir(&path)?;
        disk.rename(&path, &root.join(WHOLE))?;
        disk.sync_dir(root)
    }
}

impl Unfinished {
    /// What was said before it was begun.
    ///
    /// # Errors
    /// What the disk says.
    pub fn said(&self) -> Result<Option<String>, OfflineError> {
        let said = self.read(SAID, SAID_BYTES)?;
        Ok(said.map(|said| String::from_utf8_lossy(&said).into_owned()))
    }

    /// Finishes it. Returns where the old content is kept.
    ///
    /// # Errors
    /// What the disk says; it can be repeated.
    pub fn finish(self) -> Result<PathBuf, OfflineError> {
        let from = self.read(FROM, SMALL_FILE_BYTES)?.unwrap_or_default();
        let from = String::from_utf8_lossy(&from).into_owned();
        let kept = put_in_place(&OsDisk, &self.root, &from).map_err(from_io(&self.root))?;
        drop(self.lock);
        Ok(kept)
    }

    /// A file that is about the recovery and no part of the new folder.
    fn read(&self, name: &str, limit: usize) -> Result<Option<Vec<u8>>, OfflineError> {
        let found = [WHOLE, MOVING_IN].iter().find_map(|folder| {
            let path = self.root.join(folder).join(name);
            read_file(&OsDisk, &path, limit).transpose()
        });
        found.transpose().map_err(from_io(&self.root))
    }
}

/// The folder's lock. One without a lock file is used by nobody, and gets one once it is changed.
fn lock_if_any(root: &Path) -> Result<Option<FolderLock>, OfflineError> {
    if OsDisk
        .kind(&root.join("LOCK"))
        .map_err(from_io(root))?
        .is_none()
    {
        return Ok(None);
    }
    Ok(Some(FolderLock::to_change(root)?))
}

/// Names the old cluster inside a new folder that is not in its place yet.
const FROM: &str = "from-cluster";

/// Holds what was said before the recovery was begun, inside the same.
const SAID: &str = "said";

/// The most bytes of what was said: a line for each of ten million sequences.
const SAID_BYTES: usize = 1 << 30;

/// Steps 2 and 3; each of them can be repeated. Everything is on one file system, so a rename moves.
fn put_in_place(disk: &dyn Disk, root: &Path, from_cluster: &str) -> io::Result<PathBuf> {
    let kept = root.join(format!("{BEFORE}{from_cluster}"));
    if root.join(WHOLE).is_dir() {
        create_dir_durable(disk, &kept)?;
        for name in disk.list(root)? {
            if !stays(&name) {
                disk.rename(&root.join(&name), &kept.join(&name))?;
            }
        }
        disk.sync_dir(&kept)?;
        disk.rename(&root.join(WHOLE), &root.join(MOVING_IN))?;
        disk.sync_dir(root)?;
    }
    let moving = root.join(MOVING_IN);
    if moving.is_dir() {
        // What belongs to the folder around it already is there.
        for name in disk.list(&moving)? {
            if !matches!(name.as_str(), "LOCK" | "format" | FROM | SAID) {
                disk.rename(&moving.join(&name), &root.join(&name))?;
            }
        }
        disk.sync_dir(root)?;
        disk.sync_dir(&moving)?;
        disk.remove_dir_all(&moving)?;
        disk.sync_dir(root)?;
    }
    if root.join("refused").is_file() {
        disk.remove(&root.join("refused"))?;
        disk.sync_dir(root)?;
    }
    Ok(kept)
}

/// Whether a name in the folder is neither old content nor new.
fn stays(name: &str) -> bool {
    matches!(
        name,
        "LOCK" | "lost+found" | "format" | "refused" | WHOLE | MOVING_IN
    ) || name.starts_with(BEFORE)
}

fn no_identity(root: &Path) -> OfflineError {
    let text = format!(
        "{} is not the folder of a node: it has no identity",
        root.display()
    );
    OfflineError::new("not-found", text)
}

/// The state as far as this folder knows it.
fn read(folder: &Folder, identity: &Identity) -> Result<Source, OfflineError> {
    let root = folder.root();
    let log = seqd_wal::inspect(&**folder.disk(), &folder.wal())
        .map_err(|error| OfflineError::new("failure", error.to_string()))?;
    if let Some(damage) = &log.damage {
        return Err(
            OfflineError::new("corrupt", damage.to_string()).with_hint(format!(
                "recover from another node's folder, or restore the newest of {}",
                folder.snapshots().join("*.snap").display()
            )),
        );
    }
    let mut source = newest_snapshot(folder, identity)?;
    let first = match &source {
        Some(source) => source.position.index() + 1,
        None => 0,
    };
    if log.next_index() > first && log.first_index() > first {
        let gap = format!(
            "{}: its log begins at entry {} and its snapshots end before",
            root.display(),
            log.first_index()
        );
        return Err(OfflineError::new("corrupt", gap));
    }
    for index in first..log.next_index() {
        apply(&mut source, &log, index).map_err(from_io(root))?;
    }
    let Some(mut source) = source else {
        let text = format!("{}: it has neither a snapshot nor a log", root.display());
        return Err(OfflineError::new("not-found", text));
    };
    let proven = log
        .committed
        .as_ref()
        .map(|bytes| records::decode::<LogIdRecord>(bytes))
        .transpose()
        .map_err(from_io(root))?
        .map_or(0, |id| id.index)
        .max(first.saturating_sub(1));
    source.unproven_entries = source.position.index().saturating_sub(proven);
    source.path = root.to_owned();
    source.ancestors.clone_from(&identity.ancestors);
    Ok(source)
}

/// The newest snapshot of this cluster that can be read in full.
fn newest_snapshot(folder: &Folder, identity: &Identity) -> Result<Option<Source>, OfflineError> {
    let snapshots = folder.snapshots();
    if !snapshots.is_dir() {
        return Ok(None);
    }
    let listed = snapshot_file::list(&**folder.disk(), &snapshots).map_err(from_io(&snapshots))?;
    for file in listed {
        if file.cluster_id != identity.cluster_id {
            continue;
        }
        match restore::read(&file.path) {
            Ok(source) => return Ok(Some(source)),
            // The one before it and a longer piece of the log stand for a bad one.
            Err(error) if error.code == "corrupt" => {
                tracing::warn!(path = %file.path.display(), %error, "a snapshot is not usable");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn apply(source: &mut Option<Source>, log: &Inspection, index: u64) -> io::Result<()> {
    let lost = || {
        let text = format!("entry {index} is not in the log");
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let entry = records::decode_entry(&log.entry(index)?.ok_or_else(lost)?)?;
    let id: LogId = entry.log_id();
    let source = source.get_or_insert_with(|| Source {
        path: PathBuf::new(),
        state: State::new(),
        position: id,
        membership: StoredMembership::default(),
        unproven_entries: 0,
        ancestors: Vec::new(),
    });
    match &entry.payload {
        Payload::Blank => {}
        Payload::Normal(proposal) => {
            source.state.apply(&proposal.0);
        }
        Payload::Membership(membership) => {
            source.membership = StoredMembership::new(Some(id), membership.clone());
        }
    }
    source.position = id;
    Ok(())
}
