//! `data recover-quorum`: turns the remaining data of one node into a new cluster of that node, in
//! place.
//!
//! The new state consists of the newest snapshot of the node and every entry of its log: possibly
//! more than was committed, and possibly less than was acknowledged.
//!
//! The new folder is built inside the old one and replaces it in steps that each survive a crash.
//! In between the folder is refused, so that a start never uses an intermediate state:
//!
//! 1. Refuse the folder, build `successor-new` completely, and rename it to `successor`. From here
//!    on the outcome is certain.
//! 2. Move all old content into `before-<cluster>`, and rename `successor` to `successor-in`.
//! 3. Move all of its content into the folder, remove the refusal, and remove the rest of
//!    `successor-in`.
//!
//! A recovery that is interrupted in step 1 begins again; a later interruption is completed by the
//! next run. The old content is never removed, and nothing changes before the operator has agreed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, Kind, OsDisk, create_dir_durable, read_file, replace_file};

use super::error::{OfflineError, from_io, from_stop};
use super::files::DISK;
use super::lock::{FolderLock, check_folder};
use super::remains;
use super::takeover::{Successor, Takeover, TakeoverOptions, take_over};
use seqd_store::folder::{Folder, refused_code};
use seqd_store::records::Member;
use seqd_store::stop::Stop;

/// The code of the refusal of a folder that is being recovered.
const UNFINISHED: &str = "recovery-unfinished";

const NEW: &str = "successor-new";
const WHOLE: &str = "successor";
const MOVING_IN: &str = "successor-in";

/// The prefix of the folder with the old content. The ID of the old cluster follows.
const BEFORE: &str = "before-";

/// The largest size of a copied small file in bytes.
const SMALL_FILE_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    pub data_dir: PathBuf,
    pub name: Option<String>,
    /// A new peer address, `HOST:PORT`.
    pub peer: Option<String>,
    pub http: Option<String>,
    pub takeover: TakeoverOptions,
}

/// The required action for a folder.
pub enum Recovery {
    /// A recovery that can be carried out.
    Planned(Box<Recovering>),
    /// A recovery that was interrupted after its outcome was certain.
    Unfinished(Unfinished),
}

/// A recovery that can be carried out. It holds the lock of the folder.
pub struct Recovering {
    takeover: Takeover,
    successor: Successor,
    root: PathBuf,
    /// `None` if the folder has no lock file, because no process uses it then.
    lock: Option<FolderLock>,
    pub(super) disk: Arc<dyn Disk>,
}

/// A recovery whose new folder is complete but not in its place yet.
pub struct Unfinished {
    root: PathBuf,
    lock: FolderLock,
}

