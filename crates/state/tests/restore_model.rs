//! A cluster that is restored from a backup gives out nothing again that the old cluster gave out
//! before or after the backup: no tick of a worker, no token, and no value up to the margin.
//!
//! Time in this test is true time. Each leader's clock is wrong by up to the agreed skew, by a new
//! amount in each entry.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use seqd_idgen::{Layout, Progression, Tick, WallMs, WorkerId};
use seqd_state::{
    ClusterMs, ClusterOutcome, ClusterRefusal, Command, DefinitionChange, GrantToken, LeaseId,
    Outcome, Refusal, Restoration, SequenceMode, SequenceName, SequenceOutcome, SequenceRefusal,
    Stamp, State, WorkerOutcome, WorkerRefusal,
};
use support::commands::*;
use support::{EPOCH_MS, SKEW_MS, WINDOW_MS, counting, definition, founded, name, stamp};

/// Layouts with ticks of 1 ms and of 10 ms, and one with another epoch.
const LAYOUTS: [&str; 3] = ["js53", "sonyflake", "twitter"];

#[derive(Debug, Clone)]
enum Work {
    Take {
        layout: usize,
        owner: u8,
        ahead_ms: u64,
    },
    Extend {
        which: Index,
        ahead_ms: u64,
    },
    Release {
        which: Index,
        part: Option<u64>,
    },
    Grant {
        size: u64,
        after: bool,
    },
    Return {
        part: u64,
    },
    Next {
        count: u64,
    },
    /// Moves the end of a sequence by this many values.
    Update {
        order: bool,
        more: i64,
    },
}

/// Work with the true time that passes before it, and the error of the leader's clock.
type Steps = Vec<(u64, i64, Work)>;

fn steps(most: usize) -> impl Strategy<Value = Steps> {
    let ahead = 1..=(WINDOW_MS + 2 * SKEW_MS);
    let work = prop_oneof![
        6 => (0..LAYOUTS.len(), 0u8..4, ahead.clone())
            .prop_map(|(layout, owner, ahead_ms)| Work::Take { layout, owner, ahead_ms }),
        3 => (any::<Index>(), ahead).prop_map(|(which, ahead_ms)| Work::Extend { which, ahead_ms }),
        3 => (any::<Index>(), option::of(0u64..1_000))
            .prop_map(|(which, part)| Work::Release { which, part }),
        4 => (1u64..500, any::<bool>()).prop_map(|(size, after)| Work::Grant { size, after }),
        2 => (0u64..100).prop_map(|part| Work::Return { part }),
        3 => (1u64..50).prop_map(|count| Work::Next { count }),
        2 => (any::<bool>(), 0i64..2_000).prop_map(|(order, more)| Work::Update { order, more }),
    ];
    let skew = SKEW_MS.cast_signed();
    vec((0u64..5_000, -skew..=skew, work), 0..most)
}

#[derive(Debug, Clone)]
struct Lease {
    layout: &'static str,
    worker: WorkerId,
    lease: LeaseId,
    from: Tick,
    /// The end of the ticks that the holder may have minted.
    end: Tick,
}

/// A restoration into a cluster that replaces `c1`, without floors.
fn restoration(cluster_id: &str, margin: Option<u64>) -> Restoration {
    Restoration {
        cluster_id: cluster_id.to_owned(),
        founder: "n1".to_owned(),
        ancestors: vec!["c1".to_owned()],
        floors: BTreeMap::new(),
        margin,
        written: None,
    }
}

/// A cluster and everything that it gave out. A restored cluster starts with the leases of the old
/// one, which their holders still have.
#[derive(Clone)]
struct World {
    state: State,
    true_ms: u64,
    off_ms: i64,
    leases: Vec<Lease>,
    tokens: Vec<u64>,
    last_grant: Option<GrantToken>,
    /// The highest index that each sequence ever reached.
    reached: BTreeMap<SequenceName, u64>,
}

