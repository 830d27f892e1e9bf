//! What the tests of checkpoints share: rows, folders, and short words for both.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::sled_store::SledStore;
use super::*;

mod conformance;
mod damage;
mod generations;

const CLUSTER: &str = "cluster-a";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn temp() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// `rows` numbered rows; the round makes their values differ from checkpoint to checkpoint.
fn some_rows(rows: u32, round: u32) -> Rows {
    let row = |number: u32| {
        (
            format!("seq/{number:05}").into_bytes(),
            format!("value {number} of {round}").into_bytes(),
        )
    };
    (0..rows).map(row).collect()
}

fn applied(index: u64, rows: &Rows) -> Checkpoint {
    let mut tally = Tally::default();
    rows.iter().for_each(|(key, value)| tally.add(key, value));
    Checkpoint {
        index,
        log_id: index.to_be_bytes().to_vec(),
        membership: b"one, two, three".to_vec(),
        digest: tally.digest,
    }
}

fn puts(rows: &Rows) -> Vec<Change> {
    rows.iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())))
        .collect()
}

fn oks(rows: &Rows) -> impl Iterator<Item = io::Result<Row>> {
    rows.clone().into_iter().map(Ok)
}

fn streamed(store: &dyn StateStore) -> Vec<Row> {
    let mut rows = Vec::new();
    store
        .stream(&mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
        .unwrap();
    rows
}

fn close(store: SledStore) {
    Box::new(store).close().unwrap();
}

fn opened(data_dir: &Path) -> Opened {
    open(data_dir, CLUSTER, false).unwrap()
}

fn good(data_dir: &Path) -> (SledStore, Rows, Checkpoint) {
    match opened(data_dir) {
        Opened::Good {
            store,
            rows,
            applied,
        } => (store, rows.into_iter().collect(), applied),
        other => panic!("not good: {other:?}"),
    }
}

fn set_aside(data_dir: &Path) -> (String, Option<PathBuf>) {
    match opened(data_dir) {
        Opened::SetAside { why, moved_to } => (why, moved_to),
        other => panic!("not set aside: {other:?}"),
    }
}

/// A closed data folder whose generation 1 holds `rows` at index 7.
fn written(rows: &Rows) -> TempDir {
    let dir = temp();
    close(create_generation(dir.path(), CLUSTER, oks(rows), &applied(7, rows)).unwrap());
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
