//! What a checkpoint folder must survive, and what it must not be believed after.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::generation::{build, open_within};
use super::memory::MemoryStore;
use super::*;

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

/// What every store must do. `reopen` closes the store that it is given and opens it again.
fn conforms(
    mut store: Box<dyn StateStore>,
    reopen: &dyn Fn(Box<dyn StateStore>) -> Box<dyn StateStore>,
) {
    assert_eq!(store.applied(), None);
    assert_eq!(streamed(&*store), []);

    let mut rows = some_rows(40, 1);
    store.write(puts(&rows), &applied(10, &rows)).unwrap();
    assert_eq!(store.applied(), Some(applied(10, &rows)));
    assert_eq!(
        streamed(&*store),
        rows.clone().into_iter().collect::<Vec<_>>()
    );

    store = reopen(store);
    assert_eq!(store.applied(), Some(applied(10, &rows)));

    let gone = rows.pop_first().unwrap().0;
    rows.insert(b"\xff".to_vec(), Vec::new());
    rows.insert(Vec::new(), b"the empty key".to_vec());
    let changes = vec![
        (gone, None),
        (b"never there".to_vec(), None),
        (b"\xff".to_vec(), Some(Vec::new())),
        (Vec::new(), Some(b"the empty key".to_vec())),
    ];
    store.write(changes, &applied(11, &rows)).unwrap();
    store = reopen(store);
    assert_eq!(store.applied(), Some(applied(11, &rows)));
    assert_eq!(
        streamed(&*store),
        rows.clone().into_iter().collect::<Vec<_>>()
    );

    let refused = |result: io::Result<()>| result.unwrap_err().kind();
    let back = store.write(Vec::new(), &applied(10, &rows));
    assert_eq!(refused(back), io::ErrorKind::InvalidInput);
    let large = vec![(b"k".to_vec(), Some(vec![0; MAX_ROW_BYTES]))];
    assert_eq!(
        refused(store.write(large, &applied(12, &rows))),
        io::ErrorKind::InvalidInput
    );
    store.write(Vec::new(), &applied(11, &rows)).unwrap();

    let mut seen = 0;
    let stopped = store.stream(&mut |_, _| {
        seen += 1;
        if seen == 3 {
            Err(io::Error::other("enough"))
        } else {
            Ok(())
        }
    });
    assert_eq!(
        (stopped.unwrap_err().to_string(), seen),
        ("enough".to_owned(), 3)
    );
    store.close().unwrap();
}

#[test]
fn the_memory_store_conforms() {
    let store = MemoryStore::default();
    let same = store.clone();
    conforms(Box::new(store), &move |closed| {
        closed.close().unwrap();
        Box::new(same.clone())
    });
}

