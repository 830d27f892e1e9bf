//! Power cuts of a folder that real sled writes: what was synced, and any part of the rest.
//!
//! sled goes past the disk's seam, but every sync that a checkpoint rests on is ours. So a disk
//! beside the real one remembers each file as of its last sync, and a cut at any sync leaves that,
//! plus any of the blocks and names that came since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use seqd_disk::simulated::Dice;
use seqd_disk::{Tap, Tapped};

use super::*;

/// What is known to be durable.
#[derive(Default)]
struct Image {
    contents: BTreeMap<PathBuf, Vec<u8>>,
    names: BTreeMap<PathBuf, BTreeSet<String>>,
}

/// The image beside the real disk, and the cuts that were made.
struct Shadow {
    root: PathBuf,
    image: Mutex<Image>,
    dice: Mutex<Dice>,
    cuts: Mutex<Vec<TempDir>>,
    /// Of this file a sync is a lie.
    swallowed: Option<&'static str>,
}

impl Shadow {
    fn new(root: &Path, seed: u64, swallowed: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            image: Mutex::default(),
            dice: Mutex::new(Dice::new(seed)),
            cuts: Mutex::default(),
            swallowed,
        })
    }

    /// Half of all syncs are too late.
    fn cut_now_and_then(&self) {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        if dice.chance(8) {
            let left = temp();
            let image = self.image.lock().unwrap();
            leave(&image, &mut dice, &self.root, left.path());
            self.cuts.lock().unwrap().push(left);
        }
    }
}

/// Writes what a cut leaves of `from` to `to`.
fn leave(image: &Image, dice: &mut Dice, from: &Path, to: &Path) {
    let durable = image.names.get(from).cloned().unwrap_or_default();
    let present: BTreeSet<String> = names(from).into_iter().collect();
    let survival = [0, 8, 16][dice.below(3) as usize];
    for name in durable.union(&present) {
        let (path, left) = (from.join(name), to.join(name));
        let is_certain = durable.contains(name) && present.contains(name);
        if !is_certain && durable.contains(name) == dice.chance(survival) {
            continue;
        }
        if path.is_dir() {
            fs::create_dir(&left).unwrap();
            leave(image, dice, &path, &left);
            continue;
        }
        let last = image.contents.get(&path);
        // sled syncs its own snapshots before it names them.
        let now = fs::read(&path).ok();
        let is_sleds = name.starts_with("snap.");
        let bytes = match (last, now) {
            (None, Some(now)) if is_sleds => now,
            (last, Some(now)) => torn(last.map_or(&[][..], Vec::as_slice), &now, dice),
            (last, None) => last.cloned().unwrap_or_default(),
        };
        fs::write(left, bytes).unwrap();
    }
}

/// Some blocks of `now`, the others as they were synced.
fn torn(synced: &[u8], now: &[u8], dice: &mut Dice) -> Vec<u8> {
    let survival = [0, 1, 8, 15, 16][dice.below(5) as usize];
    let block = [512, 4096][dice.below(2) as usize];
    let len = if dice.chance(survival) {
        now.len()
    } else {
        synced.len()
    };
    let mut left = synced.to_vec();
    left.resize(len, 0);
    for (at, bytes) in left.chunks_mut(block).enumerate() {
        let here = now.get(at * block..).unwrap_or_default();
        let here = &here[..here.len().min(bytes.len())];
        if dice.chance(survival) {
            bytes[..here.len()].copy_from_slice(here);
        }
    }
    left
}

impl Tap for Shadow {
    fn sync(&self, path: &Path, _: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.cut_now_and_then();
        if self.swallowed.is_none_or(|name| !path.ends_with(name)) {
            let bytes = fs::read(path).unwrap();
            let mut image = self.image.lock().unwrap();
            image.contents.insert(path.to_owned(), bytes);
        }
        Ok(())
    }

    fn sync_dir(&self, _: &dyn Disk, path: &Path) -> io::Result<()> {
        self.cut_now_and_then();
        let found = names(path).into_iter().collect();
        let mut image = self.image.lock().unwrap();
        image.names.insert(path.to_owned(), found);
        Ok(())
    }

    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        below.rename(from, to)?;
        // What was synced under the old name is found under the new one.
        let mut image = self.image.lock().unwrap();
        if let Some(bytes) = image.contents.remove(from) {
            image.contents.insert(to.to_owned(), bytes);
        }
        Ok(())
    }
}

