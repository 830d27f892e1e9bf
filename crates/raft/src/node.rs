//! One node: its context, and its replica once it runs.

use std::sync::{Arc, OnceLock};

use crate::context::NodeContext;
use crate::replica::Replica;

/// Shared by all parts that serve callers or peers, before and after the replica runs.
pub(crate) struct Node {
    pub(crate) context: Arc<NodeContext>,
    replica: OnceLock<Arc<Replica>>,
}

impl Node {
    /// Creates a node without a replica.
    pub(crate) fn new(context: Arc<NodeContext>) -> Self {
        Self {
            context,
            replica: OnceLock::new(),
        }
    }

    pub(crate) fn replica(&self) -> Option<&Arc<Replica>> {
        self.replica.get()
    }

    /// Sets the replica for this module and for the modules below it.
    pub(crate) fn set_replica(&self, replica: &Arc<Replica>) {
        self.context.set_view(Arc::<Replica>::clone(replica));
        // Set once: a start runs one replica.
        let _ = self.replica.set(Arc::clone(replica));
    }
}
