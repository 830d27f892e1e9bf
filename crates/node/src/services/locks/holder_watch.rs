//! Waits for a change of the first holder of a lock. An applied entry ends the wait.

use std::sync::Arc;

use seqd_raft::{Part, Turn};
use seqd_state::{FencingToken, LockName, Tenant, Wait};
use tokio::time::Instant;

use super::{LockService, full};
use crate::replica::{Replica, peek};
use crate::services::error::{ServiceError, on_state};

/// The most watches of locks at this node, of waiting requests and of subscriptions. Each takes
/// about half a kilobyte.
pub(super) const MOST_WATCHES: u64 = 8192;

/// Watches the first holder of a lock until dropped.
pub(crate) struct HolderWatch {
    replica: Arc<dyn Replica>,
    name: LockName,
    turn: Turn,
    _place: Part,
}

impl LockService {
    /// Watches the first holder of a lock.
    ///
    /// # Errors
    /// There are too many watches, or this node has no state within the deadline.
    pub(crate) async fn watch_holder(
        &self,
        name: LockName,
        tenant: Tenant,
        deadline: Instant,
    ) -> Result<HolderWatch, ServiceError> {
        let place = self.watches.take(tenant, 1).ok_or_else(|| {
            let most = "too many requests of this client, or of all clients,";
            full(format!("{most} watch locks at this node"))
        })?;
        let turn = self
            .register(|| Wait::Holder { name: name.clone() }, deadline)
            .await?;
        Ok(HolderWatch {
            replica: Arc::clone(&self.replica),
            name,
            turn,
            _place: place,
        })
    }
}

impl HolderWatch {
    /// The token of the first holder, as this node has applied it.
    ///
    /// # Errors
    /// This node has no state.
    pub(crate) fn first(&self) -> Result<Option<FencingToken>, ServiceError> {
        on_state(&*self.replica, |state| {
            let holder = state.lock(self.name.as_str())?.holders().next()?;
            Some(holder.token)
        })
    }

    /// Waits until the first holder may have changed. A further call waits for the next change.
    pub(crate) async fn changed(&self) {
        self.turn.came().await;
    }

    /// Waits until the lock becomes free.
    pub(crate) async fn freed(&self) {
        loop {
            self.changed().await;
            let is_free = peek(&*self.replica, |state| {
                let lock = state.lock(self.name.as_str());
                lock.is_none_or(|lock| lock.holders().next().is_none())
            });
            if is_free == Some(true) {
                return;
            }
        }
    }
}