impl World {
    fn now(&self) -> Stamp {
        Stamp {
            wall_ms: WallMs(
                (EPOCH_MS + self.true_ms)
                    .checked_add_signed(self.off_ms)
                    .unwrap(),
            ),
            cluster_ms: ClusterMs(self.true_ms),
        }
    }

    fn apply(&mut self, command: Command) -> Outcome {
        let stamp = self.now();
        let outcome = apply_one(&mut self.state, stamp, command);
        for name in [name("order"), name("bill")] {
            let index = self.state.sequence(&name).unwrap().next_index;
            let reached = self.reached.entry(name).or_default();
            *reached = index.max(*reached);
        }
        outcome
    }

    fn do_all(&mut self, steps: &Steps) {
        for (passed_ms, off_ms, work) in steps {
            self.true_ms += passed_ms;
            self.off_ms = *off_ms;
            self.work(work);
        }
    }

    fn fence(&self, layout: &str, ahead_ms: u64) -> Tick {
        let layout = Layout::preset(layout).unwrap();
        layout.fence_at(WallMs(self.now().wall_ms.0 + ahead_ms))
    }

    fn work(&mut self, work: &Work) {
        match work {
            Work::Take {
                layout,
                owner,
                ahead_ms,
            } => self.take(LAYOUTS[*layout], *owner, *ahead_ms),
            Work::Extend { which, .. } | Work::Release { which, .. } => {
                if !self.leases.is_empty() {
                    self.use_lease(which.index(self.leases.len()), work);
                }
            }
            Work::Grant { size, after } => {
                let after = self.last_grant.filter(|_| *after);
                let grant = grant(name("order"), *size, after);
                let before = self.reached.get(&name("order")).copied().unwrap_or(0);
                match self.apply(grant) {
                    Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => {
                        assert!(grant.first_index <= before);
                        self.tokens.push(grant.token.0);
                        self.last_grant = Some(grant.token);
                    }
                    Outcome::Refused(Refusal::Sequences(SequenceRefusal::SequenceExhausted {
                        ..
                    })) => {}
                    other => panic!("{other:?}"),
                }
            }
            Work::Return { part } => {
                let Some(token) = self.last_grant else { return };
                let record = self.state.sequence(&name("order")).unwrap();
                let start = record.run.map_or(0, |run| run.start);
                let first_unused = start + (record.next_index - start) * part / 100;
                self.apply(return_tail(name("order"), token, first_unused));
            }
            Work::Next { count } => {
                self.apply(strict_next("bill", *count));
            }
            Work::Update { order, more } => {
                let name = name(if *order { "order" } else { "bill" });
                let end = self.state.sequence(&name).unwrap().definition.progression;
                let change = match end.increment() > 0 {
                    true => DefinitionChange {
                        max: Some(end.max() + more),
                        ..DefinitionChange::default()
                    },
                    false => DefinitionChange {
                        min: Some(end.min() + more * end.increment()),
                        ..DefinitionChange::default()
                    },
                };
                let outcome = self.apply(update(name, change, None));
                let is_updated =
                    matches!(outcome, Outcome::Sequences(SequenceOutcome::Updated { .. }));
                assert!(is_updated, "{outcome:?}");
            }
        }
    }