impl Recovery {
    /// Reads the folder and reports the result of a recovery. Writes and removes nothing in the
    /// folder.
    pub fn plan(options: RecoveryOptions) -> Result<Self, OfflineError> {
        let RecoveryOptions {
            data_dir: root,
            name,
            peer,
            http,
            takeover,
        } = options;
        check_folder(&root)?;
        if is_unfinished(&root)? {
            let lock = FolderLock::to_change(&root)?;
            return Ok(Self::Unfinished(Unfinished { root, lock }));
        }
        let kind = OsDisk.kind(&root.join("identity"));
        if kind.map_err(from_io(&root))? != Some(Kind::File) {
            return Err(no_identity(&root));
        }
        let lock = lock_if_any(&root)?;
        let folder = Folder::of_tool(Arc::new(DISK), &root, UNFINISHED).map_err(from_stop)?;
        let identity = folder
            .identity()
            .map_err(from_stop)?
            .ok_or_else(|| no_identity(&root))?;
        check_kept(&root, &identity.cluster_id)?;
        let source = remains::read(&folder, &identity)?;
        let own = source
            .membership
            .membership
            .nodes
            .get(&identity.node)
            .or_else(|| {
                let mut members = identity.members.iter();
                let (_, own) = members.find(|(node, _)| *node == identity.node)?;
                Some(own)
            });
        let own = own.map(|own| (own.peer.clone(), own.http.clone()));
        let (own_peer, own_http) = own.unzip();
        let Some((peer, http)) = peer.or(own_peer).zip(http.or(own_http)) else {
            let text = "the folder does not contain an address of this node";
            return Err(OfflineError::new("invalid-argument", text)
                .with_hint("--peer HOST:PORT and --http URL"));
        };
        let name = name.unwrap_or_else(|| identity.name.clone());
        let member = Member { name, peer, http };
        let (successor, takeover) = take_over(source, member, &takeover)?;
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
    #[must_use]
    pub fn takeover(&self) -> &Takeover {
        &self.takeover
    }

    /// Replaces the old cluster by the new one. Returns the path of the old content. `consent` is
    /// the text that the operator agreed to; it is printed again after an interruption.
    ///
    /// # Errors
    /// Another process used a folder that had no lock, or an error of the disk. A repeated recovery
    /// begins again or completes this one.
    pub fn carry_out(mut self, consent: &str) -> Result<PathBuf, OfflineError> {
        if self.lock.is_none() {
            let lock = FolderLock::of_unused(&self.root)?;
            self.lock = Some(lock.ok_or_else(|| used_meanwhile(&self.root))?);
        }
        let root = &self.root;
        let failed = from_io(root);
        let folder =
            Folder::of_tool(Arc::clone(&self.disk), root, UNFINISHED).map_err(from_stop)?;
        let mark = "a recovery of this folder was interrupted: repeat `seqd data recover-quorum`";
        // Together with the refusal, this name would mean that this recovery must be completed.
        self.remove_left(MOVING_IN).map_err(&failed)?;
        folder.mark_refused(UNFINISHED, mark).map_err(&failed)?;
        if let Err(error) = self.build(consent) {
            // Without the certain name, the new folder has no meaning, and the old content can be
            // started or recovered as before. With that name, or if its existence is unknown, the
            // recovery must be completed.
            if matches!(self.disk.kind(&root.join(WHOLE)), Ok(None)) {
                let _ = self.disk.remove_dir_all(&root.join(NEW));
                let _ = folder.unmark_refused();
            }
            return Err(failed(error));
        }
        put_in_place(&*self.disk, root, &self.takeover.from_cluster).map_err(&failed)
    }

    /// Removes the remains of a recovery that was interrupted before its outcome was certain, or
    /// after its end.
    fn remove_left(&self, name: &str) -> io::Result<()> {
        let left = self.root.join(name);
        if self.disk.kind(&left)?.is_none() {
            return Ok(());
        }
        self.disk.remove_dir_all(&left)?;
        self.disk.sync_dir(&self.root)
    }

    /// Builds the complete new folder and gives it the name that makes the outcome certain.
    fn build(&self, consent: &str) -> io::Result<()> {
        let (disk, root, path) = (&self.disk, &self.root, self.root.join(NEW));
        self.remove_left(NEW)?;
        create_dir_durable(&**disk, &path)?;
        let new =
            Folder::open(Arc::clone(disk), &path).map_err(|stop| io::Error::other(stop.message))?;
        // The boot number continues, and so does the mark that detects a clock that stepped back.
        for name in ["boot", "last-tick"] {
            if let Some(bytes) = read_file(&**disk, &root.join(name), SMALL_FILE_BYTES)? {
                replace_file(&**disk, &path.join(name), &bytes)?;
            }
        }
        let from = self.takeover.from_cluster.as_bytes();
        replace_file(&**disk, &path.join(FROM), from)?;
        replace_file(&**disk, &path.join(CONSENT_FILE), consent.as_bytes())?;
        self.successor.write(&new)?;
        disk.sync_dir(&path)?;
        disk.rename(&path, &root.join(WHOLE))?;
        disk.sync_dir(root)
    }
}

impl Unfinished {
    /// Returns the text that the operator agreed to at the beginning.
    pub fn consent(&self) -> Result<Option<String>, OfflineError> {
        let consent = self.read(CONSENT_FILE, MAX_CONSENT_BYTES)?;
        Ok(consent.map(|consent| String::from_utf8_lossy(&consent).into_owned()))
    }

    /// Completes the recovery. Returns the path of the old content.
    pub fn finish(self) -> Result<PathBuf, OfflineError> {
        let from = self.read(FROM, SMALL_FILE_BYTES)?.unwrap_or_default();
        if from.is_empty() {
            let text = format!(
                "{}: the new folder of an interrupted recovery has no `{FROM}`, which names the \
                 cluster whose content is kept",
                self.root.display()
            );
            return Err(OfflineError::new("corrupt", text));
        }
        let from = String::from_utf8_lossy(&from).into_owned();
        let kept = put_in_place(&OsDisk, &self.root, &from).map_err(from_io(&self.root))?;
        drop(self.lock);
        Ok(kept)
    }

