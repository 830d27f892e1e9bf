//! Limits the number of clusters that run at the same time: more than the machine can run would
//! test the scheduler.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// The number of clusters that may run at the same time on any machine.
static ALLOWED: AtomicUsize = AtomicUsize::new(3);

/// More clusters than ever run at the same time.
const ALL: usize = 1024;

/// A permit to run one cluster. Dropping it returns the permit.
#[derive(Debug)]
pub struct Permit(usize);

/// Lets this many clusters run at the same time, for loads far below the capacity of the machine.
pub fn allow(clusters: usize) {
    ALLOWED.fetch_max(clusters, Ordering::Relaxed);
}

/// Waits until fewer clusters run than this machine can run: one per core, and three on a small
/// machine, since a cluster spends most of its time waiting for disks and elections.
pub fn acquire() -> Permit {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    take(1, cores.min(4).max(ALLOWED.load(Ordering::Relaxed)))
}

/// Waits until no cluster runs and prevents others from starting, for work that needs the whole
/// machine.
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
