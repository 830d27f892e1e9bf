//! Each node mints with the generator of real nodes. It takes a worker once it is registered,
//! requests a new fence after a third of the window, and mints for as long as its window lasts.
//!
//! This is a reduced `node::minting`. It lacks the release at a clean stop, and also waiting
//! requests, the clock guard and the stored mark, on which uniqueness does not depend.

use std::sync::Arc;
use std::time::Duration;

use seqd_disk::simulated::Dice;
use seqd_net::Lock;
use seqd_state::idgen::{Generator, Layout, Mint, Tick, WallClock, WallMs};
use seqd_state::{
    Command, LeaseGrant, LeaseId, Outcome, Refusal, TakeLease, WorkerCommand, WorkerOutcome,
    WorkerRefusal,
};
use tokio::time::{Instant, sleep};

use super::record::Record;
use crate::Raft;

/// Equal to the configured window of the nodes in a run.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

const THIRD: Duration = Duration::from_secs(1);

/// Time limit of the cluster's answer about a lease.
const ANSWER: Duration = Duration::from_secs(3);

pub(super) const LAYOUT: &str = "default";

/// The fence that a holder requests.
pub(super) fn fence_from(layout: &Layout, now: WallMs) -> Tick {
    layout.fence_at(WallMs(now.0 + WINDOW.as_millis() as u64))
}

/// The way in which nodes mint, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Minting {
    Nobody,
    AsNodesDo,
    /// A planted fault: a node mints up to a fence that it has requested and that is not committed.
    BeforeCommit,
}

struct Holder {
    generator: Generator,
    lease: LeaseId,
}

/// The minter of one start.
pub(super) struct Minter {
    pub(super) raft: Raft,
    pub(super) clock: Arc<dyn WallClock>,
    pub(super) record: Arc<Record>,
    pub(super) node: usize,
    pub(super) minting: Minting,
    layout: Layout,
    holder: Lock<Option<Arc<Holder>>>,
}

impl Minter {
    pub(super) fn new(
        raft: Raft,
        clock: Arc<dyn WallClock>,
        record: Arc<Record>,
        node: usize,
        minting: Minting,
    ) -> Self {
        let layout = Layout::preset(LAYOUT).unwrap_or_else(|| unreachable!("it is there"));
        Self {
            raft,
            clock,
            record,
            node,
            minting,
            layout,
            holder: Lock::default(),
        }
    }

    pub(super) async fn live(self, seed: u64) {
        let mut registered = self.raft.started();
        if registered.wait_for(|is| *is).await.is_ok() {
            tokio::join!(biased; self.keep(), self.mint(seed));
        }
    }

    fn holder(&self) -> Option<Arc<Holder>> {
        self.holder.lock().clone()
    }

    fn set_holder(&self, holder: Option<Holder>) {
        *self.holder.lock() = holder.map(Arc::new);
    }

    async fn keep(&self) {
        let mut extended = Instant::now();
        loop {
            let is_due = self.holder().is_none_or(|holder| {
                let ends = self.layout.wall_at(holder.generator.fence()).0;
                let left = ends.saturating_sub(self.clock.wall().0);
                left < 2 * THIRD.as_millis() as u64 || extended.elapsed() >= THIRD
            });
            if !is_due {
                sleep(THIRD / 10).await;
            } else if self.attempt().await {
                extended = Instant::now();
            } else {
                sleep(Duration::from_millis(200)).await;
            }
        }
    }

    async fn attempt(&self) -> bool {
        let fence = fence_from(&self.layout, self.clock.wall());
        let Some(holder) = self.holder() else {
            let Some((node, boot)) = self.raft.boot() else {
                return false;
            };
            let take = WorkerCommand::TakeLease(TakeLease {
                tenant: seqd_state::Tenant::OPERATOR,
                layout: LAYOUT.to_owned(),
                owner: format!("n{}", self.node + 1),
                node: Some(node),
                boot,
                fence,
                datacenter: None,
            });
            return match self.propose(take).await {
                Some(Outcome::Workers(WorkerOutcome::LeaseTaken(grant))) => self.install(&grant),
                _ => false,
            };
        };
        if self.minting == Minting::BeforeCommit {
            holder.generator.extend(fence);
        }
        let extend = WorkerCommand::ExtendLease {
            layout: LAYOUT.to_owned(),
            worker: holder.generator.worker(),
            lease: holder.lease,
            fence,
        };
        match self.propose(extend).await {
            Some(Outcome::Workers(WorkerOutcome::LeaseExtended { fence })) => {
                holder.generator.extend(fence);
                true
            }
            Some(Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. }))) => {
                holder.generator.close();
                self.set_holder(None);
                false
            }
            _ => false,
        }
    }

    fn install(&self, grant: &LeaseGrant) -> bool {
        let (from, fence) = (grant.from_tick, grant.fence);
        let generator = Generator::new(self.layout.clone(), grant.worker, from, fence, 0);
        let Ok(generator) = generator else {
            return false;
        };
        let lease = grant.lease;
        self.set_holder(Some(Holder { generator, lease }));
        true
    }

    async fn propose(&self, command: WorkerCommand) -> Option<Outcome> {
        let commands = vec![Command::Workers(command)];
        let proposed = self.raft.propose(commands, Instant::now() + ANSWER);
        proposed.await.ok()?.into_iter().next()
    }

    /// Mints a few IDs at random intervals, as requests would.
    async fn mint(&self, seed: u64) {
        let mut dice = Dice::new(seed);
        loop {
            sleep(Duration::from_millis(1 + dice.below(100))).await;
            let count = [1, 1, 2, 30][dice.below(4) as usize];
            if let Some(holder) = self.holder()
                && let Mint::Ready(run) = holder.generator.mint(self.clock.wall(), count)
            {
                self.record.minted(self.node, holder.lease.0, &run);
            }
        }
    }
}
