//! The single atomic word of the generator, and the decision what to take from it.
//!
//! The word contains the number of the *next slot*, `tick << sequence_bits | sequence`, and a
//! closed bit. Slots are taken in order, so the word only grows. No value has to mean "nothing
//! yet": nothing was minted while the word is the first slot of the window, and otherwise the
//! preceding slot gives the last tick. If a tick is full, the word is the first slot of the next
//! tick, and a slot with sequence 0 always means that nothing was minted in its tick.
//!
//! An invariant of the layout keeps the slot after the last one below 2^63, so the closed bit is
//! free.

use seqd_guards::is_out;

use super::run::IdRun;
use super::word::Word;
use super::{Mint, Refusal};
use crate::layout::{FirstSequence, Geometry, Layout, TickError, WorkerId};
use crate::policy::{ClockPolicy, OnRollback};
use crate::time::{Tick, WallMs};

/// Set in the word when the generator is closed.
const CLOSED: u64 = 1 << 63;

/// The constant properties of a generator.
#[derive(Debug)]
pub(super) struct Rules {
    geometry: Geometry,
    worker: WorkerId,
    from_tick: Tick,
    first_sequence: FirstSequence,
    seed: u64,
    policy: ClockPolicy,
}

/// The action for one request, given one state of the word.
enum Step {
    Take { tick: Tick, first: u32 },
    Answer(Mint),
}

impl Step {
    fn wait(ms: u64) -> Self {
        Self::Answer(Mint::Wait { ms })
    }

    fn refuse(refusal: Refusal) -> Self {
        Self::Answer(Mint::Refused(refusal))
    }
}

impl Rules {
    pub(super) fn new(
        layout: &Layout,
        worker: WorkerId,
        from_tick: Tick,
        seed: u64,
        policy: ClockPolicy,
    ) -> Self {
        let first_sequence = layout.spec().first_sequence;
        Self {
            geometry: layout.geometry(),
            worker,
            from_tick,
            first_sequence,
            seed,
            policy,
        }
    }

    fn slot(&self, tick: Tick, sequence: u32) -> u64 {
        (tick.0 << self.geometry.sequence_bits) + u64::from(sequence)
    }

    fn tick_of(&self, slot: u64) -> Tick {
        Tick(slot >> self.geometry.sequence_bits)
    }

    /// Returns the last tick in which something was minted, if `next` is the next slot.
    fn last_tick(&self, next: u64) -> Option<Tick> {
        let used = if is_out!(LastTickKept) {
            next.saturating_sub(u64::from(self.sequences()) + 1)
        } else {
            next.wrapping_sub(1)
        };
        (next != self.slot(self.from_tick, 0)).then(|| self.tick_of(used))
    }

    fn sequences(&self) -> u32 {
        1 << self.geometry.sequence_bits
    }

    /// Returns the first sequence of a batch of `count` in a fresh tick, if `next` is the next
    /// slot.
    fn first_of(&self, next: u64, tick: Tick, count: u32) -> u32 {
        match self.first_sequence {
            FirstSequence::Zero => 0,
            FirstSequence::RandomBelow(bound) => self.draw(tick, bound),
            // The previous tick was used completely: the demand is too high to skip sequences.
            FirstSequence::Spread
                if tick == self.tick_of(next) && self.last_tick(next).is_some() =>
            {
                0
            }
            FirstSequence::Spread => {
                let sequences = self.sequences();
                // A batch of zero is placed like a batch of one.
                self.draw(tick, sequences - count.clamp(1, sequences) + 1)
            }
        }
    }

    /// Returns a number below `bound`, always the same for the same tick.
    fn draw(&self, tick: Tick, bound: u32) -> u32 {
        let drawn = mix(self.seed ^ mix(tick.0));
        // The upper half of the product is less than the bound.
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u32
    }

    /// Decides what to do. The rollback check comes before anything that depends on the tick of the
    /// reading, because resetting the sequence first would repeat IDs.
    fn decide(&self, next: u64, fence: Tick, now: WallMs, count: u32) -> Step {
        let open = self.tick_of(next);
        let last = self.last_tick(next);
        if let Some(last) = last {
            let last_begins = self.geometry.wall_at(last);
            if now < last_begins && !is_out!(TicksRise) {
                return self.decide_behind(next, fence, now, last_begins, count);
            }
        }
        let now_tick = match self.geometry.tick_at(now) {
            Ok(tick) => tick,
            Err(TickError::BeforeEpoch) => return Step::refuse(Refusal::BeforeEpoch),
            Err(TickError::TimeFull) => return Step::refuse(Refusal::TimeFull),
        };
        let is_early = last.is_none() && is_out!(MintFromFirst);
        if now_tick < open && !is_out!(TicksRise) && !is_early {
            // The last tick is full, or the window begins later.
            if open > self.geometry.max_tick() {
                return Step::refuse(Refusal::TimeFull);
            }
            let ms = self.geometry.wall_at(open).0 - now.0;
            if last.is_none() && ms > self.policy.max_backward_wait_ms {
                return Step::refuse(Refusal::NotYet { ms, from: open });
            }
            return Step::wait(ms);
        }
        self.take(next, fence, now_tick, count)
    }

