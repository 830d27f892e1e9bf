//! The switch that ends connections and refuses requests before a node closes its ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqd_api::{ErrorCode, Problem};

#[derive(Debug, Default)]
struct Steps {
    is_announced: AtomicBool,
    has_begun: AtomicBool,
}

/// The steps before a port closes. First, each HTTP response ends its connection, so that clients
/// connect to another node. Then requests are also refused as `draining`: a client that was
/// disconnected instead could not determine whether its request was served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<Steps>);

impl Closing {
    /// From now on, each HTTP response ends its connection.
    pub(crate) fn announce(&self) {
        self.0.is_announced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.0.is_announced.load(Ordering::Relaxed)
    }

    /// From now on, requests are refused.
    pub(crate) fn begin(&self) {
        self.announce();
        self.0.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn began(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }

    /// Refuses a request in the second step. Not called for requests about the node's health.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.began() {
            let detail = "this node is stopping";
            let problem = Problem::new(ErrorCode::Draining, detail);
            return Err(problem.with_hint("use another node"));
        }
        Ok(())
    }
}
