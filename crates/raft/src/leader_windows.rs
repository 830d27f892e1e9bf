//! The windows of this node while it leads, and the exclusive right to extend them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use seqd_net::Lock;
use seqd_state::Windows;

#[derive(Default)]
pub(crate) struct LeaderWindows {
    pub(crate) held: Lock<WindowState>,
    /// Held while windows are extended or returned, until the outcome of the entry is recorded: one
    /// entry at a time.
    pub(crate) extending: Arc<tokio::sync::Mutex<()>>,
    pub(crate) is_prefetching: AtomicBool,
}

#[derive(Default)]
pub(crate) struct WindowState {
    windows: Windows,
    /// The term in which this leader has stopped drawing.
    ended: Option<u64>,
}

impl WindowState {
    /// The windows of this term; `None` if the leader has stopped drawing in this term, or this
    /// node has drawn in a later term.
    pub(crate) fn of_term(&mut self, term: u64) -> Option<&mut Windows> {
        let is_open = self.ended != Some(term);
        (is_open && self.windows.begin(term)).then_some(&mut self.windows)
    }

    /// Stops drawing in this term.
    pub(crate) fn end(&mut self, term: u64) {
        self.ended = Some(term);
    }

    /// Draws again, after a transfer of leadership that did not happen.
    pub(crate) fn resume(&mut self) {
        self.ended = None;
    }
}