    fn use_lease(&mut self, at: usize, work: &Work) {
        let Lease {
            layout,
            worker,
            lease,
            from,
            end,
        } = self.leases[at].clone();
        let fence = match work {
            Work::Extend { ahead_ms, .. } => self.fence(layout, *ahead_ms),
            _ => end,
        };
        let layout = layout.to_owned();
        let outcome = match work {
            Work::Release { part, .. } => {
                let last_tick = part.map(|part| Tick(from.0 + (end.0 - from.0) * part / 1_000));
                self.apply(release(layout, worker, lease, last_tick))
            }
            _ => self.apply(extend(layout, worker, lease, fence)),
        };
        match outcome {
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence })
            | Outcome::Workers(WorkerOutcome::LeaseReleased { fence }) => {
                self.leases[at].end = fence;
            }
            _ => {}
        }
    }

    fn take(&mut self, layout: &'static str, owner: u8, ahead_ms: u64) {
        let command = take(
            layout,
            &format!("owner {owner}"),
            self.fence(layout, ahead_ms),
        );
        match self.apply(command) {
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => {
                for earlier in &self.leases {
                    let is_same = (earlier.layout, earlier.worker) == (layout, grant.worker);
                    assert!(
                        !is_same || grant.from_tick >= earlier.end,
                        "a window from before is given again: {grant:?} overlaps {earlier:?}"
                    );
                }
                self.tokens.push(grant.lease.0);
                self.leases.push(Lease {
                    layout,
                    worker: grant.worker,
                    lease: grant.lease,
                    from: grant.from_tick,
                    end: grant.fence,
                });
            }
            Outcome::Refused(
                Refusal::Workers(WorkerRefusal::WorkersExhausted { .. })
                | Refusal::Workers(WorkerRefusal::FenceTooLow { .. })
                | Refusal::Workers(WorkerRefusal::WindowsBeginLater { .. }),
            ) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Returns the cluster that `backup` becomes after this one has ended.
    fn restored(&self, mut backup: State, by_floor: bool, gap_ms: u64, off_ms: i64) -> World {
        let mut restoration = restoration("c2", None);
        let mut margin = 0;
        // Every sequence gets a floor, also one from which no value was taken: a sequence without a
        // floor is refused.
        for name in ["order", "bill"].map(name) {
            let reached = self.reached.get(&name).copied().unwrap_or(0);
            let record = backup.sequence(&name).unwrap();
            let progression = record.definition.progression;
            let steps = i64::try_from(reached).unwrap();
            let floor = progression.start() + steps * progression.increment();
            restoration.floors.insert(name, floor);
            margin = margin.max(reached.saturating_sub(record.next_index));
        }
        if !by_floor {
            restoration.floors.clear();
            restoration.margin = Some(margin);
        }
        backup.restore(&restoration).unwrap();
        let mut world = self.clone();
        world.state = State::from_rows(backup.rows()).unwrap();
        assert_eq!(world.state.digest(), backup.digest());
        world.true_ms += gap_ms;
        world.off_ms = off_ms;
        let wall_ms = world.now().wall_ms;
        let outcome = world.apply(stamp_restoration(wall_ms));
        if let Outcome::Refused(Refusal::Cluster(ClusterRefusal::StampOutOfRange {
            from, ..
        })) = outcome
        {
            // The new leader's clock is behind, so the leader waits.
            world.true_ms += from.0 - wall_ms.0;
            let wall_ms = world.now().wall_ms;
            let outcome = world.apply(stamp_restoration(wall_ms));
            assert_eq!(
                outcome,
                Outcome::Cluster(ClusterOutcome::RestorationStamped { wall_ms })
            );
        }
        world
    }

    /// Checks that everything given out since the backup is above everything given out before.
    fn check_tokens(&self) {
        let rises = self.tokens.is_sorted_by(|one, next| one < next);
        assert!(rises, "tokens repeat or fall: {:?}", self.tokens);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_value_is_issued_again(
        before in steps(40),
        lost in steps(40),
        after in steps(60),
        again in steps(30),
        by_floor in any::<bool>(),
        gaps in (0u64..40_000, 0u64..3_000),
        skews in (-500i64..=500, -500i64..=500),
    ) {
        let mut state = founded();
        for (text, mode, by, min, max) in [
            ("order", SequenceMode::Segment, 1, 1, 1_000),
            ("bill", SequenceMode::Strict, -3, -300, -1),
        ] {
            let progression = Progression::with_defaults(
                None, Some(by), Some(min), Some(max), false,
            );
            let created = create(name(text), definition(mode, progression.unwrap()));
            apply_one(&mut state, stamp(1_000, 0), created);
        }
        let mut world = World {
            state,
            true_ms: 1_000_000,
            off_ms: 0,
            leases: Vec::new(),
            tokens: Vec::new(),
            last_grant: None,
            reached: BTreeMap::new(),
        };
        world.do_all(&before);
        let backup = world.state.clone();
        world.do_all(&lost);
        world.check_tokens();

        let reached = world.reached.clone();
        let mut restored = world.restored(backup, by_floor, gaps.0, skews.0);
        for (name, reached) in reached {
            let index = restored.state.sequence(&name).unwrap().next_index;
            prop_assert!(index >= reached, "{} could be granted again", name);
        }
        restored.do_all(&after);
        restored.check_tokens();

        // Restore again, shortly afterwards, from a backup of the restored cluster.
        let backup = restored.state.clone();
        restored.do_all(&again);
        let mut twice = restored.restored(backup, !by_floor, gaps.1, skews.1);
        twice.do_all(&lost);
        twice.check_tokens();
    }
}

/// The old leader's clock is as far ahead as allowed, and it grants the furthest fence that it may.
/// At the same moment the new leader, whose clock is as far behind as allowed, stamps the start.
#[test]
fn the_first_window_begins_exactly_after_the_latest_fence() {
    for layout in LAYOUTS.map(|layout| Layout::preset(layout).unwrap()) {
        let take = |fence| take(layout.name(), "a", fence);
        let at = |state: &mut State, wall, command| apply_one(state, stamp(wall, 0), command);
        let fence = |wall, ahead| layout.fence_at(WallMs(stamp(wall, 0).wall_ms.0 + ahead));
        let mut old = founded();
        let mut new = old.clone();
        let furthest = fence(100_500, WINDOW_MS + 2 * SKEW_MS);
        let Outcome::Workers(WorkerOutcome::LeaseTaken(lost)) =
            at(&mut old, 100_500, take(furthest))
        else {
            panic!("the furthest fence is granted");
        };
        new.restore(&restoration("c2", None)).unwrap();
        let wall_ms = stamp(99_500, 0).wall_ms;
        at(&mut new, 99_500, stamp_restoration(wall_ms));
        let first = layout.wall_at(furthest).0 - EPOCH_MS;
        let early = at(&mut new, first - 1, take(fence(first, 1_000)));
        assert!(matches!(
            early,
            Outcome::Refused(Refusal::Workers(WorkerRefusal::WindowsBeginLater { .. }))
        ));
        let Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) =
            at(&mut new, first, take(fence(first, 1_000)))
        else {
            panic!("the first window begins there");
        };
        assert_eq!(grant.worker, lost.worker);
        assert_eq!(grant.from_tick, lost.fence);
    }
}

/// A restored cluster is restored again within the skew of its clocks: by the second leader's
/// clock, no time has passed.
#[test]
fn tokens_rise_over_two_restorations_at_one_time() {
    let mut state = founded();
    let restoration = |cluster_id| restoration(cluster_id, Some(0));
    let grant = || grant(name("order"), 1, None);
    let at_once = |state: &mut State, command| apply_one(state, stamp(5_000, 0), command);
    let stamped = || stamp_restoration(stamp(5_000, 0).wall_ms);
    let create = create(name("order"), counting(SequenceMode::Segment));
    at_once(&mut state, create);
    state.restore(&restoration("c2")).unwrap();
    at_once(&mut state, stamped());
    let mut again = state.clone();
    let mut highest = 0;
    for _ in 0..1_000 {
        if let Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) =
            at_once(&mut state, grant())
        {
            highest = grant.token.0;
        }
    }
    assert!(highest > 0);
    again.restore(&restoration("c3")).unwrap();
    at_once(&mut again, stamped());
    let Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) = at_once(&mut again, grant())
    else {
        panic!("a stamped cluster grants");
    };
    assert!(grant.token.0 > highest);
}
