//! One node: its context, and its replica once that runs.

use std::sync::{Arc, OnceLock};

use crate::context::NodeContext;
use crate::replica::Replica;

/// Shared by everything that serves callers or peers before the replica runs and after.
pub(crate) struct Node {
    pub(crate) context: Arc<NodeContext>,
    replica: OnceLock<Arc<Replica>>,
}

impl Node {
    /// A node whose replica does not run yet.
    pub(crate) fn new(context: Arc<NodeContext>) -> Self {
        Self {
            context,
            replica: OnceLock::new(),
        }
    }

    pub(crate) fn replica(&self) -> Option<&Arc<Replica>> {
        self.replica.get()
    }

    /// Sets the replica, here and for the modules below it.
    pub(crate) fn set_replica(&self, replica: &Arc<Replica>) {
        self.context.set_view(Arc::<Replica>::clone(replica));
        // Set once: a start runs one replica.
        let _ = self.replica.set(Arc::clone(replica));
    }
}
