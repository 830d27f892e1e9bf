//! The drain of this node: an operator or a balancer moves work away from it.
//!
//! A draining node serves every request, but leaves the leadership to other voters. It leads only
//! if no other voter can, because availability takes precedence. The mark is not stored, so a
//! restart ends the drain.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Draining {
    /// The time at which the drain began; `None` if the node does not drain.
    since: watch::Sender<Option<Instant>>,
    is_final: AtomicBool,
}

impl Default for Draining {
    fn default() -> Self {
        Self {
            since: watch::Sender::new(None),
            is_final: AtomicBool::new(false),
        }
    }
}

impl Draining {
    pub(crate) fn is_on(&self) -> bool {
        self.since.borrow().is_some()
    }

    pub(crate) fn watched(&self) -> watch::Receiver<Option<Instant>> {
        self.since.subscribe()
    }

    /// Returns whether the node drains because it is about to stop.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final.load(Ordering::Acquire)
    }

    /// Begins or ends the drain. A node that is about to stop continues to drain.
    pub(crate) fn set(&self, on: bool) {
        let drains = on || self.is_final();
        let is_changed = self.since.send_if_modified(|since| {
            let is_changed = since.is_some() != drains;
            if is_changed {
                *since = drains.then(Instant::now);
            }
            is_changed
        });
        if is_changed && drains {
            tracing::info!("draining: this node serves requests, and others should lead");
        } else if is_changed {
            tracing::info!("the drain of this node has ended");
        }
    }

    /// Begins a drain that ends with the process.
    pub(crate) fn begin_last(&self) {
        self.is_final.store(true, Ordering::Release);
        self.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_can_be_ended_unless_the_node_is_about_to_stop() {
        let draining = Draining::default();
        draining.set(true);
        assert!(draining.is_on());
        draining.set(false);
        assert!(!draining.is_on());
        draining.begin_last();
        draining.set(false);
        assert!(draining.is_on() && draining.is_final());
    }
}
