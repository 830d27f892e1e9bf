//! The generator under random clocks, batches, extensions and closes, compared with a naive model
//! that keeps a list of all returned IDs.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seqd_idgen::{
    ClockPolicy, FieldOrder, FirstSequence, Generator, GeneratorError, Layout, LayoutSpec, Mint,
    OnRollback, Refusal, Tick, TickError, WallMs, WorkerId,
};

use crate::{cases, layout, small_layout};

/// One step of a script. Clock moves are in milliseconds.
#[derive(Clone, Debug)]
enum Op {
    /// Small steps forward, as time passes.
    Pass(u64),
    /// A jump in either direction, possibly far outside the layout.
    Jump(i64),
    /// Back, then forward to exactly the previous reading, with a request at each end.
    BackAndForth(u64, u32),
    /// Back and forth with every request.
    Strobe(u64, u8),
    Mint(u32),
    /// Waits as long as the generator returns, then requests again.
    MintAndWait(u32),
    /// Sets the fence to this many ticks after the tick of the reading. It may be a delayed, lower
    /// one.
    Extend(u64),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u64..4).prop_map(Op::Pass),
        2 => (-400i64..400).prop_map(Op::Jump),
        1 => prop_oneof![Just(-20_000i64), Just(20_000), -3000i64..3000].prop_map(Op::Jump),
        2 => (1u64..100, 1u32..4).prop_map(|(ms, count)| Op::BackAndForth(ms, count)),
        1 => (1u64..100, 1u8..6).prop_map(|(ms, times)| Op::Strobe(ms, times)),
        8 => (0u32..12).prop_map(Op::Mint),
        4 => (1u32..12).prop_map(Op::MintAndWait),
        3 => (0u64..60).prop_map(Op::Extend),
        1 => Just(Op::Close),
    ]
}

#[derive(Clone, Debug)]
struct Setup {
    spec: LayoutSpec,
    policy: ClockPolicy,
    from: u64,
    fence: u64,
    seed: u64,
}

fn setup() -> impl Strategy<Value = Setup> {
    let tick_ms = prop_oneof![3 => Just(1u32), 1 => Just(10), 1 => Just(1000)];
    let first = prop_oneof![
        Just(FirstSequence::Zero),
        Just(FirstSequence::RandomBelow(2)),
        Just(FirstSequence::Spread)
    ];
    let order = prop_oneof![
        Just(FieldOrder::TickWorkerSequence),
        Just(FieldOrder::TickSequenceWorker)
    ];
    let rollback = prop_oneof![3 => Just(OnRollback::Refuse), 1 => Just(OnRollback::Continue)];
    let numbers = (4u8..10, 1u8..4, 0u64..20, 0u64..60, any::<u64>());
    (tick_ms, first, order, rollback, numbers).prop_map(
        |(tick_ms, first_sequence, order, on_rollback, (time, sequence, from, ahead, seed))| {
            Setup {
                spec: LayoutSpec {
                    first_sequence,
                    order,
                    ..small_layout(tick_ms, time, sequence)
                },
                policy: ClockPolicy {
                    on_rollback,
                    ..ClockPolicy::default()
                },
                // At most one past the last tick, as after a completely used layout.
                from: from.min(1 << time),
                fence: from + ahead,
                seed,
            }
        },
    )
}

/// The returned IDs, and the expected results of the generator.
struct Model {
    layout: Layout,
    policy: ClockPolicy,
    from: Tick,
    fence: Tick,
    taken: BTreeSet<(Tick, u32)>,
    ids: BTreeSet<u64>,
    closed: bool,
}

/// The result of the model: the tick to take from, or the exact result of the generator.
enum Expected {
    From(Tick),
    Answer(Mint),
}

impl Model {
    fn last(&self) -> Option<(Tick, u32)> {
        self.taken.last().copied()
    }

    /// Returns the first tick that is not full.
    fn open(&self) -> Tick {
        match self.last() {
            None => self.from,
            Some((tick, sequence)) if sequence + 1 == self.layout.sequences() => Tick(tick.0 + 1),
            Some((tick, _)) => tick,
        }
    }

