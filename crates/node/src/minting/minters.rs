//! All minters of a node, one per layout; each layout is leased at its first use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seqd_idgen::{Layout, StoredMark};
use seqd_net::Lock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Minter;
use super::keeper::Keeper;
use crate::replica;

/// The layout that is leased at the start.
pub(super) const DEFAULT: &str = "default";

pub(crate) struct Minters {
    pub(super) keeper: Keeper,
    default: Arc<Minter>,
    others: Lock<BTreeMap<String, Arc<Minter>>>,
    /// `None` after the stop: no keeper starts after that.
    keepers: Lock<Option<JoinSet<()>>>,
    /// IDs minted within the last second.
    ids_per_second: AtomicU64,
    /// The number of the latest reset that this node has obeyed.
    pub(super) obeyed_reset: AtomicU64,
}

impl Minters {
    /// Starts the keeper of the default layout; the others start at the first use of their layouts.
    pub(crate) fn start(keeper: Keeper, default: Layout) -> Minters {
        let minters = Minters {
            default: Arc::new(Minter::new(default, keeper.workers)),
            keeper,
            others: Lock::default(),
            keepers: Lock::new(Some(JoinSet::new())),
            ids_per_second: AtomicU64::new(0),
            obeyed_reset: AtomicU64::new(0),
        };
        minters.keep(&minters.default);
        minters
    }

    pub(crate) fn default(&self) -> &Arc<Minter> {
        &self.default
    }

    /// The minter of a layout, or `None` if the layout does not exist.
    pub(crate) fn of(&self, layout: &str) -> Option<Arc<Minter>> {
        if layout == DEFAULT {
            return Some(Arc::clone(&self.default));
        }
        let mut others = self.others.lock();
        if let Some(minter) = others.get(layout) {
            return Some(Arc::clone(minter));
        }
        let layout_of_that_name = replica::layout(self.keeper.replica.as_ref(), layout)?;
        let minter = Arc::new(Minter::new(layout_of_that_name, self.keeper.workers));
        others.insert(layout.to_owned(), Arc::clone(&minter));
        self.keep(&minter);
        Some(minter)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Minter>> {
        let others = self.others.lock();
        std::iter::once(&self.default)
            .chain(others.values())
            .cloned()
            .collect()
    }

    /// The first leased worker of each layout.
    pub(crate) fn held(&self) -> BTreeMap<String, u32> {
        let held = self.all().into_iter().filter_map(|minter| {
            let window = minter.window()?;
            Some((minter.layout().name().to_owned(), window.worker.0))
        });
        held.collect()
    }

    /// The leased workers of each layout beyond the first, if there are any.
    pub(crate) fn more_held(&self) -> BTreeMap<String, Vec<u32>> {
        let more = self.all().into_iter().map(|minter| {
            let windows = minter.windows().into_iter().skip(1);
            let workers: Vec<u32> = windows.map(|window| window.worker.0).collect();
            (minter.layout().name().to_owned(), workers)
        });
        more.filter(|(_, workers)| !workers.is_empty()).collect()
    }

    pub(crate) fn minted(&self) -> u64 {
        self.all().iter().map(|minter| minter.minted()).sum()
    }

    /// IDs minted within the last second, as last measured.
    pub(crate) fn ids_per_second(&self) -> u64 {
        self.ids_per_second.load(Ordering::Relaxed)
    }

    pub(crate) fn measured(&self, ids_per_second: u64) {
        self.ids_per_second.store(ids_per_second, Ordering::Relaxed);
    }

    /// Begins or ends the return of unused workers, for a node that is drained. A request leases a
    /// worker again.
    pub(crate) fn set_drained(&self, is_drained: bool) {
        self.keeper.drained.send_replace(is_drained);
    }

    /// Closes all generators, so that nothing more is minted, and returns the workers.
    pub(crate) async fn stop(&self, deadline: Instant) {
        // Takes the keepers first: a minter created after this gets no keeper, and the loop below
        // stops all others.
        let keepers = self.keepers.lock().take();
        let all = self.all();
        let seats = || all.iter().flat_map(|minter| minter.all_seats());
        for seat in seats() {
            seat.stop();
        }
        // If a keeper is cancelled during a proposal, a lease that it took expires by itself.
        if let Some(mut keepers) = keepers {
            keepers.shutdown().await;
        }
        // All at once, so that their commands share log entries.
        let mut releases = JoinSet::new();
        for seat in seats() {
            let (keeper, seat) = (self.keeper.clone(), Arc::clone(seat));
            releases.spawn(async move { keeper.release(&seat, deadline).await });
        }
        releases.join_all().await;
    }

    /// The mark to write while the node runs.
    pub(crate) fn mark(&self) -> StoredMark {
        let all = self.all();
        let last = all.iter().filter_map(|minter| minter.last_used()).max();
        let windows = all.iter().flat_map(|minter| minter.windows());
        let ends = windows.map(|window| window.ends).max();
        self.keeper.clock.used(last.unwrap_or_default());
        // The last use by any generator of this process, even if its lease has ended.
        let last = self.keeper.clock.last_used();
        // If the clock cannot be trusted for minting, its reading does not count as reached.
        let now = self.keeper.clock.right_time().unwrap_or(last);
        StoredMark::running(last, now, ends.unwrap_or_default())
    }

    fn keep(&self, minter: &Arc<Minter>) {
        let mut keepers = self.keepers.lock();
        match keepers.as_mut() {
            Some(keepers) => {
                let (first, others) = minter.seats();
                keepers.spawn(self.keeper.clone().keep(Arc::clone(first)));
                for seat in others {
                    keepers.spawn(self.keeper.clone().keep_at_need(Arc::clone(seat)));
                }
            }
            None => minter.all_seats().iter().for_each(|seat| seat.stop()),
        }
    }
}
