//! Shared helpers of the checkpoint tests: rows and folders.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use seqd_disk::OsDisk;

use super::*;
use crate::testing::copy;

mod conformance;
mod damage;
mod generations;
mod memory;
mod synced;
mod take_rows;

const CLUSTER: &str = "cluster-a";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

impl TakeRows for Rows {
    fn hashed_row(&mut self, key: &[u8], value: &[u8], _: u128) -> io::Result<()> {
        self.insert(key.to_vec(), value.to_vec());
        Ok(())
    }
}

fn place(data_dir: &Path) -> Place {
    Place::on_sled(data_dir, CLUSTER)
}

fn temp() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns `rows` numbered rows. The round makes their values differ from checkpoint to checkpoint.
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
    for (key, value) in rows {
        tally.add(key, value);
    }
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
    let streamed = store.stream(&mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    });
    streamed.unwrap();
    rows
}

fn close(store: Box<dyn StateStore>) {
    store.close().unwrap();
}

fn opened(data_dir: &Path) -> Opened<Rows> {
    open(&place(data_dir), false).unwrap()
}

fn good(data_dir: &Path) -> (Box<dyn StateStore>, Rows, Checkpoint) {
    match opened(data_dir) {
        Opened::Good {
            store,
            rows,
            applied,
        } => (store, rows, applied),
        other => panic!("not good: {other:?}"),
    }
}

fn set_aside(data_dir: &Path) -> (String, Option<PathBuf>) {
    match opened(data_dir) {
        Opened::SetAside { why, moved_to } => (why, moved_to),
        other => panic!("not set aside: {other:?}"),
    }
}

/// Returns a closed data folder whose generation 1 holds `rows` at index 7.
fn written(rows: &Rows) -> TempDir {
    let dir = temp();
    close(create_generation(&place(dir.path()), oks(rows), &applied(7, rows)).unwrap());
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