#[test]
fn the_sled_store_conforms() {
    let dir = temp();
    let store = create_empty(dir.path(), CLUSTER).unwrap();
    conforms(Box::new(store), &|closed| {
        closed.close().unwrap();
        match opened(dir.path()) {
            Opened::Good { store, .. } | Opened::Empty { store } => Box::new(store),
            aside @ Opened::SetAside { .. } => panic!("{aside:?}"),
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_checkpoints_come_back_after_a_reopen(
        rounds in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..6),
                 prop::option::of(prop::collection::vec(any::<u8>(), 0..2000))),
                0..40),
            1..8),
    ) {
        let dir = temp();
        let mut store = create_empty(dir.path(), CLUSTER).unwrap();
        let mut rows = Rows::new();
        for (round, changes) in rounds.into_iter().enumerate() {
            // A drained state names each key once.
            let changes: BTreeMap<_, _> = changes.into_iter().collect();
            for (key, value) in &changes {
                match value {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
            let known = applied(round as u64, &rows);
            store.write(changes.into_iter().collect(), &known).unwrap();
            if round % 3 == 2 {
                close(store);
                let (again, found, found_applied) = good(dir.path());
                prop_assert_eq!(&found, &rows);
                prop_assert_eq!(found_applied, known);
                store = again;
            }
        }
        close(store);
        prop_assert_eq!(good(dir.path()).1, rows);
    }
}

#[test]
fn a_new_node_begins_empty_and_stays_so_until_the_first_checkpoint() {
    let dir = temp();
    for is_new in [true, true, false] {
        match open(dir.path(), CLUSTER, is_new).unwrap() {
            Opened::Empty { store } => close(store),
            other => panic!("{other:?}"),
        }
        assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
    }
}

#[test]
fn a_first_start_that_was_interrupted_begins_again() {
    let dir = temp();
    close(build(dir.path(), CLUSTER, |_| Ok(())).unwrap().0);
    assert!(matches!(
        open(dir.path(), CLUSTER, true).unwrap(),
        Opened::Empty { .. }
    ));
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
}

#[test]
fn rows_over_the_size_of_sleds_log_messages_come_back() {
    let rows: Rows = (0..20_u8)
        .map(|n| (vec![n], vec![n; 60_000 + usize::from(n)]))
        .collect();
    let dir = written(&rows);
    let (mut store, found, _) = good(dir.path());
    assert_eq!(found, rows);
    let mut changed = rows;
    let largest = (vec![99], vec![1; MAX_ROW_BYTES - 1]);
    changed.insert(largest.0.clone(), largest.1.clone());
    store
        .write(vec![(largest.0, Some(largest.1))], &applied(8, &changed))
        .unwrap();
    assert!(store.disk_bytes() > MAX_ROW_BYTES as u64);
    close(store);
    assert_eq!(good(dir.path()).1, changed);
}

#[test]
fn a_record_that_does_not_fit_the_rows_sets_the_folder_aside() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    let (mut store, ..) = good(dir.path());
    store
        .write(
            Vec::new(),
            &Checkpoint {
                digest: 1,
                ..applied(8, &rows)
            },
        )
        .unwrap();
    close(store);
    let (why, moved_to) = set_aside(dir.path());
    assert!(why.contains("recorded was"), "{why}");
    assert_eq!(moved_to, Some(dir.path().join("state-bad-1-1")));
    assert!(moved_to.unwrap().join("db").exists());
    assert!(set_aside(dir.path()).0.contains("gone"));
}

#[test]
fn a_folder_of_another_cluster_or_number_is_set_aside() {
    let rows = some_rows(3, 1);
    let dir = written(&rows);
    match open(dir.path(), "cluster-b", false).unwrap() {
        Opened::SetAside { why, .. } => assert!(why.contains(CLUSTER), "{why}"),
        other => panic!("{other:?}"),
    }
    let dir = written(&rows);
    close(create_generation(dir.path(), CLUSTER, oks(&rows), &applied(8, &rows)).unwrap());
    copy(
        &written(&rows).path().join("state-1"),
        &dir.path().join("older"),
    );
    fs::remove_dir_all(dir.path().join("state-2")).unwrap();
    fs::rename(dir.path().join("older"), dir.path().join("state-2")).unwrap();
    assert!(set_aside(dir.path()).0.contains("generation 1"));
}

#[test]
fn a_deleted_folder_is_gone_and_the_next_generation_has_a_new_number() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    fs::remove_dir_all(dir.path().join("state-1")).unwrap();
    let (why, moved_to) = set_aside(dir.path());
    assert_eq!((why.as_str(), moved_to), ("state-1 is gone", None));
    close(create_generation(dir.path(), CLUSTER, oks(&rows), &applied(9, &rows)).unwrap());
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
    let (_store, found, found_applied) = good(dir.path());
    assert_eq!((found, found_applied.index), (rows, 9));
}

