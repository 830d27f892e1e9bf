//! The mark of the clock in a stopped node's folder, for the tools that look at one.

use std::path::Path;

use seqd_disk::{OsDisk, ReadOnly};
use seqd_idgen::WallMs;

use crate::minting::mark;

/// How far a node had minted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTick {
    /// Unix milliseconds; `None` if nothing was minted yet.
    pub minted_ms: Option<u64>,
    /// The same in words.
    pub described: String,
}

/// Reads the mark in a folder and writes nothing.
///
/// # Errors
/// Why it cannot be believed. A start goes on without it: order across restarts is lost,
/// uniqueness is not.
pub fn look(root: &Path) -> Result<Option<LastTick>, String> {
    let found = mark::look(&ReadOnly(OsDisk), root)?;
    Ok(found.map(|mark| LastTick {
        minted_ms: Some(mark.last_minted.0).filter(|ms| *ms > 0),
        described: described(mark.last_minted),
    }))
}

fn described(last_minted: WallMs) -> String {
    match last_minted {
        WallMs(0) => "nothing minted yet".to_owned(),
        last => format!("minted up to {}", crate::times::rfc3339(last)),
    }
}
