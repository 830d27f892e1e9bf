//! Shared helpers of the log tests: a disk in memory that can block, fail and lose power, and short
//! forms of the calls.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use seqd_disk::Disk;
use seqd_disk::simulated::SimulatedDisk;
use seqd_wal::{Done, Record, Recovered, Wal, WalError, WalOptions};

/// Longer than any operation here takes, unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Options of a log in memory with small segments that never writes a witness on its own.
pub(crate) fn options(disk: &SimulatedDisk) -> WalOptions {
    WalOptions {
        segment_bytes: 4096,
        witness_after: Duration::from_secs(3600),
        disk: Arc::new(disk.clone()),
        ..WalOptions::new(dir())
    }
}

/// Returns a disk that contains only the parent folder of the log.
pub(crate) fn disk() -> SimulatedDisk {
    SimulatedDisk::holding("/data")
}

/// Returns the content of a file that must exist.
pub(crate) fn contents(disk: &SimulatedDisk, path: &str) -> Vec<u8> {
    disk.contents(path).expect(path)
}

/// Returns the files in the folder of the log, sorted.
pub(crate) fn files(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.list(&dir()).unwrap().into_iter();
    let mut files: Vec<_> = names.map(|name| format!("/data/wal/{name}")).collect();
    files.sort();
    files
}

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/data/wal")
}

pub(crate) fn open(disk: &SimulatedDisk) -> (Wal, Recovered) {
    Wal::open(options(disk)).unwrap()
}

/// Returns the error of an open that must not succeed.
pub(crate) fn refused(options: WalOptions) -> WalError {
    match Wal::open(options) {
        Ok((_, recovered)) => panic!("a damaged log was opened: {recovered:?}"),
        Err(error) => error,
    }
}

pub(crate) fn record(index: u64, bytes: impl AsRef<[u8]>) -> Record {
    Record {
        index,
        bytes: bytes.as_ref().to_vec(),
    }
}

/// Returns a callback and the channel that receives its result.
pub(crate) fn answer() -> (Done, Receiver<io::Result<()>>) {
    let (send, receive) = mpsc::channel();
    (Box::new(move |result| drop(send.send(result))), receive)
}

/// Makes a call and waits for its result.
pub(crate) fn wait(call: impl FnOnce(Done)) -> io::Result<()> {
    let (done, answer) = answer();
    call(done);
    answer.recv_timeout(DEADLINE).expect("an answer")
}

pub(crate) fn append(wal: &Wal, index: u64, bytes: impl AsRef<[u8]>) {
    wait(|done| wal.append(vec![record(index, bytes)], done)).unwrap();
}

/// Appends entries in sequence, each durable before the next.
pub(crate) fn append_each(wal: &Wal, indexes: Range<u64>, bytes: impl Fn(u64) -> Vec<u8>) {
    for index in indexes {
        append(wal, index, bytes(index));
    }
}

/// Returns all readable entries.
pub(crate) fn entries(wal: &Wal) -> Vec<(u64, Vec<u8>)> {
    let records = wal.read(0..u64::MAX, usize::MAX).unwrap();
    records.into_iter().map(|r| (r.index, r.bytes)).collect()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + DEADLINE;
    while !holds() {
        assert!(std::time::Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that the log was refused as corrupt, for this file, with the remedy.
#[track_caller]
pub(crate) fn assert_corrupt(error: &WalError, file: &str) {
    let WalError::Corrupt { path, .. } = error else {
        panic!("damage is not called corruption: {error}")
    };
    assert!(path.ends_with(file), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(file) && text.contains("restore this node"),
        "{text}"
    );
    assert!(
        text.contains("remove it from the cluster and add it again"),
        "{text}"
    );
}
