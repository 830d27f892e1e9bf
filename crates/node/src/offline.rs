//! Tools over a stopped node's folder: those of consensus, and the one file there that is
//! minting's.

use std::path::Path;

use seqd_disk::{OsDisk, ReadOnly};
use seqd_idgen::WallMs;

pub use seqd_raft::offline::*;

use crate::minting::mark;

/// The file's name, as checks call it.
const LAST_TICK: &str = "last-tick";

/// Looks at a folder and writes nothing to it.
///
/// # Errors
/// The folder is in use or is none; what cannot be read in it is told in the report.
pub fn inspect_folder(root: &Path) -> Result<FolderReport, OfflineError> {
    let mut report = seqd_raft::offline::inspect_folder(root)?;
    match mark::look(&ReadOnly(OsDisk), root) {
        Ok(found) => {
            let minted = found.map(|found| found.mark.last_minted.0);
            report.last_minted_ms = minted.filter(|ms| *ms > 0);
        }
        Err(detail) => report.problems.push(Problem {
            file: LAST_TICK.to_owned(),
            detail,
        }),
    }
    Ok(report)
}

/// Checks a folder and writes nothing to it. `tell` hears of each check as it is done.
///
/// # Errors
/// The folder is in use or is none. Damage is no error here: it is told as a [`Check`].
pub fn verify_folder(root: &Path, tell: &mut dyn FnMut(&Check)) -> Result<(), OfflineError> {
    seqd_raft::offline::verify_folder(root, tell)?;
    match mark::look(&ReadOnly(OsDisk), root) {
        Ok(None) => {}
        Ok(Some(found)) => tell(&Check::ok(LAST_TICK, described(found))),
        // A start goes on without it: order across restarts is lost, uniqueness is not.
        Err(why) => tell(&Check::bad(LAST_TICK, why)),
    }
    Ok(())
}

fn described(found: mark::Found) -> String {
    let minted = match found.mark.last_minted {
        WallMs(0) => "nothing minted yet".to_owned(),
        last => format!("minted up to {}", crate::times::rfc3339(last)),
    };
    if found.is_sealed {
        minted
    } else {
        format!("{minted}; written by an earlier version, without a checksum")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for found in fs::read_dir(from).unwrap().flatten() {
            let to = to.join(found.file_name());
            if found.path().is_dir() {
                copy(&found.path(), &to);
            } else {
                fs::copy(found.path(), to).unwrap();
            }
        }
    }

    fn checks(root: &Path) -> Vec<Check> {
        let mut checks = Vec::new();
        verify_folder(root, &mut |check| checks.push(check.clone())).unwrap();
        checks
    }

    #[test]
    fn a_damaged_mark_of_the_clock_is_reported_and_is_not_ok() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        copy(&crates.join("../raft/tests/golden/data-v1"), folder.path());
        let path = folder.path().join(LAST_TICK);
        let last = checks(folder.path()).pop().unwrap();
        assert!(last.detail.ends_with("without a checksum"), "{last:?}");

        let mut bytes = fs::read(crates.join("tests/golden/last-tick-v2")).unwrap();
        fs::write(&path, &bytes).unwrap();
        let whole = inspect_folder(folder.path()).unwrap();
        assert_eq!((whole.problems.len(), whole.last_minted_ms), (0, Some(1)));
        let last = checks(folder.path()).pop().unwrap();
        assert_eq!(last.detail, "minted up to 1970-01-01T00:00:00.001Z");

        // A mark that lies centuries ahead.
        bytes[7] ^= 8;
        fs::write(&path, &bytes).unwrap();
        let damaged = inspect_folder(folder.path()).unwrap();
        let files: Vec<_> = damaged.problems.iter().map(|at| at.file.as_str()).collect();
        assert_eq!((files, damaged.last_minted_ms), (vec![LAST_TICK], None));
        let last = checks(folder.path()).pop().unwrap();
        assert_eq!(last, Check::bad(LAST_TICK, "its checksum does not match"));
    }
}
