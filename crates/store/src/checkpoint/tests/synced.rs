//! The content of a folder of the real sled after a power cut that loses all unsynced data.
//!
//! sled does not use the disk trait, but every sync that a checkpoint depends on does. A tap on the
//! real disk therefore records each file and directory as of its last sync.

use std::sync::Mutex;

use seqd_disk::{Tap, Tapped};

use super::*;

/// The files and the directory entries as of their last sync.
#[derive(Default)]
struct Synced {
    contents: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    names: Mutex<BTreeMap<PathBuf, Vec<String>>>,
    /// A file whose syncs are ignored.
    swallowed: Option<&'static str>,
}

impl Tap for Synced {
    fn sync(&self, path: &Path, _: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        if self.swallowed.is_none_or(|name| !path.ends_with(name)) {
            let bytes = fs::read(path).unwrap();
            self.contents.lock().unwrap().insert(path.into(), bytes);
        }
        Ok(())
    }

    fn sync_dir(&self, _: &dyn Disk, path: &Path) -> io::Result<()> {
        let mut known = self.names.lock().unwrap();
        known.insert(path.to_owned(), names(path));
        Ok(())
    }

    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        below.rename(from, to)?;
        let mut contents = self.contents.lock().unwrap();
        if let Some(bytes) = contents.remove(from) {
            contents.insert(to.to_owned(), bytes);
        }
        Ok(())
    }
}

impl Synced {
    /// Writes the synced content of `from` to `to`.
    fn leave(&self, from: &Path, to: &Path) {
        let names = self.names.lock().unwrap().get(from).cloned();
        for name in names.unwrap_or_default() {
            let (path, left) = (from.join(&name), to.join(&name));
            if path.is_dir() {
                fs::create_dir(&left).unwrap();
                self.leave(&path, &left);
            } else if name.starts_with("snap.") {
                // sled syncs its page tables before it renames them to their final names.
                fs::copy(&path, &left).unwrap();
            } else {
                let bytes = self.contents.lock().unwrap().get(&path).cloned();
                fs::write(&left, bytes.unwrap_or_default()).unwrap();
            }
        }
    }
}

/// Returns how many of 60 checkpoints are intact after a power cut directly after them. The store
/// is reopened from time to time.
fn left_after_cuts(swallowed: Option<&'static str>) -> usize {
    let dir = temp();
    let tap = Arc::new(Synced {
        swallowed,
        ..Synced::default()
    });
    let disk = Arc::new(Tapped {
        disk: Arc::new(OsDisk),
        tap: Arc::clone(&tap),
    });
    let place = Place {
        disk,
        ..place(dir.path())
    };
    let mut store = create_empty(&place).unwrap();
    let mut rows = Rows::new();
    let mut whole = 0;
    for index in 1..=60_u64 {
        let changed: Rows = some_rows(200, index as u32)
            .into_iter()
            .skip((index * 7 % 190) as usize)
            .take(1 + (index * 11 % 30) as usize)
            .collect();
        rows.extend(changed.clone());
        let known = applied(index, &rows);
        store.write(puts(&changed), &known).unwrap();
        let left = temp();
        tap.leave(dir.path(), left.path());
        let found = open::<Rows>(&super::place(left.path()), false).unwrap();
        if let Opened::Good {
            rows: found,
            applied,
            ..
        } = found
        {
            assert!(applied.index < index || (&applied, &found) == (&known, &rows));
            whole += usize::from(applied.index == index);
        }
        if index % 16 == 0 {
            store.close().unwrap();
            store = match open::<Rows>(&place, false).unwrap() {
                Opened::Good { store, .. } => store,
                other => panic!("{other:?}"),
            };
        }
    }
    whole
}

#[test]
fn a_power_cut_leaves_the_last_checkpoint_of_real_sled() {
    let left = left_after_cuts(None);
    assert_eq!(left, 60, "a power cut took a checkpoint that was synced");
}

#[test]
fn sled_without_our_own_sync_is_found_to_lose_checkpoints() {
    assert_eq!(left_after_cuts(Some("db")), 0);
}