    /// Reads a file that belongs to the recovery and not to the new folder.
    fn read(&self, name: &str, limit: usize) -> Result<Option<Vec<u8>>, OfflineError> {
        let found = [WHOLE, MOVING_IN].iter().find_map(|folder| {
            let path = self.root.join(folder).join(name);
            read_file(&OsDisk, &path, limit).transpose()
        });
        found.transpose().map_err(from_io(&self.root))
    }
}

/// Takes the lock of the folder. A folder without a lock file is not in use, and receives one when
/// it is changed.
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

/// The name of the file with the ID of the old cluster, in a new folder that is not in its place
/// yet.
const FROM: &str = "from-cluster";

/// The name of the file with the text that the operator agreed to, in the same folder.
const CONSENT_FILE: &str = "said";

/// The largest size of that text in bytes: one line for each of ten million sequences.
const MAX_CONSENT_BYTES: usize = 1 << 30;

/// Performs steps 2 and 3, both of which can be repeated. Everything is on one file system, so a
/// rename moves it.
fn put_in_place(disk: &dyn Disk, root: &Path, from_cluster: &str) -> io::Result<PathBuf> {
    let kept = root.join(format!("{BEFORE}{from_cluster}"));
    if is_folder(disk, &root.join(WHOLE))? {
        create_dir_durable(disk, &kept)?;
        for name in disk.list(root)? {
            if !stays(&name) {
                disk.rename(&root.join(&name), &kept.join(&name))?;
            }
        }
        disk.sync_dir(&kept)?;
        // The moved content must not reappear after a power cut once the next name means that it
        // was moved.
        disk.sync_dir(root)?;
        disk.rename(&root.join(WHOLE), &root.join(MOVING_IN))?;
        disk.sync_dir(root)?;
    }
    let moving = root.join(MOVING_IN);
    let moves_in = is_folder(disk, &moving)?;
    if moves_in {
        // Files that belong to the surrounding folder already exist there.
        for name in disk.list(&moving)? {
            if !matches!(name.as_str(), "LOCK" | "format" | FROM | CONSENT_FILE) {
                disk.rename(&moving.join(&name), &root.join(&name))?;
            }
        }
        disk.sync_dir(root)?;
        disk.sync_dir(&moving)?;
    }
    if has_own_refusal(disk, root).map_err(|stop| io::Error::other(stop.message))? {
        disk.remove(&root.join("refused"))?;
        disk.sync_dir(root)?;
    }
    // The recovery is complete. Of the new folder, only the source of the move remains.
    if moves_in {
        disk.remove_dir_all(&moving)?;
        disk.sync_dir(root)?;
    }
    Ok(kept)
}

/// Returns whether a new folder is complete but not in its place yet. The refusal is removed when
/// all of it is in place. After that, the rest of the new folder has no meaning, whatever other
/// refusal the folder has later.
fn is_unfinished(root: &Path) -> Result<bool, OfflineError> {
    let is_refused = has_own_refusal(&OsDisk, root).map_err(from_stop)?;
    let is_there = |name| is_folder(&OsDisk, &root.join(name)).map_err(from_io(root));
    Ok(is_there(WHOLE)? || (is_refused && is_there(MOVING_IN)?))
}

fn is_folder(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    Ok(disk.kind(path)? == Some(Kind::Folder))
}

/// Returns whether the refusal of the folder comes from a recovery. A recovery removes no other
/// refusal.
fn has_own_refusal(disk: &dyn Disk, root: &Path) -> Result<bool, Stop> {
    Ok(refused_code(disk, root)?.as_deref() == Some(UNFINISHED))
}

/// Fails if the old content would be mixed with the content that an earlier recovery kept.
fn check_kept(root: &Path, cluster_id: &str) -> Result<(), OfflineError> {
    let kept = root.join(format!("{BEFORE}{cluster_id}"));
    if OsDisk.kind(&kept).map_err(from_io(&kept))?.is_none() {
        return Ok(());
    }
    let text = format!(
        "{} already exists: it contains the content of this cluster's folder, which an earlier \
         recovery kept",
        kept.display()
    );
    Err(OfflineError::new("already-exists", text)
        .with_hint("move it out of the folder, then repeat the command"))
}

/// Returns whether a name in the folder belongs neither to the old nor to the new content.
fn stays(name: &str) -> bool {
    matches!(
        name,
        "LOCK" | "lost+found" | "format" | "refused" | WHOLE | MOVING_IN
    ) || name.starts_with(BEFORE)
}

/// The error for a folder whose content no longer matches the plan, or may not.
fn used_meanwhile(root: &Path) -> OfflineError {
    let text = format!(
        "another process has used {} since this command read it",
        root.display()
    );
    OfflineError::new("folder-in-use", text).with_hint("repeat the command")
}

fn no_identity(root: &Path) -> OfflineError {
    let text = format!(
        "{} is not the folder of a node: it has no identity",
        root.display()
    );
    OfflineError::new("not-found", text)
}
