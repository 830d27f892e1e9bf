//! The IDs that nodes mint, and the windows that the state grants them.

use std::collections::BTreeMap;

use seqd_state::idgen::IdRun;

use super::record::Violation;
use crate::platform::scope::Window;

/// All IDs and windows of a run, in one layout. Each ID is checked when it is minted: no other ID
/// has its number, the IDs of a lease rise, and the tick is in the window that entries had granted
/// by then.
#[derive(Default)]
pub(super) struct Ids {
    /// The node and the lease of each ID.
    minted: BTreeMap<u64, (usize, u64)>,
    /// The last ID of each lease.
    last: BTreeMap<u64, u64>,
    /// The window of each lease, with the highest fence that the lease had.
    windows: BTreeMap<u64, Window>,
}

impl Ids {
    /// The number of minted IDs.
    pub(super) fn count(&self) -> usize {
        self.minted.len()
    }

    /// Records the windows of a state, and checks that those of one worker do not overlap.
    pub(super) fn granted(&mut self, windows: &[Window]) -> Result<(), Violation> {
        for window in windows {
            let known = self.windows.entry(window.lease).or_insert(*window);
            if known.fence < window.fence {
                known.fence = window.fence;
            } else if known != window {
                continue;
            }
            let overlaps = self.windows.values().find(|other| {
                let is_other = other.lease != window.lease && other.worker == window.worker;
                is_other && other.from < window.fence && window.from < other.fence
            });
            if let Some(other) = overlaps {
                return Err(Violation::new(
                    "windows are disjoint",
                    format!("{window:?} and {other:?}"),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn minted(&mut self, node: usize, lease: u64, run: &IdRun) -> Result<(), Violation> {
        let by = format!("n{} with lease {lease}", node + 1);
        let tick = run.tick.0;
        let window = self.windows.get(&lease);
        if window.is_none_or(|it| tick < it.from || it.fence <= tick) {
            return Err(Violation::new(
                "IDs are in their committed window",
                format!("{by}: tick {tick}, {window:?}"),
            ));
        }
        for id in run.iter().map(|id| id.get()) {
            if let Some((other, its)) = self.minted.insert(id, (node, lease)) {
                let what = format!("{id}: {by}, and n{} with lease {its}", other + 1);
                return Err(Violation::new("no ID twice", what));
            }
            if let Some(last) = self.last.insert(lease, id).filter(|last| *last > id) {
                let what = format!("{by}: {id} after {last}");
                return Err(Violation::new("IDs of a lease rise", what));
            }
        }
        Ok(())
    }
}
