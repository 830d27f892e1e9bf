//! The controls of a simulated disk: cuts, faults, lies, held syncs, and direct access to files.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::content::Content;
use super::dice::Dice;
use super::names::Names;
use super::operation::{Call, Failure, Fault, Operation, mix};
use super::{Node, SimulatedDisk, State, Tree};

impl SimulatedDisk {
    /// Creates a disk that durably contains this folder.
    ///
    /// # Panics
    /// If the path is invalid.
    #[must_use]
    pub fn holding(folder: impl AsRef<Path>) -> Self {
        let disk = Self::from_tree(Tree::new(), None);
        let made = crate::Disk::create_dir_all(&disk, folder.as_ref());
        assert!(made.is_ok(), "{made:?}");
        disk.kept()
    }

    /// Returns the disk as a power cut at this moment leaves it, as decided by the dice. Lies
    /// remain in effect; faults, held syncs and the recorded operations are discarded.
    #[must_use]
    pub fn cut(&self, dice: &mut Dice) -> Self {
        // In the order of the tree, so that the same seed decides for the same objects.
        let mut for_names = Dice::new(dice.roll());
        self.copy(
            |content| content.cut(dice),
            |names| names.cut(&mut for_names),
        )
    }

    /// Returns the disk after a power cut that every unsynced byte and name survived.
    #[must_use]
    pub fn kept(&self) -> Self {
        self.copy(Content::kept, Names::kept)
    }

    /// Returns the disk after a power cut that nothing unsynced survived.
    #[must_use]
    pub fn lost(&self) -> Self {
        self.copy(Content::lost, Names::lost)
    }

    /// Returns the disk as a killed process leaves it on a machine that keeps running: all written
    /// data is readable, and unsynced data can still be lost.
    #[must_use]
    pub fn killed(&self) -> Self {
        let left = self.copy(Content::clone, Names::clone);
        left.lock().read_only = self.lock().read_only;
        left
    }

    fn copy(
        &self,
        content: impl FnMut(&Content) -> Content,
        names: impl FnMut(&Names) -> Names,
    ) -> Self {
        let state = self.lock();
        Self::from_tree(state.tree.left(content, names), state.lie.clone())
    }

    /// Makes the power fail during the operation with this number (the next one is
    /// [`Self::operation_count`] + 1). That operation may reach the disk or not. It and all later
    /// ones return an error. [`Self::cut`] then returns the remaining disk.
    pub fn cut_at(&self, number: u64) {
        self.lock().power_fails_at = Some(number);
    }

    /// Makes every call fail from here on.
    pub fn switch_off(&self) {
        self.lock().power_is_off = true;
    }

    #[must_use]
    pub fn is_off(&self) -> bool {
        self.lock().power_is_off
    }

    /// Returns whether a failed sync of a folder has made the disk read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.lock().read_only
    }

    pub fn plant(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Sets whether the disk is full. While it is, no file grows.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Operations selected by `lie` return `Ok` without being performed. Not supported for the
    /// creation of a file.
    pub fn set_lie(&self, lie: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        self.lock().lie = Some(Arc::new(lie));
    }

    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.lock().numbered
    }

    /// Returns the number of operations of one kind.
    #[must_use]
    pub fn count(&self, call: Call) -> u64 {
        let state = self.lock();
        state
            .operations
            .iter()
            .filter(|operation| operation.call == call)
            .count() as u64
    }

    /// Returns a hash of all operations, including the written bytes. It is equal for equal runs.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = 0;
        for operation in &self.lock().operations {
            operation.hash_into(&mut hash);
            mix(&mut hash, operation.number);
        }
        hash
    }

    /// From here on `sync_data` waits until [`Self::release_syncs`], or for twenty seconds.
    pub fn hold_syncs(&self) {
        self.lock().syncs_held = true;
    }

    pub fn release_syncs(&self) {
        self.lock().syncs_held = false;
        self.shared.changed.notify_all();
    }

    /// Lets the held sync complete. Later ones are held again.
    pub fn release_one_sync(&self) {
        let mut state = self.lock();
        state.let_through = 1;
        self.shared.changed.notify_all();
        let gone = |state: &mut State| state.let_through > 0;
        let woken = self.shared.changed.wait_while(state, gone);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until a `sync_data` is held.
    pub fn wait_for_held_sync(&self) {
        let state = self.lock();
        let none = |state: &mut State| state.syncs_waiting == 0;
        let woken = self.shared.changed.wait_while(state, none);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the content of a file as readers see it, or `None` if it does not exist.
    #[must_use]
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.lock();
        let node = state.tree.find(path.as_ref()).ok()?;
        match state.tree.nodes.get(&node)? {
            Node::File(content) => Some(content.bytes()),
            Node::Folder(_) => None,
        }
    }

    /// Creates a file durably, without a recorded operation. An existing file with this name is
    /// replaced, also for open handles. Unsynced names of its folder become durable too.
    ///
    /// # Panics
    /// If its folder does not exist.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = path.as_ref();
        let mut state = self.lock();
        let put = state.tree.put(path, Content::durable(bytes));
        assert!(put.is_ok(), "{}: {put:?}", path.display());
    }

    /// Changes a file durably, without a recorded operation.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn edit(&self, path: impl AsRef<Path>, edit: impl FnOnce(&mut Vec<u8>)) {
        let path = path.as_ref();
        let mut bytes = self.contents(path).unwrap_or_default();
        edit(&mut bytes);
        self.put(path, &bytes);
    }

    /// Removes a file or folder durably, without a recorded operation.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn delete(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let mut state = self.lock();
        let deleted = state.tree.delete(path);
        assert!(deleted.is_ok(), "{}: {deleted:?}", path.display());
    }
}

impl State {
    /// Returns the length after which a planted fault ends this write.
    pub(super) fn short_write(&mut self, operation: &Operation) -> Option<usize> {
        if self.power_is_off {
            return None;
        }
        let (call, path) = (operation.call, &operation.path);
        let mut short = None;
        for fault in &mut self.faults {
            if let Some(len) = fault.short_len() {
                short = fault.strikes(call, path).map(|_| len);
            }
            if short.is_some() {
                break;
            }
        }
        self.faults.retain(|fault| !fault.is_spent());
        short
    }
}

impl Fault {
    pub(super) fn short_len(&self) -> Option<usize> {
        match self.failure() {
            Failure::ShortWrite(len) => Some(len),
            _ => None,
        }
    }
}

impl Tree {
    fn put(&mut self, path: &Path, content: Content) -> io::Result<()> {
        match self.find(path) {
            Ok(node) => {
                self.nodes.insert(node, Node::File(content));
            }
            Err(_) => {
                self.add(path, Node::File(content))?;
            }
        }
        let (folder, _) = self.place(path)?;
        self.names_mut(folder)?.sync();
        Ok(())
    }

    fn delete(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        if self.names(folder)?.get(name).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.names_mut(folder)?.remove(name);
        self.names_mut(folder)?.sync();
        Ok(())
    }
}