/// How the folders that cuts left were found.
#[derive(Debug, Default)]
struct Outcomes {
    whole: u32,
    set_aside: u32,
    older_unnoticed: u32,
    wrong: u32,
}

impl Outcomes {
    fn all(&self) -> u32 {
        self.whole + self.set_aside + self.older_unnoticed + self.wrong
    }
}

/// Checkpoints on real sled, with cuts at any sync of each, and what is found afterwards.
fn cuts(seed: u64, checkpoints: u64, swallowed: Option<&'static str>, outcomes: &mut Outcomes) {
    let dir = temp();
    let shadow = Shadow::new(dir.path(), seed, swallowed);
    let tapped = Tapped {
        disk: Arc::new(OsDisk),
        tap: Arc::clone(&shadow),
    };
    let place = Place {
        disk: Arc::new(tapped),
        ..place(dir.path())
    };
    let mut dice = Dice::new(!seed);
    let mut store = create_empty(&place).unwrap();
    // While it was founded nothing was acknowledged.
    shadow.cuts.lock().unwrap().clear();
    let (mut rows, mut history, mut acknowledged) = (Rows::new(), Vec::new(), 0);
    for index in 1..=checkpoints {
        let changed: Rows = (0..1 + dice.below(30))
            .map(|_| {
                let key = format!("seq/{:04}", dice.below(200)).into_bytes();
                (key, vec![index as u8; dice.below(300) as usize])
            })
            .collect();
        rows.extend(changed.clone());
        let known = applied(index, &rows);
        history.push((known.clone(), rows.clone()));
        if dice.chance(1) {
            store.close().unwrap();
            store = match open::<Rows>(&place, false).unwrap() {
                Opened::Good { store, .. } | Opened::Empty { store } => store,
                aside @ Opened::SetAside { .. } => panic!("seed {seed}: {aside:?}"),
            };
        }
        store.write(puts(&changed), &known).unwrap();
        for left in std::mem::take(&mut *shadow.cuts.lock().unwrap()) {
            *outcome(&left, &history, acknowledged, outcomes) += 1;
        }
        acknowledged = index;
    }
}

fn outcome<'a>(
    left: &TempDir,
    history: &[(Checkpoint, Rows)],
    acknowledged: u64,
    outcomes: &'a mut Outcomes,
) -> &'a mut u32 {
    match open::<Rows>(&place(left.path()), false).unwrap() {
        Opened::SetAside { .. } => &mut outcomes.set_aside,
        Opened::Empty { .. } if acknowledged == 0 => &mut outcomes.whole,
        Opened::Empty { .. } => &mut outcomes.older_unnoticed,
        Opened::Good { rows, applied, .. } => {
            let index = applied.index;
            if !history.contains(&(applied, rows)) {
                &mut outcomes.wrong
            } else if index < acknowledged {
                &mut outcomes.older_unnoticed
            } else {
                &mut outcomes.whole
            }
        }
    }
}

#[test]
fn a_power_cut_leaves_the_last_synced_checkpoint_of_real_sled() {
    let mut outcomes = Outcomes::default();
    for seed in 1..=6 {
        cuts(seed, 60, None, &mut outcomes);
    }
    assert!(outcomes.all() > 150, "{outcomes:?}");
    assert_eq!(
        (outcomes.wrong, outcomes.older_unnoticed),
        (0, 0),
        "{outcomes:?}"
    );
    // Set aside it would be rebuilt; but what was synced should do.
    assert!(outcomes.set_aside * 20 <= outcomes.all(), "{outcomes:?}");
}

#[test]
fn sled_without_our_own_sync_is_found_to_lose_checkpoints() {
    let mut outcomes = Outcomes::default();
    for seed in 1..=3 {
        cuts(seed, 60, Some("db"), &mut outcomes);
    }
    let lost = outcomes.older_unnoticed + outcomes.set_aside;
    assert!(lost * 4 > outcomes.all(), "{outcomes:?}");
}
