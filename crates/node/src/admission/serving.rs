//! The request that a task serves: its tenant and its connection.
//!
//! The context is task-local, because code far below the handlers uses it: a proposal is charged to
//! the tenant, and a wait allows the connection to be closed in favour of others. A task that is
//! spawned for a request must inherit this context.

use std::sync::Arc;

use seqd_net::Lock;
use seqd_state::Tenant;

use super::lanes::Slot;
use crate::connections::{ClientConnection, Pause};

tokio::task_local! {
    static SERVING: Serving;
}

/// The context of one request. A task without a request serves the node itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    tenant: Tenant,
    connection: Option<ClientConnection>,
    /// The place in the client's lane, held until the request waits for other clients.
    slot: Option<Arc<Lock<Option<Slot>>>>,
}

impl Serving {
    pub(crate) fn new(tenant: Tenant, connection: Option<ClientConnection>) -> Self {
        Self {
            tenant,
            connection,
            slot: None,
        }
    }

    /// Adds a place in a lane.
    pub(crate) fn with_slot(self, slot: Option<Slot>) -> Self {
        let slot = slot.map(|slot| Arc::new(Lock::new(Some(slot))));
        Self { slot, ..self }
    }

    /// The context of the current task.
    pub(crate) fn current() -> Self {
        SERVING.try_with(Clone::clone).unwrap_or_default()
    }

    /// The tenant of the current task.
    pub(crate) fn current_tenant() -> Tenant {
        let tenant = SERVING.try_with(|serving| serving.tenant);
        tenant.unwrap_or(Tenant::OPERATOR)
    }

    /// Marks the current task as waiting for other clients, until the mark is dropped. The task
    /// leaves its lane permanently.
    pub(crate) fn pause() -> Option<Pause> {
        let paused = SERVING.try_with(|serving| {
            if let Some(slot) = &serving.slot {
                slot.lock().take();
            }
            let connection = serving.connection.as_ref();
            connection.map(ClientConnection::pause)
        });
        paused.ok().flatten()
    }

    /// Like [`Serving::pause`], for a wait that the client requested, for example for a lock.
    pub(crate) fn wait_as_wished() -> Option<Pause> {
        let _ = SERVING.try_with(|serving| {
            if let Some(connection) = &serving.connection {
                connection.note_wait();
            }
        });
        Self::pause()
    }

    /// Serves in this context. Not an `async fn`, whose future would reserve space for `serve`
    /// twice.
    pub(crate) fn scope<F: Future>(self, serve: F) -> impl Future<Output = F::Output> {
        SERVING.scope(self, serve)
    }
}
