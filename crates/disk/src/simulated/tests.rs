//! One test for each rule of the simulated disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::{replace_file, sibling};

fn disk() -> SimulatedDisk {
    SimulatedDisk::holding("/data")
}

fn path(name: &str) -> PathBuf {
    Path::new("/data").join(name)
}

/// Returns an open file that is durable.
fn file(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    disk.put(path(name), bytes);
    disk.open(&path(name)).unwrap()
}

/// Returns all results of `look` on the disks that power cuts at this moment may leave.
fn after_cuts<T: Ord>(disk: &SimulatedDisk, look: impl Fn(&SimulatedDisk) -> T) -> BTreeSet<T> {
    let mut dice = Dice::new(7);
    (0..400).map(|_| look(&disk.cut(&mut dice))).collect()
}

fn names(disk: &SimulatedDisk) -> String {
    let mut names = disk.list(Path::new("/data")).unwrap();
    names.sort();
    names.join(" ")
}

fn set<'a>(of: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    of.into_iter().map(String::from).collect()
}

#[test]
fn unsynced_sectors_survive_each_for_itself() {
    let disk = disk();
    let file = file(&disk, "a", &[b'.'; 1536]);
    file.write_at(&[b'x'; 1536], 0).unwrap();
    let seen = after_cuts(&disk, |disk| {
        let bytes = disk.contents(path("a")).unwrap();
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside");
        }
        String::from_utf8(bytes.into_iter().step_by(512).collect()).unwrap()
    });
    assert_eq!(
        seen,
        set(["...", "..x", ".x.", ".xx", "x..", "x.x", "xx.", "xxx"])
    );
}

#[test]
fn a_sector_that_was_written_twice_may_have_either_version() {
    let disk = disk();
    let file = file(&disk, "a", b"0");
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 0).unwrap();
    let seen = after_cuts(&disk, |disk| disk.contents(path("a")).unwrap());
    assert_eq!(
        seen,
        BTreeSet::from([b"0".into(), b"1".into(), b"2".into()])
    );
}

#[test]
fn synced_files_survive_and_other_files_stay_unsynced() {
    for sync in [<dyn DiskFile>::sync_data, <dyn DiskFile>::sync_all] {
        let disk = disk();
        let (one, other) = (file(&disk, "a", b""), file(&disk, "b", b""));
        one.write_at(&[1; 5000], 100).unwrap();
        other.write_at(b"b", 0).unwrap();
        sync(&*one).unwrap();
        let seen = after_cuts(&disk, |disk| {
            let bytes = disk.contents(path("a")).unwrap();
            assert_eq!((bytes.len(), &bytes[100..]), (5100, &[1; 5000][..]));
            disk.contents(path("b")).unwrap()
        });
        assert!(seen.contains(b"".as_slice()) && seen.contains(b"b".as_slice()));
    }
}

#[test]
fn a_length_that_was_reserved_or_set_is_there_or_not_until_a_sync() {
    for grow in [<dyn DiskFile>::reserve, <dyn DiskFile>::set_len] {
        let disk = disk();
        let file = file(&disk, "a", b"abc");
        grow(&*file, 2000).unwrap();
        assert_eq!(file.len().unwrap(), 2000);
        let seen = after_cuts(&disk, |disk| disk.contents(path("a")).unwrap().len());
        assert!(seen.contains(&3) && seen.contains(&2000), "{seen:?}");
        file.sync_data().unwrap();
        assert_eq!(disk.lost().contents(path("a")).unwrap().len(), 2000);
    }
}

