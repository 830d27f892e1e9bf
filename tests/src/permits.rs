//! How many clusters run at a time: more than the machine can carry would test the scheduler.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Clusters that run at a time whatever the machine is.
static ALLOWED: AtomicUsize = AtomicUsize::new(2);

/// More than clusters ever run at a time.
const ALL: usize = 1024;

/// The right to run one cluster; given back when dropped.
#[derive(Debug)]
pub struct Permit(usize);

/// Lets this many clusters run at a time, of a load that is far from what the machine carries.
pub fn allow(clusters: usize) {
    ALLOWED.fetch_max(clusters, Ordering::Relaxed);
}

/// Waits until fewer clusters run than this machine can carry: one per core, and two on a small
/// machine, since a cluster spends most of its time waiting for disks and elections.
pub fn acquire() -> Permit {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    take(1, cores.min(4).max(ALLOWED.load(Ordering::Relaxed)))
}

/// Waits until no cluster runs, and lets none begin: for work that takes the whole machine.
pub fn alone() -> Permit {
    take(ALL, ALL)
}

fn take(permits: usize, most: usize) -> Permit {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    while *running + permits > most {
        running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
    }
    *running += permits;
    Permit(permits)
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        ENDED.notify_all();
    }
}