#[test]
fn deleted_files_of_sled_never_make_an_empty_state() {
    let rows = some_rows(300, 1);
    for gone in ["db", "conf", "blobs"] {
        let dir = written(&rows);
        let path = dir.path().join("state-1").join(gone);
        if path.is_dir() {
            fs::remove_dir(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        match opened(dir.path()) {
            Opened::SetAside { .. } => {}
            Opened::Good { rows: found, .. } => {
                assert_eq!(found.into_iter().collect::<Rows>(), rows, "without {gone}");
            }
            Opened::Empty { .. } => panic!("empty without {gone}"),
        }
    }
}

#[test]
fn without_a_current_the_folder_is_set_aside() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let (why, moved_to) = set_aside(dir.path());
    assert_eq!(why, "CURRENT is missing");
    assert_eq!(moved_to, Some(dir.path().join("state-bad-1-1")));
    let (why, moved_to) = set_aside(dir.path());
    assert_eq!((why.as_str(), moved_to), ("CURRENT is missing", None));
    close(create_generation(dir.path(), CLUSTER, oks(&rows), &applied(9, &rows)).unwrap());
    assert_eq!(names(dir.path()), ["CURRENT", "state-2", "state-bad-1-1"]);
}

#[test]
fn each_flipped_bit_of_current_is_found() {
    let rows = some_rows(1, 1);
    let dir = written(&rows);
    let right = fs::read(dir.path().join("CURRENT")).unwrap();
    assert_eq!(right, b"state-1 bb290e86\n".to_vec().as_slice());
    let check = |bytes: &[u8]| {
        let other = temp();
        fs::write(other.path().join("CURRENT"), bytes).unwrap();
        let (why, moved_to) = set_aside(other.path());
        assert_eq!(
            (why.as_str(), moved_to),
            ("CURRENT is malformed", None),
            "{bytes:?}"
        );
    };
    for position in 0..right.len() {
        for bit in 0..8 {
            let mut damaged = right.clone();
            damaged[position] ^= 1 << bit;
            check(&damaged);
        }
        check(&right[..position]);
    }
    check(b"state-1 bb290e86\n\n");
    check(b"state-01 00000000\n");
}

#[test]
fn a_new_generation_takes_the_place_of_the_old_one_while_that_is_open() {
    let (old, new) = (some_rows(300, 1), some_rows(200, 2));
    let dir = written(&old);
    let (before, ..) = good(dir.path());
    let after = create_generation(dir.path(), CLUSTER, oks(&new), &applied(50, &new)).unwrap();
    before.let_go();
    close(after);
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
    let (_store, found, found_applied) = good(dir.path());
    assert_eq!((found, found_applied), (new.clone(), applied(50, &new)));
}

#[test]
fn an_interrupted_generation_leaves_the_old_one() {
    let (old, new) = (some_rows(300, 1), some_rows(10_000, 2));
    let check = |dir: &TempDir| {
        let (store, found, found_applied) = good(dir.path());
        assert_eq!((&found, &found_applied), (&old, &applied(7, &old)));
        assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
        close(store);
    };

    let dir = written(&old);
    let torn = oks(&new)
        .take(9_000)
        .chain([Err(io::Error::other("the peer went away"))]);
    let error = create_generation(dir.path(), CLUSTER, torn, &applied(50, &new)).unwrap_err();
    assert_eq!(error.to_string(), "the peer went away");
    check(&dir);

    let other = create_generation(dir.path(), CLUSTER, oks(&new).skip(1), &applied(50, &new));
    assert_eq!(other.unwrap_err().kind(), io::ErrorKind::InvalidData);
    check(&dir);

    let panicking = oks(&new).inspect(|_| panic!("a panic of the source"));
    assert!(create_generation(dir.path(), CLUSTER, panicking, &applied(50, &new)).is_err());
    check(&dir);

    // A kill before CURRENT is flipped: the folder is complete, and nothing names it.
    let built = build(dir.path(), CLUSTER, |store| {
        store.fill(oks(&new), &applied(50, &new))
    });
    close(built.unwrap().0);
    fs::write(dir.path().join("CURRENT.tmp"), b"state-2 ").unwrap();
    assert_eq!(
        names(dir.path()),
        ["CURRENT", "CURRENT.tmp", "state-1", "state-2"]
    );
    check(&dir);
}

#[test]
fn a_kill_after_the_flip_leaves_the_new_generation() {
    let (old, new) = (some_rows(30, 1), some_rows(40, 2));
    let dir = written(&old);
    let kept = temp();
    copy(&dir.path().join("state-1"), &kept.path().join("state-1"));
    close(create_generation(dir.path(), CLUSTER, oks(&new), &applied(50, &new)).unwrap());
    copy(&kept.path().join("state-1"), &dir.path().join("state-1"));
    assert_eq!(good(dir.path()).1, new);
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
}

#[test]
fn two_set_aside_folders_are_kept() {
    let rows = some_rows(3, 1);
    let dir = written(&rows);
    for generation in 1..=4_u64 {
        fs::write(
            dir.path().join(format!("state-{generation}/db")),
            vec![7; 1 << 16],
        )
        .unwrap();
        let moved_to = set_aside(dir.path()).1.unwrap();
        assert!(
            moved_to.ends_with(format!("state-bad-{generation}-1")),
            "{moved_to:?}"
        );
        close(create_generation(dir.path(), CLUSTER, oks(&rows), &applied(8, &rows)).unwrap());
    }
    assert_eq!(
        names(dir.path()),
        ["CURRENT", "state-5", "state-bad-3-1", "state-bad-4-1"]
    );
}

#[test]
fn a_folder_that_does_not_open_in_time_is_set_aside() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    // sled's lock on the folder is held, so that the open cannot end.
    let (held, ..) = good(dir.path());
    let limit = Duration::from_millis(300);
    match open_within(dir.path(), CLUSTER, false, limit).unwrap() {
        Opened::SetAside { moved_to, .. } => assert!(moved_to.is_some()),
        other => panic!("{other:?}"),
    }
    held.let_go();
}