#[test]
fn truncated_bytes_are_zeroes_after_the_file_grows_again() {
    let disk = disk();
    let file = file(&disk, "a", &[7; 6000]);
    file.set_len(10).unwrap();
    file.set_len(5000).unwrap();
    let mut bytes = vec![1; 5000];
    file.read_at(&mut bytes, 0).unwrap();
    assert!(bytes[..10] == [7; 10] && bytes[10..].iter().all(|byte| *byte == 0));
    file.sync_data().unwrap();
    assert_eq!(disk.lost().contents(path("a")).unwrap(), bytes);
    assert_eq!(
        file.read_at(&mut [0; 2], 4999).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
}

#[test]
fn a_new_file_has_no_name_until_its_folder_is_synced() {
    let disk = disk();
    let file = disk.create(&path("a")).unwrap();
    file.write_at(b"abc", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(after_cuts(&disk, names), set(["", "a"]));
    // If the name survived, the synced content did too.
    let with = |disk: &SimulatedDisk| disk.contents(path("a"));
    assert_eq!(
        after_cuts(&disk, with),
        BTreeSet::from([None, Some(b"abc".to_vec())])
    );
    disk.sync_dir(Path::new("/data")).unwrap();
    assert_eq!(after_cuts(&disk, names), set(["a"]));
}

#[test]
fn a_new_folder_is_lost_with_all_in_it_until_the_one_above_is_synced() {
    let disk = disk();
    let inside = path("new/file");
    disk.create_dir_all(&path("new")).unwrap();
    disk.create(&inside).unwrap().sync_all().unwrap();
    disk.sync_dir(&path("new")).unwrap();
    assert_eq!(after_cuts(&disk, names), set(["", "new"]));
    disk.sync_dir(Path::new("/data")).unwrap();
    assert_eq!(disk.lost().kind(&inside).unwrap(), Some(Kind::File));
}

#[test]
fn a_rename_over_a_file_leaves_the_old_or_the_new() {
    let disk = disk();
    file(&disk, "a", b"old");
    file(&disk, "a.tmp", b"new");
    disk.rename(&path("a.tmp"), &path("a")).unwrap();
    assert_eq!(names(&disk), "a");
    let seen = after_cuts(&disk, |disk| {
        (names(disk), disk.contents(path("a")).unwrap())
    });
    let (old, new) = (
        (String::from("a a.tmp"), b"old".into()),
        (String::from("a"), b"new".into()),
    );
    assert_eq!(seen, BTreeSet::from([old, new.clone()]));
    disk.sync_dir(Path::new("/data")).unwrap();
    assert_eq!(
        after_cuts(&disk, |disk| (
            names(disk),
            disk.contents(path("a")).unwrap()
        )),
        BTreeSet::from([new])
    );
}

#[test]
fn a_rename_may_survive_without_the_bytes() {
    let disk = disk();
    let file = disk.create(&path("a.tmp")).unwrap();
    file.write_at(b"abc", 0).unwrap();
    disk.rename(&path("a.tmp"), &path("a")).unwrap();
    let seen = after_cuts(&disk, |disk| {
        (names(disk), disk.contents(path("a")).unwrap_or_default())
    });
    assert!(seen.contains(&("a".into(), Vec::new())), "{seen:?}");
    assert!(seen.contains(&("a.tmp".into(), Vec::new())), "{seen:?}");
    assert!(seen.contains(&(String::new(), Vec::new())), "{seen:?}");
    assert!(seen.contains(&("a".into(), b"abc".to_vec())), "{seen:?}");
}

#[test]
fn unsynced_changes_of_names_survive_in_any_combination() {
    let disk = disk();
    for name in ["a", "b", "c"] {
        file(&disk, name, b"");
    }
    for name in ["a", "b", "c"] {
        disk.remove(&path(name)).unwrap();
    }
    assert_eq!(
        after_cuts(&disk, names),
        set(["", "a", "b", "c", "a b", "a c", "b c", "a b c"])
    );
}

#[test]
fn a_folder_that_was_removed_comes_back_with_any_of_its_files() {
    let disk = disk();
    disk.create_dir_all(&path("old")).unwrap();
    disk.sync_dir(Path::new("/data")).unwrap();
    for name in ["old/a", "old/b"] {
        file(&disk, name, b"x");
    }
    disk.remove_dir_all(&path("old")).unwrap();
    assert_eq!(names(&disk), "");
    let seen = after_cuts(&disk, |disk| {
        disk.list(&path("old")).map(|names| names.len()).ok()
    });
    assert_eq!(seen, BTreeSet::from([None, Some(0), Some(1), Some(2)]));
    disk.sync_dir(Path::new("/data")).unwrap();
    assert_eq!(after_cuts(&disk, names), set([""]));
}

#[test]
fn after_a_failed_sync_the_next_sync_returns_ok_and_saves_nothing() {
    let disk = disk();
    let file = file(&disk, "a", b"0");
    file.write_at(b"1", 0).unwrap();
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput).at("/a"));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    // Readers see it, so a process that only reads the data back cannot detect the loss.
    assert_eq!(disk.killed().contents(path("a")).unwrap(), b"1");
    assert_eq!(disk.lost().contents(path("a")).unwrap(), b"0");
    // A further write makes it dirty again.
    file.write_at(b"1", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.lost().contents(path("a")).unwrap(), b"1");
}

#[test]
fn after_a_failed_sync_of_a_folder_nothing_changes_until_the_machine_starts_again() {
    let disk = disk();
    let file = file(&disk, "old", b"0");
    disk.create(&path("new")).unwrap();
    disk.plant(Fault::on(Call::SyncDir, Failure::InputOutput));
    assert!(disk.sync_dir(Path::new("/data")).is_err());
    for disk in [&disk, &disk.killed()] {
        let error = disk.sync_dir(Path::new("/data")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(disk.create(&path("b")).is_err());
        assert_eq!(names(disk), "new old");
    }
    assert!(file.write_at(b"1", 0).is_err());
    assert_eq!(after_cuts(&disk, names), set(["old", "new old"]));
    disk.lost().create(&path("b")).unwrap();
}

#[test]
fn faults_strike_the_chosen_calls() {
    let disk = disk();
    let file = file(&disk, "a.seg", b"");
    for _ in 0..2 {
        disk.plant(Fault::on(Call::Write, Failure::NoSpace).at(".seg").after(2));
    }
    let written: Vec<_> = (0..5).map(|at| file.write_at(b"x", at).is_ok()).collect();
    assert_eq!(written, [true, true, false, false, true]);
    disk.plant(Fault::on(Call::Write, Failure::ShortWrite(3)));
    let error = file.write_at(b"abcdef", 5).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.contents(path("a.seg")).unwrap(), b"xx\0\0xabc");
    disk.plant(Fault::on(Call::Open, Failure::InputOutput));
    assert!(disk.open(&path("a.seg")).is_err());
    assert!(disk.open(&path("a.seg")).is_ok());
}

