//! What this node's own log has synced, so that a leader can name it to its followers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::records::LogIdRecord;
use crate::types::{LogId, Vote};

/// The vote and the last log ID that are on this node's disk.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    inner: Mutex<(Option<Vote>, Option<LogId>)>,
}

impl Synced {
    /// As the opened log was found.
    pub(crate) fn new(vote: Option<Vote>, last: Option<LogId>) -> Self {
        Self {
            inner: Mutex::new((vote, last)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Option<Vote>, Option<LogId>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A vote was synced.
    pub(crate) fn voted(&self, vote: Vote) {
        self.lock().0 = Some(vote);
    }

    /// Entries up to this one were synced.
    pub(crate) fn appended(&self, last: LogId) {
        self.lock().1 = Some(last);
    }

    /// All entries after this one were cut off, and that was synced.
    pub(crate) fn cut(&self, last: Option<LogId>) {
        self.lock().1 = last;
    }

    /// Entries up to this one are held by a snapshot that was synced.
    pub(crate) fn purged(&self, upto: LogId) {
        let mut inner = self.lock();
        inner.1 = inner.1.max(Some(upto));
    }

    /// The last log ID, for a message under this vote; `None` until that vote is synced.
    pub(crate) fn last_under(&self, vote: &Vote) -> Option<LogIdRecord> {
        let inner = self.lock();
        inner
            .1
            .as_ref()
            .filter(|_| inner.0.as_ref() == Some(vote))
            .map(Into::into)
    }
}