    fn expect(&self, now: WallMs) -> Expected {
        let refuse = |refusal| Expected::Answer(Mint::Refused(refusal));
        let below_fence = |tick: Tick| {
            if tick < self.fence {
                Expected::From(tick)
            } else {
                refuse(Refusal::FenceReached { fence: self.fence })
            }
        };
        if self.closed {
            return refuse(Refusal::Closed);
        }
        let begins = |tick: Tick| self.layout.wall_at(tick);
        let until_open = || {
            Expected::Answer(Mint::Wait {
                ms: begins(self.open()).0 - now.0,
            })
        };
        if let Some((last, _)) = self.last()
            && now < begins(last)
        {
            let by_ms = begins(last).0 - now.0;
            return match self.policy.on_rollback {
                OnRollback::Continue if self.open() > self.layout.max_tick() => {
                    refuse(Refusal::TimeFull)
                }
                OnRollback::Continue => below_fence(self.open()),
                OnRollback::Refuse if by_ms > 50 => refuse(Refusal::ClockBehind {
                    by_ms,
                    until: begins(last),
                }),
                OnRollback::Refuse => until_open(),
            };
        }
        match self.layout.tick_at(now) {
            Err(TickError::BeforeEpoch) => refuse(Refusal::BeforeEpoch),
            Err(TickError::TimeFull) => refuse(Refusal::TimeFull),
            Ok(tick) if tick >= self.open() => below_fence(tick),
            Ok(_) if self.open() > self.layout.max_tick() => refuse(Refusal::TimeFull),
            Ok(_) if self.last().is_none() && begins(self.open()).0 - now.0 > 50 => {
                let ms = begins(self.open()).0 - now.0;
                refuse(Refusal::NotYet {
                    ms,
                    from: self.open(),
                })
            }
            Ok(_) => until_open(),
        }
    }

    /// Returns the greatest sequence with which a batch may begin a fresh tick.
    fn greatest_first(&self, tick: Tick, count: u32) -> u32 {
        let sequences = self.layout.sequences();
        let follows_a_full_tick = self.last().is_some() && self.open() == tick;
        match self.layout.spec().first_sequence {
            FirstSequence::Zero => 0,
            FirstSequence::RandomBelow(bound) => bound - 1,
            FirstSequence::Spread if follows_a_full_tick => 0,
            FirstSequence::Spread => sequences - count.clamp(1, sequences),
        }
    }

    /// Checks a result against the model and records the returned IDs.
    fn check(&mut self, now: WallMs, count: u32, answer: Mint) {
        let expected = self.expect(now);
        let Mint::Ready(run) = answer else {
            match expected {
                Expected::Answer(exact) => assert_eq!(answer, exact, "at {now:?}"),
                Expected::From(tick) => panic!("{answer:?} instead of {tick:?} at {now:?}"),
            }
            return;
        };
        assert!(run.tick < self.fence, "minted at or above the fence");
        assert!(run.tick >= self.from, "minted below the window");
        assert!(
            self.last()
                .is_none_or(|last| last < (run.tick, run.first_sequence)),
            "minted again what was minted before"
        );
        let Expected::From(tick) = expected else {
            panic!("{run:?} at {now:?}")
        };
        assert_eq!(run.tick, tick);
        assert!(self.from <= tick && tick < self.fence && tick <= self.layout.max_tick());
        if self.policy.on_rollback == OnRollback::Refuse {
            assert!(self.layout.wall_at(tick) <= now, "a tick above the reading");
        }
        let fresh = self.last().is_none_or(|(last, _)| last < tick);
        let room = self.layout.sequences() - run.first_sequence;
        assert_eq!(
            run.count,
            count.min(room),
            "a batch is as long as asked or as fits"
        );
        if fresh {
            let greatest = self.greatest_first(tick, count);
            assert!(run.first_sequence <= greatest, "{run:?} above {greatest}");
        } else {
            assert_eq!(run.first_sequence, self.last().unwrap().1 + 1);
        }
        assert_eq!(run.iter().len(), run.count as usize);
        assert_eq!(run.iter().next(), run.first());
        assert_eq!(run.iter().last(), run.last());
        for (id, sequence) in run.iter().zip(run.first_sequence..) {
            assert!(
                self.last().is_none_or(|last| last < (tick, sequence)),
                "out of order"
            );
            assert!(self.ids.insert(id.get()), "{id} twice");
            assert!(self.taken.insert((tick, sequence)));
            let parts = self.layout.unpack(id).unwrap();
            assert_eq!(
                (parts.tick, parts.worker, parts.sequence),
                (tick, WorkerId(2), sequence)
            );
        }
    }
}

struct Run {
    generator: Generator,
    model: Model,
    now: u64,
}

impl Run {
    fn new(setup: Setup) -> Self {
        let layout = layout(setup.spec);
        let (from, fence) = (Tick(setup.from), Tick(setup.fence));
        let generator = Generator::new(layout.clone(), WorkerId(2), from, fence, setup.seed)
            .unwrap()
            .with_policy(setup.policy);
        let now = layout.wall_at(from).0;
        let (taken, ids) = (BTreeSet::new(), BTreeSet::new());
        let policy = setup.policy;
        let model = Model {
            layout,
            policy,
            from,
            fence,
            taken,
            ids,
            closed: false,
        };
        Self {
            generator,
            model,
            now,
        }
    }