#[test]
fn a_disk_that_refuses_is_an_error_and_costs_no_folder() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    let current = dir.path().join("CURRENT");
    fs::remove_file(&current).unwrap();
    fs::create_dir(&current).unwrap();
    assert!(open(dir.path(), CLUSTER, false).is_err());
    assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
}

/// Flips bytes all over a folder that has seen many checkpoints: the last one comes back whole, or
/// the folder is set aside.
#[test]
fn a_flipped_byte_is_never_believed() {
    let template = temp();
    let mut history: Vec<(Checkpoint, Rows)> = Vec::new();
    let mut rows = Rows::new();
    let mut store = create_empty(template.path(), CLUSTER).unwrap();
    for round in 0..12 {
        let changed: Rows = some_rows(400, round)
            .into_iter()
            .skip(round as usize * 9)
            .collect();
        rows.extend(changed.clone());
        let known = applied(u64::from(round) + 1, &rows);
        store.write(puts(&changed), &known).unwrap();
        history.push((known, rows.clone()));
        if round == 5 {
            close(store);
            store = good(template.path()).0;
        }
    }
    close(store);

    let mut outcomes = BTreeMap::new();
    for file in names(&template.path().join("state-1")) {
        let path = template.path().join("state-1").join(&file);
        if path.is_dir() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for position in flip_positions(&bytes) {
            let dir = temp();
            copy(template.path(), dir.path());
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x40 | (position as u8 & 1);
            fs::write(dir.path().join("state-1").join(&file), damaged).unwrap();
            let limit = Duration::from_secs(10);
            let found = open_within(dir.path(), CLUSTER, false, limit);
            let outcome = match found.unwrap_or_else(|e| panic!("{file} byte {position}: {e}")) {
                Opened::Good {
                    store,
                    rows,
                    applied,
                } => {
                    let found = (applied, rows.into_iter().collect());
                    assert!(history.contains(&found), "{file} byte {position}");
                    let last = Some(&found) == history.last();
                    store.let_go();
                    if last {
                        "as it was"
                    } else {
                        "an earlier checkpoint"
                    }
                }
                Opened::Empty { store } => {
                    store.let_go();
                    "before the first checkpoint"
                }
                Opened::SetAside { .. } => "set aside",
            };
            *outcomes.entry(outcome).or_insert(0_u32) += 1;
        }
    }
    assert!(
        outcomes.get("set aside").is_some_and(|count| *count > 10),
        "{outcomes:?}"
    );
    // Each of these checkpoints was synced and noted, so none may be forgotten silently.
    assert_eq!(outcomes.get("an earlier checkpoint"), None, "{outcomes:?}");
    assert_eq!(
        outcomes.get("before the first checkpoint"),
        None,
        "{outcomes:?}"
    );
}

/// Some bytes of each kind: the first ones, and then some of what is not zero, evenly spread.
fn flip_positions(bytes: &[u8]) -> Vec<usize> {
    const SPREAD: usize = 120;
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let step = used.len().div_ceil(SPREAD).max(1);
    let first = 0..bytes.len().min(24);
    first.chain(used.into_iter().step_by(step)).collect()
}
