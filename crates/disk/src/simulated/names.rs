//! A simulated folder: the names that readers see, the durable names, and the changes between them.

use std::collections::BTreeMap;

use super::dice::Dice;

/// The identity of a file or folder, independent of its name.
pub(super) type NodeId = u64;

#[derive(Clone)]
enum Action {
    /// Binds the name to this node, as its only name: a creation or a rename.
    Bind(NodeId),
    Remove,
}

/// A change of one name that may not be on the disk. A rename is one change, of the new name: it is
/// atomic.
#[derive(Clone)]
struct Unsynced {
    name: String,
    action: Action,
}

#[derive(Clone, Default)]
pub(super) struct Names {
    cached: BTreeMap<String, NodeId>,
    durable: BTreeMap<String, NodeId>,
    unsynced: Vec<Unsynced>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        self.cached.get(name).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, NodeId)> {
        self.cached.iter().map(|(name, node)| (name, *node))
    }

    /// Gives the node this name and removes its old one, in one step.
    pub(super) fn bind(&mut self, name: &str, node: NodeId) {
        self.change(name, Action::Bind(node));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change(name, Action::Remove);
    }

    fn change(&mut self, name: &str, action: Action) {
        apply(&mut self.cached, name, &action);
        self.unsynced.push(Unsynced {
            name: name.to_owned(),
            action,
        });
    }

    /// Makes the changes since the last sync durable.
    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.cached);
        self.unsynced.clear();
    }

    /// Returns the folder after a power cut that any of the unsynced changes may have survived.
    pub(super) fn cut(&self, dice: &mut Dice) -> Self {
        let survival = dice.survival();
        let mut left = self.durable.clone();
        for change in &self.unsynced {
            if dice.chance(survival) {
                apply(&mut left, &change.name, &change.action);
            }
        }
        Self::all_durable(left)
    }

    /// Returns the folder as if all of it had been synced.
    pub(super) fn kept(&self) -> Self {
        Self::all_durable(self.cached.clone())
    }

    /// Returns the folder as if nothing unsynced had reached the disk.
    pub(super) fn lost(&self) -> Self {
        Self::all_durable(self.durable.clone())
    }

    fn all_durable(names: BTreeMap<String, NodeId>) -> Self {
        Self {
            cached: names.clone(),
            durable: names,
            unsynced: Vec::new(),
        }
    }

    /// Returns every node that the folder names or may name after a cut.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let bound = self
            .unsynced
            .iter()
            .filter_map(|change| match change.action {
                Action::Bind(node) => Some(node),
                Action::Remove => None,
            });
        self.cached
            .values()
            .chain(self.durable.values())
            .copied()
            .chain(bound)
    }
}

fn apply(names: &mut BTreeMap<String, NodeId>, name: &str, action: &Action) {
    match action {
        Action::Bind(node) => {
            names.retain(|_, other| other != node);
            names.insert(name.to_owned(), *node);
        }
        Action::Remove => {
            names.remove(name);
        }
    }
}
