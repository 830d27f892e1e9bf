//! How many clusters run at a time: more than the machine can carry would test the scheduler.

use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ONE_ENDED: Condvar = Condvar::new();

/// The right to run one cluster; given back when dropped.
#[derive(Debug)]
pub struct Permit(());

/// Waits until fewer clusters run than this machine can carry: one per core, and two on a small
/// machine, since a cluster spends most of its time waiting for disks and elections.
pub fn acquire() -> Permit {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = cores.clamp(2, 4);
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    while *running >= most {
        running = ONE_ENDED
            .wait(running)
            .unwrap_or_else(PoisonError::into_inner);
    }
    *running += 1;
    Permit(())
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ONE_ENDED.notify_one();
    }
}
