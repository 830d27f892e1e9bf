//! Takes the changes from the state on a thread of ordinary priority.
//!
//! A thread that takes them holds the lock for which `apply` waits. The checkpoint thread has a low
//! priority. If it held the lock, `apply` would be delayed for as long as other threads want the
//! processor.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use crate::blocking;
use crate::storage::applied::Applied;
use seqd_store::checkpoint::{Change, Checkpoint};

type DrainedChanges = io::Result<(Vec<Change>, Checkpoint)>;

pub(crate) struct Drain {
    applied: Arc<Applied>,
    /// If `None`, the caller takes the changes itself.
    thread: Option<SyncSender<SyncSender<DrainedChanges>>>,
}

impl Drain {
    /// Creates a drain without a thread.
    pub(crate) fn inline(applied: &Arc<Applied>) -> Self {
        Self {
            applied: Arc::clone(applied),
            thread: None,
        }
    }

    /// Adds a thread, which has the caller's priority and ends when the drain is dropped.
    pub(crate) fn with_thread(self) -> io::Result<Self> {
        let (asks, inbox) = mpsc::sync_channel::<SyncSender<DrainedChanges>>(1);
        let applied = Arc::clone(&self.applied);
        blocking::thread("drain", move || {
            for answer in inbox {
                let _ = answer.send(applied.take_changes());
            }
        })?;
        Ok(Self {
            thread: Some(asks),
            ..self
        })
    }

    pub(crate) fn applied(&self) -> &Applied {
        &self.applied
    }

    /// Takes the changes since the last call, and the position that they lead to.
    pub(crate) fn take(&self) -> DrainedChanges {
        let Some(thread) = &self.thread else {
            return self.applied.take_changes();
        };
        let (answer, taken) = mpsc::sync_channel(1);
        let ended = |()| io::Error::other("the drain thread has ended");
        thread.send(answer).map_err(|_| ended(()))?;
        taken.recv().map_err(|_| ended(()))?
    }
}