    /// Decides if the clock is behind the last tick, which began at `last_begins`.
    fn decide_behind(
        &self,
        next: u64,
        fence: Tick,
        now: WallMs,
        last_begins: WallMs,
        count: u32,
    ) -> Step {
        let open = self.tick_of(next);
        let by_ms = last_begins.0 - now.0;
        match self.policy.on_rollback {
            OnRollback::Continue if open > self.geometry.max_tick() => {
                Step::refuse(Refusal::TimeFull)
            }
            OnRollback::Continue => self.take(next, fence, open, count),
            OnRollback::Refuse if by_ms > self.policy.max_backward_wait_ms => {
                Step::refuse(Refusal::ClockBehind {
                    by_ms,
                    until: last_begins,
                })
            }
            // The last tick may be full, so the wait is for the tick of the next slot.
            OnRollback::Refuse => Step::wait(self.geometry.wall_at(open).0 - now.0),
        }
    }

    /// Takes from `tick`, which is not before the tick of the next slot and within the time field.
    fn take(&self, next: u64, fence: Tick, tick: Tick, count: u32) -> Step {
        if tick >= fence && !is_out!(MintBelowFence) {
            return Step::refuse(Refusal::FenceReached { fence });
        }
        // The slot within its tick has at most 31 bits.
        let used = (next & u64::from(self.sequences() - 1)) as u32;
        let in_open_tick = tick == self.tick_of(next) && used > 0;
        let first = if in_open_tick {
            used
        } else {
            self.first_of(next, tick, count)
        };
        Step::Take { tick, first }
    }
}

/// The state that threads share: the word and the fence.
///
/// The fence is a separate word because it only rises: a mint that reads an old fence applies a
/// limit that was valid.
#[derive(Debug)]
pub(super) struct Cursor<W> {
    rules: Rules,
    next: W,
    fence: W,
}

impl<W: Word> Cursor<W> {
    pub(super) fn new(rules: Rules, fence: Tick) -> Self {
        let first = rules.slot(rules.from_tick, 0);
        Self {
            next: W::new(first),
            fence: W::new(fence.0),
            rules,
        }
    }

    pub(super) fn set_policy(&mut self, policy: ClockPolicy) {
        self.rules.policy = policy;
    }

    #[inline]
    pub(super) fn mint(&self, now: WallMs, count: u32) -> Mint {
        let rules = &self.rules;
        let mut word = self.next.load();
        loop {
            if word & CLOSED != 0 {
                return Mint::Refused(Refusal::Closed);
            }
            let fence = Tick(self.fence.load());
            let (tick, first) = match rules.decide(word, fence, now, count) {
                Step::Take { tick, first } => (tick, first),
                Step::Answer(answer) => return answer,
            };
            let count = count.min(rules.sequences() - first);
            let run = IdRun::new(&rules.geometry, tick, rules.worker, first, count);
            if count == 0 {
                return Mint::Ready(run);
            }
            match self.next.replace(word, rules.slot(tick, first + count)) {
                Ok(_) => return Mint::Ready(run),
                Err(seen) => word = seen,
            }
        }
    }

    pub(super) fn extend(&self, fence: Tick) {
        self.fence.raise(fence.0);
    }

    pub(super) fn close(&self) -> Option<Tick> {
        let before = if is_out!(ClosedBySwap) {
            self.next.load()
        } else {
            self.next.set_bits(CLOSED)
        };
        self.rules.last_tick(before & !CLOSED)
    }

    pub(super) fn last_tick(&self) -> Option<Tick> {
        self.rules.last_tick(self.next.load() & !CLOSED)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.next.load() & CLOSED != 0
    }

    pub(super) fn fence(&self) -> Tick {
        Tick(self.fence.load())
    }

    pub(super) fn first_tick(&self) -> Tick {
        self.rules.from_tick
    }

    pub(super) fn worker(&self) -> WorkerId {
        self.rules.worker
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014). It spreads nearby ticks over all bits.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
