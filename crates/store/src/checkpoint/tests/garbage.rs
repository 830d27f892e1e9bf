//! The garbage of a batch is freed from memory, however many rows it has.
//!
//! A process has one collector, and a thread of another test that is inside an epoch blocks it for
//! that time. This test therefore runs in a separate process.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The rows of one batch.
const ROWS: u32 = 4096;

/// The number of objects left to sled's collector. Collections after each batch free them within
/// about a dozen batches. Collections that happen on their own free only a third of an object
/// per row.
const LEFT: usize = 300_000;

/// The largest accepted number of batches: more than a dozen because sled's own threads also enter
/// epochs, and far fewer than would be needed without the explicit collections.
const BATCHES: u32 = 64;

/// Set in the process that runs only one test.
const ALONE: &str = "SEQD_TEST_ALONE";

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_batches_leave_behind_is_freed_after_them() {
    if std::env::var_os(ALONE).is_some() {
        return batches_are_freed();
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::what_batches_leave_behind_is_freed_after_them");
    let mut alone = process::Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", &test]).env(ALONE, "yes");
    let output = alone.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn batches_are_freed() {
    let temp = temp();
    let mut store = create_empty(&place(temp.path())).unwrap();
    let freed = Arc::<AtomicUsize>::default();
    // As for the nodes that sled replaces: deferred by the thread that writes.
    let guard = crossbeam_epoch::pin();
    for _ in 0..LEFT {
        let counted = Counted(Arc::clone(&freed));
        guard.defer(move || drop(counted));
    }
    drop(guard);
    for round in 1..=BATCHES {
        let rows = some_rows(ROWS, round);
        let position = applied(u64::from(round), &rows);
        store.write(puts(&rows), &position).unwrap();
        if freed.load(Ordering::Relaxed) == LEFT {
            return;
        }
    }
    let freed = freed.load(Ordering::Relaxed);
    panic!("of {LEFT} objects {freed} were freed after {BATCHES} batches");
}
