//! The first error that this node's storage returned to openraft, as a stop reason.
//!
//! openraft passes on only the text of such an error, from which the cause cannot be derived: too
//! many open files, a full disk and an entry of a newer version would look alike.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::handle::Stop;

/// Shared by the log and the state machine of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct StorageFailure(Arc<OnceLock<Stop>>);

impl StorageFailure {
    /// Returns `done`, and records its error if it is the first.
    pub(crate) fn keep<T>(&self, doing: &str, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done {
            self.0
                .get_or_init(|| Stop::of_io_while_running(doing, error));
        }
        done
    }

    pub(crate) fn first(&self) -> Option<Stop> {
        self.0.get().cloned()
    }
}
