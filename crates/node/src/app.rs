//! What all handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::http::HeaderValue;
use seqd_raft::{Phase, Raft};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::minting::{ClockWatch, Minters, uuids::UuidSource};
use crate::sequences::Segments;

/// A node from the inside.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) raft: Raft,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) minters: Arc<Minters>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) uuids: UuidSource,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) request_ids: crate::http::RequestIds,
    pub(crate) node_header: HeaderValue,
    pub(crate) stopping: AtomicBool,
    /// IDs minted within the last second.
    pub(crate) ids_per_second: AtomicU64,
}

impl App {
    /// This node's name.
    pub(crate) fn name(&self) -> &str {
        &self.config.node.name
    }

    /// Whether a clean stop has begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Where consensus is.
    pub(crate) fn phase(&self) -> Phase {
        self.raft.phase().borrow().clone()
    }
}
