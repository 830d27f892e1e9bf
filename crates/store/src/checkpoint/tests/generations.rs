//! The folder that a start uses after a crash at any point.

use std::sync::Arc;

use seqd_disk::{Disk, Tap, Tapped};

use super::*;
use crate::checkpoint::generation::build;

/// A disk that is full when `CURRENT` is replaced: at the rename, or right after it.
#[derive(Clone, Copy)]
struct FullAtTheFlip {
    is_renamed: bool,
}

impl Tap for FullAtTheFlip {
    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        let is_flip = to.ends_with("CURRENT");
        if self.is_renamed || !is_flip {
            below.rename(from, to)?;
        }
        if is_flip {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// Rebuilds a folder on such a disk. Returns the result and the remaining folders.
fn rebuilt_at_full_flip(is_renamed: bool) -> (NotMade, Vec<String>) {
    let rows = some_rows(300, 1);
    let dir = written(&rows);
    let place = Place {
        disk: Arc::new(Tapped {
            disk: Arc::new(OsDisk),
            tap: Arc::new(FullAtTheFlip { is_renamed }),
        }),
        ..place(dir.path())
    };
    let rebuilt = rebuild_generation(&place, oks(&rows), &applied(8, &rows), &mut || Ok(()));
    let mut left = names(dir.path());
    left.retain(|name| name.starts_with("state-"));
    (rebuilt.unwrap_err(), left)
}

#[test]
fn a_generation_that_could_not_be_made_current_is_removed() {
    let (not_made, left) = rebuilt_at_full_flip(false);
    assert!(matches!(not_made, NotMade::Unchanged(_)), "{not_made:?}");
    assert_eq!(left, ["state-1"]);
}

#[test]
fn a_generation_that_may_be_current_stays() {
    let (not_made, left) = rebuilt_at_full_flip(true);
    assert!(
        matches!(not_made, NotMade::MaybeReplaced(_)),
        "{not_made:?}"
    );
    assert_eq!(left, ["state-1", "state-2"]);
}

#[test]
fn a_new_node_begins_empty_and_stays_so_until_the_first_checkpoint() {
    let dir = temp();
    for is_new in [true, true, false] {
        match open::<Rows>(&place(dir.path()), is_new).unwrap() {
            Opened::Empty { store } => close(store),
            other => panic!("{other:?}"),
        }
        assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
    }
}

#[test]
fn a_first_start_that_was_interrupted_begins_again() {
    let dir = temp();
    close(build(&place(dir.path()), |_| Ok(())).unwrap().0);
    assert!(matches!(
        open::<Rows>(&place(dir.path()), true).unwrap(),
        Opened::Empty { .. }
    ));
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
}

#[test]
fn a_new_generation_takes_the_place_of_the_old_one_while_that_is_open() {
    let (old, new) = (some_rows(300, 1), some_rows(200, 2));
    let dir = written(&old);
    let (before, ..) = good(dir.path());
    let after = create_generation(&place(dir.path()), oks(&new), &applied(50, &new)).unwrap();
    drop(before);
    close(after);
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
    let (_store, found, found_applied) = good(dir.path());
    assert_eq!((found, found_applied), (new.clone(), applied(50, &new)));
}

/// Returns the page tables that sled has written.
fn tables(dir: &TempDir) -> Vec<String> {
    let mut names = names(&dir.path().join("state-1"));
    names.retain(|name| name.starts_with("snap."));
    names
}

#[test]
fn a_table_that_sled_had_not_finished_costs_no_store() {
    let rows = some_rows(300, 1);
    let dir = written(&rows);
    close(good(dir.path()).0);
    let [table] = tables(&dir).try_into().unwrap();
    let state = dir.path().join("state-1");
    let whole = fs::read(state.join(&table)).unwrap();
    for length in [0, 5, whole.len() / 2, whole.len()] {
        let later = state.join("snap.00000000FFFFFFFF.generating");
        fs::write(later, &whole[..length]).unwrap();
        let (store, found, found_applied) = good(dir.path());
        assert_eq!((&found, &found_applied), (&rows, &applied(7, &rows)));
        assert!(
            tables(&dir)
                .iter()
                .all(|name| !name.ends_with(".generating"))
        );
        close(store);
    }
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
    let error = create_generation(&place(dir.path()), torn, &applied(50, &new)).unwrap_err();
    assert_eq!(error.to_string(), "the peer went away");
    check(&dir);

    let other = create_generation(&place(dir.path()), oks(&new).skip(1), &applied(50, &new));
    assert_eq!(other.unwrap_err().kind(), io::ErrorKind::InvalidData);
    check(&dir);

    let panicking = oks(&new).inspect(|_| panic!("a panic of the source"));
    assert!(create_generation(&place(dir.path()), panicking, &applied(50, &new)).is_err());
    check(&dir);

    // A kill before `CURRENT` is replaced: the folder is complete, and nothing names it.
    let built = build(&place(dir.path()), |store| {
        store.fill(&mut oks(&new), &applied(50, &new), &mut || Ok(()))
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
fn a_rebuild_calls_its_hook_also_while_it_compares_what_it_wrote() {
    let rows = some_rows(300, 1);
    let dir = temp();
    let mut calls = 0;
    let rebuilt = rebuild_generation(
        &place(dir.path()),
        oks(&rows),
        &applied(7, &rows),
        &mut || {
            calls += 1;
            Ok(())
        },
    );
    close(rebuilt.unwrap());
    assert_eq!(
        calls, 600,
        "what is applied gathers while the store is compared"
    );
    let ended = rebuild_generation(
        &place(dir.path()),
        oks(&rows),
        &applied(8, &rows),
        &mut || {
            calls += 1;
            match calls {
                ..1000 => Ok(()),
                _ => Err(io::ErrorKind::StorageFull.into()),
            }
        },
    );
    let ended = io::Error::from(ended.unwrap_err());
    assert_eq!(ended.kind(), io::ErrorKind::StorageFull);
    assert_eq!(names(dir.path()), ["CURRENT", "state-1"]);
}

#[test]
fn a_kill_after_the_flip_leaves_the_new_generation() {
    let (old, new) = (some_rows(30, 1), some_rows(40, 2));
    let dir = written(&old);
    let kept = temp();
    copy(&dir.path().join("state-1"), &kept.path().join("state-1"));
    close(create_generation(&place(dir.path()), oks(&new), &applied(50, &new)).unwrap());
    copy(&kept.path().join("state-1"), &dir.path().join("state-1"));
    assert_eq!(good(dir.path()).1, new);
    assert_eq!(names(dir.path()), ["CURRENT", "state-2"]);
}
