//! Tools over a stopped node's folder: those of consensus, and the one file there that is
//! minting's.

use std::path::Path;

use seqd_disk::{OsDisk, ReadOnly};

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
        Ok(mark) => {
            let minted = mark.map(|mark| mark.last_minted.0);
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
        Ok(Some(mark)) if mark.last_minted.0 == 0 => {
            tell(&Check::ok(LAST_TICK, "nothing minted yet"));
        }
        Ok(Some(mark)) => tell(&Check::ok(
            LAST_TICK,
            format!("minted up to {}", crate::times::rfc3339(mark.last_minted)),
        )),
        // A start goes on without it: order across restarts is lost, uniqueness is not.
        Err(why) => tell(&Check::bad(LAST_TICK, why)),
    }
    Ok(())
}
