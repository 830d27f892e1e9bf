//! Selects the writers of the log and the checkpoints: threads of their own. In a simulation, tasks
//! of the node perform the same rounds, and a plain file of the simulated disk replaces sled.

use std::io;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::Disk;
use seqd_store::checkpoint::{SledStores, Stores};
use seqd_store::folder::Folder;
use seqd_wal::{Recovered, Wal, WalError, WalOptions};

use crate::handle::Stop;
#[cfg(test)]
use crate::platform::scope;
use crate::storage::checkpointer::{CheckpointWorker, Checkpointer};

pub(crate) fn open_folder(disk: Arc<dyn Disk>, root: &Path) -> Result<Folder, Stop> {
    #[cfg(test)]
    if scope::current().is_some() {
        return Folder::open_unlocked(disk, root);
    }
    Folder::open(disk, root)
}

pub(crate) fn stores() -> Arc<dyn Stores> {
    #[cfg(test)]
    if scope::current().is_some() {
        return Arc::new(seqd_store::checkpoint::file_store::FileStores);
    }
    Arc::new(SledStores)
}

pub(crate) fn open_wal(options: WalOptions) -> Result<(Wal, Recovered), WalError> {
    #[cfg(test)]
    if let Some(scope) = scope::current() {
        return simulated::open_wal(&scope, options);
    }
    Wal::open(options)
}

pub(crate) fn start_checkpointer(worker: CheckpointWorker) -> io::Result<Checkpointer> {
    #[cfg(test)]
    if let Some(scope) = scope::current() {
        return Ok(simulated::start_checkpointer(&scope, worker));
    }
    Checkpointer::start(worker)
}

#[cfg(test)]
mod simulated {
    use std::time::Duration;

    use seqd_wal::Pump;
    use tokio::sync::Notify;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::platform::scope::Scope;

    /// Small, so that segments are created and removed often.
    const SEGMENT_BYTES: u64 = 4 << 10;

    /// Equal to the interval of the checkpoint thread.
    const CHECKPOINT_EVERY: Duration = Duration::from_millis(50);

    pub(super) fn open_wal(
        scope: &Arc<Scope>,
        options: WalOptions,
    ) -> Result<(Wal, Recovered), WalError> {
        let (began, seeds) = (Instant::now(), Arc::clone(scope));
        let witness_after = options.witness_after;
        let (wal, recovered, pump) = Wal::open_manual(WalOptions {
            segment_bytes: SEGMENT_BYTES,
            clock: Arc::new(move || began.elapsed()),
            segment_seeds: Arc::new(move || Ok(seeds.roll() as u32)),
            ..options
        })?;
        let queued = Arc::new(Notify::new());
        let wake = Arc::clone(&queued);
        pump.on_queued(move || wake.notify_one());
        scope.spawn(write(Arc::clone(scope), pump, queued, witness_after));
        Ok((wal, recovered))
    }

    /// Performs the rounds of the log's writer thread.
    async fn write(scope: Arc<Scope>, pump: Pump, queued: Arc<Notify>, witness_after: Duration) {
        let mut is_witnessed = false;
        loop {
            if timeout(witness_after, queued.notified()).await.is_ok() {
                while pump.begin() {
                    scope.sync().await;
                    pump.step();
                    is_witnessed = false;
                }
            } else if !is_witnessed {
                pump.write_witness();
                is_witnessed = true;
            }
        }
    }

    pub(super) fn start_checkpointer(scope: &Arc<Scope>, worker: CheckpointWorker) -> Checkpointer {
        let checkpointer = Checkpointer::inline(worker);
        let (ticks, disk) = (checkpointer.clone(), Arc::clone(scope));
        scope.spawn(async move {
            loop {
                sleep(CHECKPOINT_EVERY).await;
                if !disk.is_hung() && ticks.tick_or_fail().is_err() {
                    return;
                }
            }
        });
        checkpointer
    }
}
