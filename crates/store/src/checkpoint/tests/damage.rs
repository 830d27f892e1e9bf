//! A wrong checkpoint is set aside and never used.

use std::time::Duration;

use super::*;
use crate::checkpoint::generation::open_within;

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
    assert!(why.contains("was recorded"), "{why}");
    assert_eq!(moved_to, Some(dir.path().join("state-bad")));
    assert!(moved_to.unwrap().join("db").exists());
    assert!(set_aside(dir.path()).0.contains("missing"));
}

#[test]
fn a_folder_of_another_cluster_or_number_is_set_aside() {
    let rows = some_rows(3, 1);
    let dir = written(&rows);
    match open::<Rows>(&Place::on_sled(dir.path(), "cluster-b"), false).unwrap() {
        Opened::SetAside { why, .. } => assert!(why.contains(CLUSTER), "{why}"),
        other => panic!("{other:?}"),
    }
    let dir = written(&rows);
    close(create_generation(&place(dir.path()), oks(&rows), &applied(8, &rows)).unwrap());
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
    assert_eq!((why.as_str(), moved_to), ("state-1 is missing", None));
    close(create_generation(&place(dir.path()), oks(&rows), &applied(9, &rows)).unwrap());
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
                assert_eq!(found, rows, "without {gone}");
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
    assert_eq!(moved_to, Some(dir.path().join("state-bad")));
    let (why, moved_to) = set_aside(dir.path());
    assert_eq!((why.as_str(), moved_to), ("CURRENT is missing", None));
    close(create_generation(&place(dir.path()), oks(&rows), &applied(9, &rows)).unwrap());
    assert_eq!(names(dir.path()), ["CURRENT", "state-1", "state-bad"]);
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
fn the_last_folder_that_was_set_aside_is_kept() {
    let rows = some_rows(3, 1);
    let dir = written(&rows);
    // Two folders that an earlier version set aside.
    for earlier in ["state-bad-1-1", "state-bad-1-2"] {
        fs::create_dir(dir.path().join(earlier)).unwrap();
    }
    assert_eq!(good(dir.path()).1, rows);
    for generation in 1..=2_u64 {
        let folder = dir.path().join(format!("state-{generation}"));
        fs::write(folder.join("db"), vec![7; 1 << 16]).unwrap();
        fs::write(folder.join(format!("note-{generation}")), "").unwrap();
        assert!(set_aside(dir.path()).1.unwrap().ends_with("state-bad"));
        close(create_generation(&place(dir.path()), oks(&rows), &applied(8, &rows)).unwrap());
        assert_eq!(
            names(dir.path()),
            ["CURRENT", &format!("state-{}", generation + 1), "state-bad"]
        );
        let note = dir.path().join(format!("state-bad/note-{generation}"));
        assert!(note.exists());
    }
}

#[test]
fn a_folder_that_does_not_open_in_time_is_set_aside() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    // sled's lock on the folder is held, so the open cannot complete.
    let (held, ..) = good(dir.path());
    let limit = Duration::from_millis(300);
    match open_within::<Rows>(&place(dir.path()), false, limit).unwrap() {
        Opened::SetAside { moved_to, .. } => assert!(moved_to.is_some()),
        other => panic!("{other:?}"),
    }
    drop(held);
}

#[test]
fn a_disk_that_refuses_is_an_error_and_costs_no_folder() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    let current = dir.path().join("CURRENT");
    fs::remove_file(&current).unwrap();
    fs::create_dir(&current).unwrap();
    assert!(open::<Rows>(&place(dir.path()), false).is_err());
    assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
}

/// Flips bytes throughout a folder with many checkpoints. Either the last checkpoint is restored
/// completely, or the folder is set aside.
#[test]
fn a_flipped_byte_is_never_used() {
    let template = temp();
    let mut history: Vec<(Checkpoint, Rows)> = Vec::new();
    let mut rows = Rows::new();
    let mut store = create_empty(&place(template.path())).unwrap();
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
            let found = open_within::<Rows>(&place(dir.path()), false, limit);
            let outcome = match found.unwrap_or_else(|e| panic!("{file} byte {position}: {e}")) {
                Opened::Good {
                    store,
                    rows,
                    applied,
                } => {
                    let found = (applied, rows);
                    assert!(history.contains(&found), "{file} byte {position}");
                    let last = Some(&found) == history.last();
                    drop(store);
                    if last {
                        "as it was"
                    } else {
                        "an earlier checkpoint"
                    }
                }
                Opened::Empty { store } => {
                    drop(store);
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
    // Each of these checkpoints was synced and recorded in the witness, so none may be lost
    // silently.
    assert_eq!(outcomes.get("an earlier checkpoint"), None, "{outcomes:?}");
    assert_eq!(
        outcomes.get("before the first checkpoint"),
        None,
        "{outcomes:?}"
    );
}

/// Returns positions of each kind: the first bytes, and then a sample of the nonzero bytes, evenly
/// spread.
fn flip_positions(bytes: &[u8]) -> Vec<usize> {
    const SPREAD: usize = 120;
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let step = used.len().div_ceil(SPREAD).max(1);
    let first = 0..bytes.len().min(24);
    first.chain(used.into_iter().step_by(step)).collect()
}

#[test]
fn after_a_failed_checkpoint_nothing_more_is_written() {
    let rows = some_rows(30, 1);
    let dir = written(&rows);
    let (mut store, ..) = good(dir.path());
    let blobs = dir.path().join("state-1/blobs");
    fs::remove_dir(&blobs).unwrap();
    let more = some_rows(31, 2);
    assert!(store.write(puts(&more), &applied(8, &more)).is_err());
    assert_eq!(store.applied(), Some(applied(7, &rows)));

    fs::create_dir(&blobs).unwrap();
    let again = store.write(puts(&more), &applied(8, &more)).unwrap_err();
    assert_eq!(again.to_string(), "an earlier checkpoint failed");
    assert!(store.close().is_err());
    // The failed batch may be present or absent, but never partially.
    let (_store, found, record) = good(dir.path());
    let either = [
        (rows.clone(), applied(7, &rows)),
        (more.clone(), applied(8, &more)),
    ];
    assert!(either.contains(&(found, record)));
}
