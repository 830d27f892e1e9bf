//! The writer without a thread: a test decides when it writes, so that runs are reproducible.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::error::WalFailure;
use crate::queue::{Shared, Work};
use crate::writer::{Writer, refuse};

/// Drives the writer of a log that was opened without threads. Clones drive the same writer.
///
/// Callbacks run inside [`Pump::step`]. A callback may queue calls, but calls of the pump inside it
/// do nothing. A panic of a callback is not caught.
#[derive(Clone)]
pub struct Pump {
    driven: Arc<Mutex<Driven>>,
}

struct Driven {
    shared: Arc<Shared>,
    /// `None` after the log is closed.
    writer: Option<Writer>,
    failure: Option<WalFailure>,
}

impl Pump {
    pub(crate) fn new(writer: Writer) -> Self {
        let driven = Driven {
            shared: Arc::clone(&writer.shared),
            writer: Some(writer),
            failure: None,
        };
        Self {
            driven: Arc::new(Mutex::new(driven)),
        }
    }

    /// Performs one round of the writer: writes and syncs one batch of the queued calls, and runs
    /// the callbacks. Returns `false` if there was nothing to do.
    pub fn step(&self) -> bool {
        self.lock().is_some_and(|mut driven| driven.step())
    }

    /// Returns whether calls are queued. If so, [`crate::Wal::stalled_for`] counts from now on, as
    /// while a thread writes.
    pub fn begin(&self) -> bool {
        let driven = self.lock();
        driven.is_some_and(|driven| driven.shared.begin_if_queued())
    }

    /// Calls `wake` after each queued call. Can be set only once.
    pub fn on_queued(&self, wake: impl Fn() + Send + Sync + 'static) {
        if let Some(driven) = self.lock() {
            driven.shared.on_queued(Box::new(wake));
        }
    }

    /// Performs rounds until nothing is queued, or until a closing log is closed.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Writes a witness, as an idle log does after its delay.
    pub fn write_witness(&self) {
        if let Some(mut driven) = self.lock() {
            let committed = driven.shared.lock().committed.take();
            let calls = Vec::new();
            driven.round(Work::Write { calls, committed });
        }
    }

    /// Returns `None` inside a callback of this pump.
    fn lock(&self) -> Option<MutexGuard<'_, Driven>> {
        match self.driven.try_lock() {
            Ok(driven) => Some(driven),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Driven {
    fn step(&mut self) -> bool {
        if let Some(failure) = &self.failure {
            let calls = self.shared.lock().refused();
            let any = calls.is_some();
            refuse(calls.unwrap_or_default(), failure);
            return any;
        }
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let unwitnessed = writer.unwitnessed_since.is_some();
        let work = (self.shared.lock()).work(writer.max_batch_bytes, unwitnessed);
        match work {
            None => return false,
            Some(Work::Close) => self.writer = None,
            Some(work) => self.round(work),
        }
        true
    }

    fn round(&mut self, work: Work) {
        if let Some(Err(failure)) = self.writer.as_mut().map(|writer| writer.round(work)) {
            self.failure = Some(failure);
            self.writer = None;
        }
    }
}
