//! A disk in memory whose power can fail, for tests.
//!
//! It distinguishes synced data from data that was only written. [`SimulatedDisk::cut`] returns a
//! disk as a power cut at this moment may leave it:
//!
//! - Of the bytes written since the last sync of their file, each sector of 512 bytes has survived
//!   or not, possibly in an intermediate version. The same applies to the length. There is no order
//!   between sectors or between files.
//! - Of the names created, changed and removed since the last sync of their folder, each change has
//!   survived or not. A rename is atomic: over an existing file it leaves the old or the new one.
//! - `fdatasync` and `fsync` make bytes and length durable, but not the name. [`Disk::sync_dir`]
//!   makes the names in one folder durable, but not the name of that folder.
//! - After a failed sync of a file, the data that it should have written counts as clean: the next
//!   sync returns `Ok`, and the data may or may not be on the disk, as with Linux.
//! - After a sync of a folder failed with `EIO`, the journal has aborted: nothing is changed or
//!   synced any more until the machine restarts, as with ext4 and xfs.
//!
//! [`SimulatedDisk::cut_at`] cuts the power in the middle of running code. Faults ([`Fault`]) make
//! selected calls fail. Lies ([`SimulatedDisk::set_lie`]) make them return `Ok` without effect.
//! Every operation is recorded.
//!
//! It does not model damaged file system metadata, decaying sectors, or hard links.

mod content;
mod controls;
mod dice;
mod file;
mod names;
mod operation;
#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use dice::Dice;
pub use operation::{Call, Failure, Fault, Operation, Outcome};

use crate::{Disk, DiskFile, Kind, Space};
use content::Content;
use file::SimulatedFile;
use names::{Names, NodeId};
use operation::{Lie, power_is_off};
use tree::{Node, Tree, parts};

/// A held sync continues after this time, so that a failing test can still close its log.
const HOLD_LIMIT: Duration = Duration::from_secs(20);

/// The size that [`Disk::space`] reports, more than any test writes.
const BYTES: u64 = 1 << 40;

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    tree: Tree,
    operations: Vec<Operation>,
    numbered: u64,
    power_fails_at: Option<u64>,
    power_is_off: bool,
    /// The journal has aborted: every change is refused.
    read_only: bool,
    faults: Vec<Fault>,
    full: bool,
    lie: Option<Lie>,
    syncs_held: bool,
    syncs_waiting: usize,
    let_through: usize,
}

/// The handling of a call.
enum CallHandling {
    Go,
    /// Return `Ok` and do nothing.
    Lie,
    /// Perform the call or not, and return an error.
    PowerFails,
    Fail(Failure),
}