#[test]
fn a_file_that_was_opened_for_reading_is_not_written() {
    let disk = disk();
    file(&disk, "a", b"abc");
    let file = disk.open_read(&path("a")).unwrap();
    assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err());
    assert_eq!(disk.contents(path("a")).unwrap(), b"abc");
}

#[test]
fn a_full_disk_lets_no_file_grow() {
    let disk = disk();
    let file = file(&disk, "a", b"abc");
    disk.set_full(true);
    file.write_at(b"xyz", 0).unwrap();
    for error in [file.write_at(b"xyz", 1), file.reserve(10)] {
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn the_power_fails_under_the_chosen_operation_and_nothing_works_after_it() {
    let disk = disk();
    let file = file(&disk, "a", b"0");
    disk.cut_at(disk.operation_count() + 2);
    file.sync_data().unwrap();
    assert!(!disk.is_off());
    assert!(file.write_at(b"1", 0).is_err());
    assert!(disk.is_off());
    assert!(file.sync_data().is_err() && file.len().is_err() && disk.create(&path("b")).is_err());
    let seen = after_cuts(&disk, |disk| disk.contents(path("a")).unwrap());
    assert_eq!(seen, BTreeSet::from([b"0".into(), b"1".into()]));
    assert!(disk.cut(&mut Dice::new(1)).create(&path("b")).is_ok());
}

#[test]
fn a_sync_under_which_the_power_fails_may_have_been_done_in_part() {
    let disk = disk();
    let file = file(&disk, "a", &[b'.'; 1024]);
    file.write_at(&[b'x'; 1024], 0).unwrap();
    disk.cut_at(disk.operation_count() + 1);
    assert!(file.sync_data().is_err());
    let seen = after_cuts(&disk, |disk| {
        let bytes = disk.contents(path("a")).unwrap();
        (bytes[0], bytes[512])
    });
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_lying_disk_returns_ok_and_saves_nothing_also_after_a_cut() {
    let disk = disk();
    disk.set_lie(|operation| operation.call == Call::SyncData);
    for disk in [disk.clone(), disk.lost()] {
        let file = file(&disk, "a", b"0");
        file.write_at(b"1", 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(disk.lost().contents(path("a")).unwrap(), b"0");
        file.sync_all().unwrap();
        assert_eq!(disk.lost().contents(path("a")).unwrap(), b"1");
    }
}

#[test]
fn equal_seeds_leave_equal_disks_and_equal_runs_have_equal_fingerprints() {
    let run = |seed: u64| {
        let disk = disk();
        let mut dice = Dice::new(seed);
        for round in 0..20 {
            let name = path(&format!("{}", dice.below(5)));
            if disk.kind(&name).unwrap().is_none() {
                disk.create(&name).unwrap();
            }
            let file = disk.open(&name).unwrap();
            file.write_at(&dice.roll().to_le_bytes(), dice.below(3000))
                .unwrap();
            if round % 3 == 0 {
                file.sync_data().unwrap();
            }
        }
        let left = disk.cut(&mut dice);
        let mut files: Vec<_> = left.list(Path::new("/data")).unwrap();
        files.sort();
        let files: Vec<_> = files
            .into_iter()
            .map(|name| left.contents(path(&name)))
            .collect();
        (disk.fingerprint(), files)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn operations_are_recorded_by_the_name_that_a_file_has() {
    let disk = disk();
    replace_file(&disk, &path("a"), b"abc").unwrap();
    let seen: Vec<_> = disk.operations().iter().map(ToString::to_string).collect();
    assert_eq!(
        seen,
        [
            "    1 Create /data/a.tmp",
            "    2 Write /data/a.tmp at 0 3 bytes",
            "    3 SyncAll /data/a.tmp",
            "    4 Rename /data/a.tmp to /data/a",
            "    5 SyncDir /data",
        ]
    );
    let file = disk.open(&path("a")).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.operations()[5].path, path("a"));
    assert_eq!((disk.operation_count(), disk.count(Call::SyncDir)), (6, 1));
}

#[test]
fn a_file_is_replaced_or_not_at_any_cut() {
    for at in 1..=5 {
        let disk = disk();
        file(&disk, "a", b"old");
        disk.cut_at(at);
        replace_file(&disk, &path("a"), b"new").unwrap_err();
        for bytes in after_cuts(&disk, |disk| disk.contents(path("a")).unwrap()) {
            assert!(bytes == b"old" || bytes == b"new", "at {at}: {bytes:?}");
        }
    }
    let disk = disk();
    replace_file(&disk, &path("a"), b"new").unwrap();
    assert_eq!(disk.lost().contents(path("a")).unwrap(), b"new");
    assert_eq!(disk.contents(sibling(&path("a"), ".tmp")), None);
}
