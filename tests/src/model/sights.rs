//! States that must occur while a scene is explored, which proves that the check reaches them.

use seqd_state::LeaseId;

use super::Check;
use super::ask::{Answer, Ask};
use super::world::World;

/// A state that a scene must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    MintedByTwoHolders,
    ExtendAfterAnotherGrant,
    HolderBesideAnother,
    WokenAfterClose,
    ClockBehindLastTick,
    StartBesideAnother,
    LeaseLost,
    MintedAfterRestore,
    HolderOfBeforeRestore,
    MarkFell,
    ReturnAfterAnotherGrant,
}

impl Sight {
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::MintedByTwoHolders => "two holders of a worker mint one after the other",
            Self::ExtendAfterAnotherGrant => "an extend is on its way when another has the worker",
            Self::HolderBesideAnother => "a holder goes on when another has the worker",
            Self::WokenAfterClose => {
                "a thread is in the middle of a batch when its lease is released"
            }
            Self::ClockBehindLastTick => "a clock stands before the last tick that was minted",
            Self::StartBesideAnother => "a start goes on when another one is registered",
            Self::LeaseLost => "a holder learns that its lease is lost",
            Self::MintedAfterRestore => "the restored cluster mints",
            Self::HolderOfBeforeRestore => "a holder of before the restore goes on after it",
            Self::MarkFell => "a tail is given back",
            Self::ReturnAfterAnotherGrant => "a return is on its way when another has a segment",
        }
    }

    /// Returns whether a state shows this sight.
    pub(super) fn is_in(self, check: &Check, world: &World) -> bool {
        let ledger = &world.ledger;
        let is_latest = |lease: LeaseId| ledger.latest.values().any(|latest| *latest == lease);
        let mut holders = world.processes.iter().filter_map(|of| {
            let holder = of.holder.as_ref()?;
            Some((of, holder))
        });
        let mut asked = world.strays.iter().map(|proposal| proposal.ask);
        match self {
            Self::MintedByTwoHolders => holders.any(|(_, holder)| {
                let (worker, from) = (holder.kept.worker, holder.kept.from);
                let parts = ledger.ids().flat_map(|id| check.layout.unpack(id));
                let mut before = parts.filter(|id| id.worker == worker && id.tick < from);
                holder.kept.last_used().is_some() && before.next().is_some()
            }),
            Self::ExtendAfterAnotherGrant => asked.any(|ask| match ask {
                Ask::Extend { lease, .. } => !is_latest(lease),
                _ => false,
            }),
            Self::HolderBesideAnother => {
                holders.any(|(_, holder)| !holder.kept.closed && !is_latest(holder.lease))
            }
            Self::WokenAfterClose => {
                holders.any(|(of, holder)| of.reading.is_some() && holder.kept.closed)
            }
            Self::ClockBehindLastTick => holders.any(|(of, holder)| {
                let last = holder.kept.last_used();
                last.is_some_and(|last| of.clock(world.now).0 < last.0)
            }),
            Self::StartBesideAnother => world.processes.iter().any(|of| {
                let start = Some((of.origin.boot, of.origin.nonce));
                let registered = of.origin.node.and_then(|node| ledger.starts.get(&node));
                of.started && registered.is_some() && registered.copied() != start
            }),
            Self::LeaseLost => world.processes.iter().any(|of| {
                let waiting = of.waiting.as_ref();
                waiting.is_some_and(|waiting| waiting.answer == Some(Answer::LeaseLost))
            }),
            Self::MintedAfterRestore => holders.any(|(_, holder)| {
                let restored = ledger.restored.is_some_and(|drawn| holder.lease.0 > drawn);
                restored && holder.kept.last_used().is_some()
            }),
            Self::HolderOfBeforeRestore => holders
                .any(|(_, holder)| ledger.restored.is_some_and(|drawn| holder.lease.0 <= drawn)),
            Self::MarkFell => ledger.top > world.mark(),
            Self::ReturnAfterAnotherGrant => asked.any(|ask| match ask {
                Ask::Return { token, .. } => {
                    ledger.latest_token().is_some_and(|latest| latest > token)
                }
                _ => false,
            }),
        }
    }
}
