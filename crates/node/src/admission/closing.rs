//! The switch that refuses requests before a node closes its ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqd_api::{ErrorCode, Problem};

/// Whether the port closes soon: requests are refused as `draining`, and their connections end. A
/// client that was disconnected instead could not determine whether it was served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<AtomicBool>);

impl Closing {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn began(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Refuses a request. Not for requests about the node's health.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.began() {
            let detail = "this node is stopping";
            let problem = Problem::new(ErrorCode::Draining, detail);
            return Err(problem.with_hint("ask another node"));
        }
        Ok(())
    }
}