impl SimulatedDisk {
    fn from_tree(tree: Tree, lie: Option<Lie>) -> Self {
        let state = State {
            tree,
            operations: Vec::new(),
            numbered: 0,
            power_fails_at: None,
            power_is_off: false,
            read_only: false,
            faults: Vec::new(),
            full: false,
            lie,
            syncs_held: false,
            syncs_waiting: 0,
            let_through: 0,
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn open_node(&self, path: &Path, read_only: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.begin_look(Call::Open, path)?;
        let node = state.tree.find(path)?;
        match state.tree.nodes.get(&node) {
            Some(Node::File(_)) => Ok(self.handle(node, read_only)),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn handle(&self, node: NodeId, read_only: bool) -> Arc<dyn DiskFile> {
        Arc::new(SimulatedFile {
            disk: self.clone(),
            node,
            read_only,
        })
    }

    fn hold<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !state.syncs_held {
            return state;
        }
        state.syncs_waiting += 1;
        self.shared.changed.notify_all();
        let held = |state: &mut State| state.syncs_held && state.let_through == 0;
        let woken = self
            .shared
            .changed
            .wait_timeout_while(state, HOLD_LIMIT, held);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
        state.let_through = state.let_through.saturating_sub(1);
        state.syncs_waiting -= 1;
        self.shared.changed.notify_all();
        state
    }
}

impl State {
    /// Records an operation and decides how it is handled.
    fn begin(&mut self, operation: Operation) -> io::Result<CallHandling> {
        self.record(operation)?;
        Ok(self.judge())
    }

    fn record(&mut self, mut operation: Operation) -> io::Result<()> {
        if self.power_is_off {
            return Err(power_is_off());
        }
        if self.read_only {
            return Err(rustix::io::Errno::ROFS.into());
        }
        self.numbered += 1;
        operation.number = self.numbered;
        self.operations.push(operation);
        Ok(())
    }

    /// Decides how the last recorded operation is handled.
    fn judge(&mut self) -> CallHandling {
        let Some(operation) = self.operations.last_mut() else {
            return CallHandling::Go;
        };
        if self.power_fails_at.is_some_and(|at| operation.number >= at) {
            self.power_is_off = true;
            operation.outcome = Outcome::PowerFailed;
            return CallHandling::PowerFails;
        }
        let (call, path) = (operation.call, &operation.path);
        let struck = self
            .faults
            .iter_mut()
            // A short write was already handled before it began.
            .filter(|fault| call != Call::Write || fault.short_len().is_none())
            .find_map(|fault| fault.strikes(call, path));
        if let Some(failure) = struck {
            operation.outcome = Outcome::Failed;
            self.faults.retain(|fault| !fault.is_spent());
            return CallHandling::Fail(failure);
        }
        if self.lie.as_ref().is_some_and(|lie| lie(operation)) {
            operation.outcome = Outcome::Lied;
            return CallHandling::Lie;
        }
        CallHandling::Go
    }

    fn refused<T>(&mut self, error: io::Error) -> io::Result<T> {
        if let Some(operation) = self.operations.last_mut() {
            operation.outcome = Outcome::Refused;
        }
        Err(error)
    }

    /// A call that changes nothing. It is not recorded but may fail.
    fn begin_look(&mut self, call: Call, path: &Path) -> io::Result<()> {
        if self.power_is_off {
            return Err(power_is_off());
        }
        match self
            .faults
            .iter_mut()
            .find_map(|fault| fault.strikes(call, path))
        {
            Some(failure) => Err(failure.error()),
            None => Ok(()),
        }
    }

    /// Changes names by `change`, if that is possible.
    fn change(
        &mut self,
        operation: Operation,
        change: impl FnOnce(&mut Tree) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.begin(operation)? {
            CallHandling::Lie => Ok(()),
            CallHandling::Fail(failure) => Err(failure.error()),
            CallHandling::Go => match change(&mut self.tree) {
                Ok(()) => Ok(()),
                Err(error) => self.refused(error),
            },
            CallHandling::PowerFails => {
                // The change may have reached the cache, and from there the disk.
                let _ = change(&mut self.tree);
                Err(power_is_off())
            }
        }
    }

    fn content(&mut self, node: NodeId) -> io::Result<&mut Content> {
        match self.tree.nodes.get_mut(&node) {
            Some(Node::File(content)) => Ok(content),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Changes the content of a file.
    fn change_content(
        &mut self,
        node: NodeId,
        operation: Operation,
        to_len: u64,
        change: impl FnOnce(&mut Content),
    ) -> io::Result<()> {
        match self.begin(operation)? {
            CallHandling::Lie => return Ok(()),
            CallHandling::Fail(failure) => return Err(failure.error()),
            CallHandling::Go | CallHandling::PowerFails => {}
        }
        if self.full && to_len > self.content(node)?.len() {
            return self.refused(Failure::NoSpace.error());
        }
        change(self.content(node)?);
        if self.power_is_off {
            return Err(power_is_off());
        }
        Ok(())
    }

    fn sync(&mut self, node: NodeId) -> io::Result<()> {
        let verdict = if self.power_is_off {
            CallHandling::PowerFails
        } else {
            self.judge()
        };
        let made = match verdict {
            CallHandling::Lie => return Ok(()),
            CallHandling::PowerFails => return Err(power_is_off()),
            CallHandling::Go => true,
            CallHandling::Fail(_) => false,
        };
        match self.tree.nodes.get_mut(&node) {
            Some(Node::File(content)) if made => content.sync(),
            Some(Node::File(content)) => content.fail_sync(),
            Some(Node::Folder(names)) if made => names.sync(),
            Some(Node::Folder(_)) => {
                self.read_only = matches!(verdict, CallHandling::Fail(Failure::InputOutput))
            }
            None => {}
        }
        match verdict {
            CallHandling::Fail(failure) => Err(failure.error()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimulatedDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut at = PathBuf::from("/");
        for name in parts(path) {
            at.push(name);
            let mut state = self.lock();
            match state.tree.find(&at) {
                Ok(node) => state.tree.names(node).map(drop)?,
                Err(_) => state.change(Operation::new(Call::CreateDir, &at), |tree| {
                    tree.add(&at, Node::Folder(Names::default())).map(drop)
                })?,
            }
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.begin_look(Call::Look, path)?;
        let folder = state.tree.find(path)?;
        Ok(state
            .tree
            .names(folder)?
            .iter()
            .map(|(name, _)| name.clone())
            .collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let mut state = self.lock();
        state.begin_look(Call::Look, path)?;
        match state.tree.find(path) {
            Ok(node) => Ok(state.tree.nodes.get(&node).map(|node| match node {
                Node::File(_) => Kind::File,
                Node::Folder(_) => Kind::Folder,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open_node(path, false)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open_node(path, true)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        let mut made = None;
        state.change(Operation::new(Call::Create, path), |tree| {
            made = Some(tree.add(path, Node::File(Content::default()))?);
            Ok(())
        })?;
        match made {
            Some(node) => Ok(self.handle(node, false)),
            // A lie skipped the creation, so there is no file to return.
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let operation = Operation {
            to: Some(to.to_path_buf()),
            ..Operation::new(Call::Rename, from)
        };
        self.lock().change(operation, |tree| tree.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock()
            .change(Operation::new(Call::Remove, path), |tree| tree.remove(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let operation = Operation::new(Call::RemoveDir, path);
        self.lock().change(operation, |tree| tree.remove_all(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let folder = state
            .tree
            .find(path)
            .and_then(|node| state.tree.names(node).map(|_| node));
        state.record(Operation::new(Call::SyncDir, path))?;
        match folder {
            Ok(folder) => state.sync(folder),
            Err(error) => state.refused(error),
        }
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        let free = if self.lock().full { 0 } else { BYTES };
        Ok(Space { total: BYTES, free })
    }
}
