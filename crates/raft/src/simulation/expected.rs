//! The state, except for the log, that an opening must find or may find.

use std::collections::BTreeSet;

use crate::types::LogId;
use seqd_store::folder::Identity;

/// The state that must be present, and the state that may be.
#[derive(Default)]
pub(super) struct Expected {
    /// The acknowledged identity, and the identity that is being written.
    pub(super) identity: Option<Identity>,
    pub(super) identity_next: Option<Identity>,
    pub(super) boot: u64,
    /// The position of the last written checkpoint, and the highest position that a checkpoint may
    /// have.
    pub(super) checkpoint: Option<LogId>,
    pub(super) furthest: Option<LogId>,
    /// The newest snapshot that was acknowledged.
    pub(super) snapshot: Option<LogId>,
    /// The snapshots whose installation began.
    pub(super) installed: BTreeSet<u64>,
}

impl Expected {
    pub(super) fn may_apply(&mut self, upto: LogId) {
        self.furthest = self.furthest.max(Some(upto));
    }

    pub(super) fn may_install(&mut self, id: LogId) {
        self.may_apply(id);
        self.installed.insert(id.index());
    }

    pub(super) fn installed(&mut self, id: LogId) {
        self.checkpoint = self.checkpoint.max(Some(id));
        self.snapshot = self.snapshot.max(Some(id));
    }

    pub(super) fn checkpointed(&mut self, upto: Option<LogId>) {
        self.checkpoint = self.checkpoint.max(upto);
    }

    pub(super) fn took_snapshot(&mut self, id: Option<LogId>) {
        self.checkpoint = self.checkpoint.max(id);
        self.snapshot = self.snapshot.max(id);
    }

    /// A start may have installed a snapshot and applied what was committed.
    pub(super) fn started(&mut self, applied: Option<LogId>) {
        self.furthest = applied;
    }
}
