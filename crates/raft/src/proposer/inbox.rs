//! Proposals that wait for a group. Tenants take turns in it.

use seqd_net::Lock;
use seqd_state::Tenant;
use tokio::sync::Notify;

use super::group::{Queued, take_group};
use crate::round_robin::RoundRobin;

#[derive(Default)]
pub(super) struct Inbox {
    waiting: Lock<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    queue: RoundRobin<Queued>,
    is_closed: bool,
}

impl Inbox {
    pub(super) fn push(&self, tenant: Tenant, item: Queued) {
        self.waiting.lock().queue.push(tenant, item);
        self.changed.notify_one();
    }

    /// Closes the inbox. Nothing is pushed afterwards.
    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until a proposal is queued and returns `true`; returns `false` once the inbox is
    /// closed and empty. Only one task may wait at a time.
    pub(super) async fn has_items(&self) -> bool {
        loop {
            {
                let waiting = self.waiting.lock();
                if waiting.queue.peek().is_some() {
                    return true;
                }
                if waiting.is_closed {
                    return false;
                }
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn take_group(&self, is_above: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        take_group(&mut self.waiting.lock().queue, is_above)
    }
}
