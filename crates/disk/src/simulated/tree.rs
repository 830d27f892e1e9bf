//! All names and files of a simulated disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::names::{Names, NodeId};

const ROOT: NodeId = 0;

#[derive(Clone)]
pub(super) enum Node {
    File(Content),
    Folder(Names),
}

/// The nodes and their places in the tree.
#[derive(Clone)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// The folder and the name of each node as readers see them, for the recorded operations.
    places: BTreeMap<NodeId, (NodeId, String)>,
    next: NodeId,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Names::default()))]),
            places: BTreeMap::new(),
            next: ROOT + 1,
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for name in parts(path) {
            let Some(Node::Folder(names)) = self.nodes.get(&node) else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            node = names.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// Returns the folder of a path's last name, and that name.
    pub(super) fn place<'a>(&self, path: &'a Path) -> io::Result<(NodeId, &'a str)> {
        let name = parts(path).last().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.find(path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name))
    }

    pub(super) fn names(&self, folder: NodeId) -> io::Result<&Names> {
        match self.nodes.get(&folder) {
            Some(Node::Folder(names)) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn names_mut(&mut self, folder: NodeId) -> io::Result<&mut Names> {
        match self.nodes.get_mut(&folder) {
            Some(Node::Folder(names)) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Adds a node under a free name.
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (folder, name) = self.place(path)?;
        if self.names(folder)?.get(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.next;
        self.next += 1;
        self.names_mut(folder)?.bind(name, id);
        self.nodes.insert(id, node);
        self.places.insert(id, (folder, name.to_owned()));
        Ok(id)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (folder, name) = self.place(from)?;
        let (to_folder, to_name) = self.place(to)?;
        if folder != to_folder {
            let why = "a rename into another folder: two folders would have to be synced";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let node = self
            .names(folder)?
            .get(name)
            .ok_or(io::ErrorKind::NotFound)?;
        let replaced = self.names(folder)?.get(to_name);
        match replaced.and_then(|replaced| self.nodes.get(&replaced)) {
            Some(Node::Folder(_)) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Some(Node::File(_)) | None => {}
        }
        self.names_mut(folder)?.bind(to_name, node);
        self.places.insert(node, (folder, to_name.to_owned()));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        let node = self
            .names(folder)?
            .get(name)
            .ok_or(io::ErrorKind::NotFound)?;
        if matches!(self.nodes.get(&node), Some(Node::Folder(_))) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.names_mut(folder)?.remove(name);
        Ok(())
    }

    pub(super) fn remove_all(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        let node = self
            .names(folder)?
            .get(name)
            .ok_or(io::ErrorKind::NotFound)?;
        self.empty(node)?;
        self.names_mut(folder)?.remove(name);
        Ok(())
    }

    pub(super) fn empty(&mut self, folder: NodeId) -> io::Result<()> {
        let inside: Vec<_> = self
            .names(folder)?
            .iter()
            .map(|(name, node)| (name.clone(), node))
            .collect();
        for (name, node) in inside {
            if matches!(self.nodes.get(&node), Some(Node::Folder(_))) {
                self.empty(node)?;
            }
            self.names_mut(folder)?.remove(&name);
        }
        Ok(())
    }

    pub(super) fn path_of(&self, node: NodeId) -> PathBuf {
        let mut names = Vec::new();
        let mut at = node;
        while let Some((folder, name)) = self.places.get(&at) {
            names.push(name);
            at = *folder;
        }
        let mut path = PathBuf::from("/");
        path.extend(names.into_iter().rev());
        path
    }

    /// Returns the same tree with each node replaced by its remains, without unreachable nodes.
    pub(super) fn left(
        &self,
        mut content: impl FnMut(&Content) -> Content,
        mut names: impl FnMut(&Names) -> Names,
    ) -> Self {
        let mut left = Self {
            next: self.next,
            ..Self::new()
        };
        let mut todo = vec![ROOT];
        while let Some(node) = todo.pop() {
            if left.nodes.contains_key(&node) && node != ROOT {
                continue;
            }
            match self.nodes.get(&node) {
                Some(Node::File(file)) => {
                    left.nodes.insert(node, Node::File(content(file)));
                }
                Some(Node::Folder(folder)) => {
                    let kept = names(folder);
                    for (name, inside) in kept.iter() {
                        left.places.insert(inside, (node, name.clone()));
                    }
                    todo.extend(kept.nodes());
                    left.nodes.insert(node, Node::Folder(kept));
                }
                None => {}
            }
        }
        left
    }
}

/// Returns the names in a path. A disk in memory has one root, and every path begins there.
pub(super) fn parts(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => name.to_str(),
        _ => None,
    })
}
