//! A generator between two steps of the model.
//!
//! A state of the model must be copied and compared, which a generator cannot be: one lease only
//! ever has one generator. A state therefore contains the data to build the generator again, and
//! each step builds it, calls it, and stores the result.

use seqd_idgen::{ClockPolicy, Generator, Layout, Mint, Tick, WallMs, WorkerId};

/// The data from which a generator is built again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub(super) worker: WorkerId,
    pub(super) from: Tick,
    pub(super) fence: Tick,
    /// The last tick that the generator used, and the number of IDs in it.
    used: Option<(Tick, u32)>,
    pub(super) closed: bool,
}

impl Kept {
    pub(super) fn new(worker: WorkerId, from: Tick, fence: Tick) -> Self {
        Self {
            worker,
            from,
            fence,
            used: None,
            closed: false,
        }
    }

    /// Builds the generator as the previous calls left it: its word is the slot after the last used
    /// one.
    fn made(&self, layout: &Layout, policy: ClockPolicy) -> Generator {
        let (worker, from, fence) = (self.worker, self.from, self.fence);
        let generator = Generator::new(layout.clone(), worker, from, fence, 0);
        let generator = generator.expect("a window of the layout");
        let generator = generator.with_policy(policy);
        if let Some((tick, count)) = self.used {
            let minted = generator.mint(layout.wall_at(tick), count);
            let is_same =
                matches!(minted, Mint::Ready(run) if run.tick == tick && run.count == count);
            assert!(is_same, "{self:?} cannot be made again: {minted:?}");
        }
        if self.closed {
            generator.close();
        }
        generator
    }

    pub(super) fn mint(&mut self, layout: &Layout, policy: ClockPolicy, now: WallMs) -> Mint {
        let minted = self.made(layout, policy).mint(now, 1);
        if let Mint::Ready(run) = minted {
            self.used = Some((run.tick, run.first_sequence + run.count));
        }
        minted
    }

    pub(super) fn extend(&mut self, layout: &Layout, policy: ClockPolicy, fence: Tick) {
        let generator = self.made(layout, policy);
        generator.extend(fence);
        self.fence = generator.fence();
    }

    /// Closes the generator. Returns the last tick that it used.
    pub(super) fn close(&mut self, layout: &Layout, policy: ClockPolicy) -> Option<Tick> {
        let generator = self.made(layout, policy);
        let last = generator.close();
        self.closed = generator.is_closed();
        last
    }

    pub(super) fn last_tick(&self, layout: &Layout, policy: ClockPolicy) -> Option<Tick> {
        self.made(layout, policy).last_tick()
    }

    /// The last used tick without a call of the generator, so that a removed guard has no
    /// influence.
    pub(super) fn last_used(&self) -> Option<Tick> {
        self.used.map(|(tick, _)| tick)
    }

    /// A second generator for the same lease, which must never exist.
    pub(super) fn again(&self) -> Self {
        Self::new(self.worker, self.from, self.fence)
    }
}
