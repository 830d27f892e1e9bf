//! A wall clock that a story can shift, for one node: libfaketime and a file with the offset.
//!
//! The monotonic clock stays true, or tokio's timers would stand still. Where the library is not
//! installed there is no shifted clock, and a story prints that: the same rules are then shown by the
//! node crate's stories with a replaced clock port alone.

use std::path::{Path, PathBuf};

use crate::node::Node;
use crate::skips;

/// Debian's path (package `faketime`); the `MT` build is for programs with threads.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

#[derive(Debug)]
pub struct ShiftedClock {
    file: PathBuf,
}

impl ShiftedClock {
    /// Puts the node on a clock that begins unshifted, from its next start on; `None`, and a skipped
    /// story, if the library is not there.
    pub fn for_node(node: &mut Node, folder: &Path) -> Option<Self> {
        if !Path::new(LIBRARY).exists() {
            skips::ends("a shifted clock", Some(skips::missing(LIBRARY, "faketime")));
            return None;
        }
        let clock = Self {
            file: folder.join(format!("{}.clock", node.name())),
        };
        clock.shift_ms(0);
        node.set_environment("LD_PRELOAD", LIBRARY);
        node.set_environment("FAKETIME_TIMESTAMP_FILE", &clock.file.display().to_string());
        node.set_environment("FAKETIME_NO_CACHE", "1");
        node.set_environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Some(clock)
    }

    /// Shifts the clock against the true one; the next reading sees it.
    pub fn shift_ms(&self, by_ms: i64) {
        let sign = if by_ms < 0 { '-' } else { '+' };
        let seconds = by_ms.unsigned_abs() / 1000;
        let rest = by_ms.unsigned_abs() % 1000;
        let aside = self.file.with_extension("new");
        std::fs::write(&aside, format!("{sign}{seconds}.{rest:03}\n")).expect("the clock's file");
        std::fs::rename(&aside, &self.file).expect("the clock's file in its place");
    }
}

/// Whether a text holds an RFC 3339 time in UTC.
pub fn names_a_time(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || "\",".contains(c))
        .any(|word| {
            word.len() >= 20 && word.starts_with("20") && word.contains('T') && word.ends_with('Z')
        })
}
