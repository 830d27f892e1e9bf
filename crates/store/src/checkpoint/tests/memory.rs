//! sled's memory use is bounded, however many rows there are.
//!
//! A process has one collector, and a thread of another test that is inside an epoch blocks it for
//! that time. Each test therefore runs in a process of its own.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use procfs::process::Process;

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

/// Set in the process that runs only one test, to a folder that it may use.
const ALONE: &str = "SEQD_TEST_ALONE";

/// The bytes per row and the number of rows of the scanned store: 64 MB.
const SCANNED_BYTES: usize = 1_600;
const SCANNED_ROWS: u32 = 40_000;

/// The most memory that a scan of this store may add.
const SCAN_MEMORY: u64 = 40 << 20;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `body` with the folder, in a process that runs only this test.
fn alone(test: &str, folder: &Path, body: fn(&Path)) {
    if let Some(folder) = std::env::var_os(ALONE) {
        return body(Path::new(&folder));
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut alone = process::Command::new(std::env::current_exe().unwrap());
    alone
        .args(["--exact", &format!("{module}::{test}")])
        .env(ALONE, folder);
    let output = alone.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn memory_of_batches_is_freed_after_them() {
    let test = "memory_of_batches_is_freed_after_them";
    alone(test, temp().path(), batches_are_freed);
}

#[test]
fn a_scan_keeps_few_of_the_rows_in_memory() {
    let temp = temp();
    // Filled by the parent process: memory that the child reuses would hide the growth by the scan.
    if std::env::var_os(ALONE).is_none() {
        fill(temp.path());
    }
    let test = "a_scan_keeps_few_of_the_rows_in_memory";
    alone(test, temp.path(), scan_keeps_few_rows);
}

fn batches_are_freed(folder: &Path) {
    let mut store = create_empty(&place(folder)).unwrap();
    let freed = Arc::<AtomicUsize>::default();
    // Like the nodes that sled replaces, these objects are deferred by the writing thread.
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

/// Fills the store `store` in this folder.
fn fill(folder: &Path) {
    let format = Format {
        cluster_id: CLUSTER.to_owned(),
        generation: 1,
    };
    let mut store = SledStores
        .create(&disk(), &folder.join("store"), &format)
        .unwrap();
    let row = |number| {
        let key = format!("seq/{number:05}").into_bytes();
        (key, vec![b'x'; SCANNED_BYTES])
    };
    let mut tally = Tally::default();
    for (key, value) in (0..SCANNED_ROWS).map(row) {
        tally.add(&key, &value);
    }
    let mut position = applied(1, &Rows::new());
    position.digest = tally.digest;
    let mut rows = (0..SCANNED_ROWS).map(|number| Ok(row(number)));
    store.fill(&mut rows, &position, &mut || Ok(())).unwrap();
    store.close().unwrap();
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn scan_keeps_few_rows(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let opened = SledStores.open(&disk(), &folder.join("store"), deadline);
    let (store, _) = opened.unwrap();
    let (before, mut most, mut seen) = (memory(), 0, 0);
    store
        .stream(&mut |_, _| {
            seen += 1;
            if seen % 1_000 == 0 {
                most = most.max(memory());
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, SCANNED_ROWS);
    let added = most.saturating_sub(before);
    assert!(
        added < SCAN_MEMORY,
        "a scan of {SCANNED_ROWS} rows took {added} bytes of memory"
    );
}

/// The anonymous memory of this process, in bytes.
fn memory() -> u64 {
    let status = Process::myself().unwrap().status().unwrap();
    status.rssanon.unwrap() * 1024
}
