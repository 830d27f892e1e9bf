//! Takes what changed from the state, on a thread of the ordinary priority.
//!
//! Whoever takes it holds the lock that `apply` waits for. The checkpoint thread has a low priority: with
//! the lock it would hold up `apply` for as long as other threads want the processor.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use crate::blocking;
use crate::storage::applied::Applied;
use seqd_store::checkpoint::{Change, Checkpoint};

type Taken = io::Result<(Vec<Change>, Checkpoint)>;

pub(crate) struct Drain {
    applied: Arc<Applied>,
    /// Without it the caller takes the changes.
    thread: Option<SyncSender<SyncSender<Taken>>>,
}

impl Drain {
    /// Starts no thread.
    pub(crate) fn inline(applied: &Arc<Applied>) -> Self {
        Self {
            applied: Arc::clone(applied),
            thread: None,
        }
    }

    /// The same with a thread, which has the priority of the caller and ends with this.
    pub(crate) fn with_thread(self) -> io::Result<Self> {
        let (asks, inbox) = mpsc::sync_channel::<SyncSender<Taken>>(1);
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

    /// Takes what changed since this was last called, and the position that it leads to.
    pub(crate) fn take(&self) -> Taken {
        let Some(thread) = &self.thread else {
            return self.applied.take_changes();
        };
        let (answer, taken) = mpsc::sync_channel(1);
        let ended = |()| io::Error::other("the drain thread has ended");
        thread.send(answer).map_err(|_| ended(()))?;
        taken.recv().map_err(|_| ended(()))?
    }
}
