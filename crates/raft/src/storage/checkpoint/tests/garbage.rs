//! What a batch leaves behind in memory is freed, however many rows it has.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Rows of one batch.
const ROWS: u32 = 4096;

/// Objects that are left to sled's collector. Collections after each batch free them with about a
/// dozen batches; those that come by themselves, when they come, free a third of an object a row.
const LEFT: usize = 300_000;

/// The most batches that it may take: more than a dozen, for the threads of other tests hold
/// the collector up now and then, and far fewer than it would take without our collections.
const BATCHES: u32 = 64;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_batches_leave_behind_is_freed_after_them() {
    let temp = temp();
    let mut store = create_empty(&place(temp.path())).unwrap();
    let freed = Arc::<AtomicUsize>::default();
    // As sled leaves the nodes that it replaces: from the thread that writes.
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