    fn mint(&mut self, count: u32) -> Mint {
        let now = WallMs(self.now);
        let answer = self.generator.mint(now, count);
        self.model.check(now, count, answer);
        assert_eq!(
            self.generator.last_tick(),
            self.model.last().map(|last| last.0),
            "another last tick than was used"
        );
        answer
    }

    fn jump(&mut self, by_ms: i64) {
        self.now = self.now.saturating_add_signed(by_ms);
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Pass(ms) => self.now += ms,
            Op::Jump(ms) => self.jump(ms),
            Op::BackAndForth(ms, count) => {
                let there = self.now;
                self.mint(count);
                self.now = there.saturating_sub(ms);
                self.mint(count);
                self.now = there;
                self.mint(count);
            }
            Op::Strobe(ms, times) => {
                for _ in 0..times {
                    let there = self.now;
                    self.mint(1);
                    self.now = there.saturating_sub(ms);
                    self.mint(1);
                    self.now = there + 1;
                }
            }
            Op::Mint(count) => {
                self.mint(count);
            }
            Op::MintAndWait(count) => {
                if let Mint::Wait { ms } = self.mint(count) {
                    assert!(ms >= 1);
                    self.now += ms;
                    let after = self.mint(count);
                    assert!(
                        !matches!(after, Mint::Wait { .. }),
                        "the wait was long enough"
                    );
                }
            }
            Op::Extend(ticks) => {
                let ahead_ms = ticks * u64::from(self.model.layout.spec().tick_ms);
                let fence = self.model.layout.fence_at(WallMs(self.now + ahead_ms));
                self.generator.extend(fence);
                self.model.fence = self.model.fence.max(fence);
                assert_eq!(self.generator.fence(), self.model.fence);
            }
            Op::Close => {
                let last = self.model.last().map(|last| last.0);
                let closed = self.generator.close();
                assert_eq!(closed, last, "closed with another last tick than was used");
                assert!(self.generator.is_closed());
                self.model.closed = true;
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_clock_script_matches_the_model(
        setup in setup(),
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut run = Run::new(setup);
        for op in ops {
            run.play(op);
        }
    }

    #[test]
    fn successive_windows_of_one_worker_never_overlap(
        setup in setup(),
        lives in proptest::collection::vec(
            (proptest::collection::vec(op(), 1..20), any::<bool>()), 2..5),
    ) {
        // Each holder begins at the fence of the previous one, or after the last tick returned by a
        // clean close, whatever their clocks do.
        let mut setup = setup;
        let mut ids = BTreeSet::new();
        let max = layout(setup.spec.clone()).max_tick().0;
        for (ops, clean_stop) in lives {
            let mut run = Run::new(setup.clone());
            for op in ops {
                run.play(op);
            }
            let mut end = run.generator.fence().0;
            if clean_stop && let Some(last) = run.generator.close() {
                end = last.0 + 1;
            }
            for id in run.model.ids {
                prop_assert!(ids.insert(id), "{} from two holders", id);
            }
            if end > max + 1 {
                break;
            }
            setup.from = end.max(setup.from);
            setup.fence = setup.from + 10;
        }
    }
}

#[test]
fn a_generator_of_a_worker_or_a_window_outside_the_layout_is_refused() {
    let layout = layout(small_layout(1, 4, 2));
    let new = |worker, from| {
        Generator::new(layout.clone(), WorkerId(worker), Tick(from), Tick(99), 0).map(|_| ())
    };
    assert_eq!(
        new(4, 0),
        Err(GeneratorError::Worker {
            worker: WorkerId(4),
            workers: 4
        })
    );
    assert_eq!(
        new(3, 17),
        Err(GeneratorError::Window {
            from: Tick(17),
            max: Tick(15)
        })
    );
    assert_eq!(new(3, 16), Ok(()));
}

#[test]
fn the_first_sequence_of_leafs_ticks_varies_below_a_hundred() {
    let layout = Layout::preset("leaf").unwrap();
    let start = layout.tick_at(WallMs(1_800_000_000_000)).unwrap();
    let generator = Generator::new(
        layout.clone(),
        WorkerId(5),
        start,
        Tick(start.0 + 10_000),
        42,
    )
    .unwrap();
    let mut seen = [0u32; 100];
    for tick in start.0..start.0 + 10_000 {
        let Mint::Ready(run) = generator.mint(layout.wall_at(Tick(tick)), 1) else {
            panic!()
        };
        seen[run.first_sequence as usize] += 1;
    }
    // With a fair draw, it practically never happens that one of a hundred values is missed in ten
    // thousand draws or is hit 200 times.
    assert!(
        seen.iter().all(|times| (20..200).contains(times)),
        "{seen:?}"
    );
}
