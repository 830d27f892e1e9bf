//! What a batch leaves behind in memory is freed, however many rows it has.
//!
//! A process has one collector, and a thread of another test that stands inside an epoch holds it up
//! for as long as it stands there. So this runs in a process of its own.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Rows of one batch.
const ROWS: u32 = 4096;

/// Objects that are left to sled's collector. Collections after each batch free them with about a
/// dozen batches; those that come by themselves, when they come, free a third of an object a row.
const LEFT: usize = 300_000;

/// The most batches that it may take: more than a dozen, for sled's own threads stand in epochs too,
/// and far fewer than it would take without our collections.
const BATCHES: u32 = 64;

/// Set in the process that runs one test alone.
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
