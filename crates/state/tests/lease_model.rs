//! No worker and tick belong to two leases, regardless of clocks, owners and repeated proposals,
//! and each lease gets the worker that the rule selects.
//!
//! The test implements the rule independently, over all workers of the layout and without the order
//! of the tables. The clocks of the entries step in both directions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use seqd_idgen::{Layout, Tick, WorkerId};
use seqd_state::{
    ClusterMs, Command, LeaseGrant, LeaseId, Origin, Outcome, Refusal, Stamp, State, WorkerOutcome,
    WorkerRefusal,
};
use support::commands::{apply_one, extend, release, take};
use support::{EPOCH_MS, SKEW_MS, WINDOW_MS, founded, stamp};

/// A layout with five worker bits, so that its workers run out.
const LAYOUT: &str = "js53";

#[derive(Debug, Clone)]
enum Step {
    Take {
        owner: u8,
        fence_ahead: u64,
    },
    Extend {
        which: Index,
        fence_ahead: u64,
    },
    /// The holder closes its generator and reports its last tick, this far into its window.
    Release {
        which: Index,
        last_tick_at: Option<u64>,
    },
    Restart,
}

/// Steps with the times that pass before them. The wall clock may go backwards.
fn steps() -> impl Strategy<Value = Vec<(i64, u64, Step)>> {
    let ahead = prop_oneof![4 => 0u64..WINDOW_MS, 1 => 0u64..(WINDOW_MS + 4 * SKEW_MS)];
    let step = prop_oneof![
        9 => (0u8..12, ahead.clone())
            .prop_map(|(owner, fence_ahead)| Step::Take { owner, fence_ahead }),
        4 => (any::<Index>(), ahead)
            .prop_map(|(which, fence_ahead)| Step::Extend { which, fence_ahead }),
        4 => (any::<Index>(), option::of(0u64..100))
            .prop_map(|(which, last_tick_at)| Step::Release { which, last_tick_at }),
        1 => Just(Step::Restart),
    ];
    vec((-2_000i64..4_000, 0u64..3_000, step), 1..200)
}

/// A lease as its holder has recorded it, with its end for the checks over all leases.
#[derive(Debug, Clone)]
struct Known {
    grant: LeaseGrant,
    owner: String,
    /// The highest fence that the holder ever had, or the fence of its release.
    end: Tick,
    released: bool,
    used: ClusterMs,
}

#[track_caller]
fn assert_within_reach(fence: Tick, now: Tick) {
    assert!(
        fence.0 <= now.0 + WINDOW_MS + 2 * SKEW_MS + 1,
        "a fence beyond the clock's reach"
    );
}

#[derive(Debug)]
struct World {
    state: State,
    layout: Layout,
    leases: Vec<Known>,
    cluster: ClusterMs,
}

impl World {
    fn apply(&mut self, stamp: Stamp, command: Command) -> Outcome {
        self.cluster = self.cluster.max(stamp.cluster_ms);
        apply_one(&mut self.state, stamp, command)
    }

    fn is_live(&self, known: &Known) -> bool {
        !known.released && self.cluster.0 < known.used.0 + WINDOW_MS
    }

    fn latest(&self, worker: WorkerId) -> Option<&Known> {
        self.leases
            .iter()
            .rev()
            .find(|known| known.grant.worker == worker)
    }

    /// Returns whether the worker of a latest lease can be granted again.
    fn is_free(&self, known: &Known, now: Tick) -> bool {
        !self.is_live(known) && known.end <= now
    }

    /// The rule: the owner's previous worker, or else an unused one, or else the least recently
    /// used one. Each must be free with its fence passed.
    fn expected_worker(&self, owner: &str, now: Tick) -> Option<WorkerId> {
        let workers = (0..self.layout.workers()).map(WorkerId);
        let eligible: Vec<WorkerId> = workers
            .filter(|worker| {
                self.latest(*worker)
                    .is_none_or(|known| self.is_free(known, now))
            })
            .collect();
        let use_of = |worker: &WorkerId| {
            self.latest(*worker)
                .map(|known| (known.used, known.grant.lease))
        };
        let own = eligible
            .iter()
            .filter(|worker| {
                self.latest(**worker)
                    .is_some_and(|known| known.owner == owner)
            })
            .max_by_key(|worker| use_of(worker));
        own.or_else(|| {
            eligible
                .iter()
                .min_by_key(|worker| (use_of(worker), **worker))
        })
        .copied()
    }

    fn take(&mut self, stamp: Stamp, owner: u8, fence: Tick) {
        let owner = format!("owner {owner}");
        let command = take(LAYOUT, &owner, fence);
        let outcome = self.apply(stamp, command);
        let now = self.layout.tick_at(stamp.wall_ms).unwrap();
        let expected = self.expected_worker(&owner, now);
        match outcome {
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => {
                assert_within_reach(fence, now);
                for earlier in self
                    .leases
                    .iter()
                    .filter(|k| k.grant.worker == grant.worker)
                {
                    assert!(
                        grant.from_tick >= earlier.end,
                        "windows of a worker overlap"
                    );
                    assert!(!self.is_live(earlier), "a live lease's worker was granted");
                    assert!(grant.lease > earlier.grant.lease, "lease IDs only rise");
                }
                assert_eq!(Some(grant.worker), expected);
                assert_eq!(grant.fence, fence);
                assert!(grant.from_tick >= now && grant.from_tick < fence);
                let used = self.cluster;
                self.leases.push(Known {
                    end: fence,
                    grant,
                    owner,
                    released: false,
                    used,
                });
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::WorkersExhausted {
                retry_after_ms,
                ..
            })) => {
                assert_eq!(expected, None);
                assert!(retry_after_ms > 0);
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::FenceTooFar { limit, .. })) => {
                assert!(fence > limit)
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::FenceTooLow { .. })) => {
                assert!(fence <= now)
            }
            other => panic!("{other:?}"),
        }
    }

    fn extend(&mut self, stamp: Stamp, which: usize, fence: Tick) {
        let known = self.leases[which].clone();
        let LeaseGrant {
            layout,
            worker,
            lease,
            ..
        } = known.grant.clone();
        let now = self.layout.tick_at(stamp.wall_ms).unwrap();
        match self.apply(stamp, extend(layout, worker, lease, fence)) {
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence: recorded }) => {
                assert!(
                    self.is_latest_unreleased(which),
                    "extended by a lease that is not the latest"
                );
                assert!(
                    !self.is_free(&known, now),
                    "a lease that had ended was extended"
                );
                assert!(recorded >= known.end, "an extend lowered the fence");
                assert_eq!(recorded, known.end.max(fence));
                assert_within_reach(fence, now);
                self.leases[which].end = recorded;
                self.leases[which].used = self.cluster;
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { holder, .. })) => {
                assert!(!self.is_latest_unreleased(which) || self.is_free(&known, now));
                let live = self.latest(worker).filter(|latest| self.is_live(latest));
                assert_eq!(
                    holder.map(|holder| holder.lease),
                    live.map(|l| l.grant.lease)
                );
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::FenceTooFar { limit, .. })) => {
                assert!(fence > limit)
            }
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, stamp: Stamp, which: usize, last_tick: Option<Tick>) {
        let known = self.leases[which].clone();
        let LeaseGrant {
            layout,
            worker,
            lease,
            from_tick,
            ..
        } = known.grant;
        match self.apply(stamp, release(layout, worker, lease, last_tick)) {
            Outcome::Workers(WorkerOutcome::LeaseReleased { fence }) => {
                assert!(
                    self.is_latest_unreleased(which),
                    "released by a lease that is not the latest"
                );
                let after = last_tick.map_or(known.end, |last| Tick(last.0 + 1));
                assert_eq!(fence, after);
                assert!(
                    from_tick <= after && after <= known.end,
                    "released at a tick outside its window"
                );
                self.leases[which].end = after;
                self.leases[which].released = true;
                self.leases[which].used = self.cluster;
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. })) => {
                assert!(!self.is_latest_unreleased(which));
            }
            Outcome::Refused(Refusal::Workers(WorkerRefusal::ReleaseOutsideWindow { .. })) => {
                assert!(
                    self.is_latest_unreleased(which),
                    "the window was compared that is held by a lease that is not the latest"
                );
                assert!(last_tick.is_some_and(|t| t >= known.end || t.0 + 1 < from_tick.0));
            }
            other => panic!("{other:?}"),
        }
    }

    fn is_latest_unreleased(&self, which: usize) -> bool {
        let known = &self.leases[which];
        let latest = self.latest(known.grant.worker).unwrap();
        latest.grant.lease == known.grant.lease && !known.released
    }

    /// Checks that reads agree with the outcomes.
    fn check_reads(&self) {
        let live: Vec<_> = self
            .leases
            .iter()
            .filter(|known| self.is_live(known))
            .collect();
        let ends = live.iter().map(|known| ClusterMs(known.used.0 + WINDOW_MS));
        assert_eq!(self.state.next_deadline(), ends.min());
        let read_live = self.state.leases().filter(|view| view.live).count();
        assert_eq!(read_live, live.len());
        // Check all windows, past ones included.
        for known in &self.leases {
            let grant = &known.grant;
            let at = |tick| match self.state.origin(&self.layout, grant.worker, tick) {
                Origin::Held(holder) => Some(holder.lease),
                Origin::Nobody => None,
                unknown => panic!("{unknown:?} at {tick} of {grant:?}"),
            };
            if grant.from_tick < known.end {
                assert_eq!(at(grant.from_tick), Some(grant.lease));
                assert_eq!(at(Tick(known.end.0 - 1)), Some(grant.lease));
            }
            assert_ne!(at(known.end), Some(grant.lease));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_of_a_worker_never_overlap_and_the_rule_chooses_it(steps in steps()) {
        let layout = Layout::preset(LAYOUT).unwrap();
        let state = founded();
        let mut world = World { state, layout, leases: Vec::new(), cluster: ClusterMs(0) };
        let (mut wall, mut cluster) = (100_000i64, 0);
        for (wall_passed, cluster_passed, step) in steps {
            wall = (wall + wall_passed).max(0);
            cluster += cluster_passed;
            let stamp = stamp(wall as u64, cluster);
            let ahead = |ms: u64| Tick(wall as u64 + ms);
            let count = world.leases.len();
            match step {
                Step::Take { owner, fence_ahead } => world.take(stamp, owner, ahead(fence_ahead)),
                Step::Extend { which, fence_ahead } if count > 0 => {
                    world.extend(stamp, which.index(count), ahead(fence_ahead));
                }
                Step::Release { which, last_tick_at } if count > 0 => {
                    let which = which.index(count);
                    let from = world.leases[which].grant.from_tick.0;
                    // A tenth of the reported ticks lie before or after the window.
                    let last = last_tick_at.map(|part| Tick((from + part * 350).saturating_sub(2)));
                    world.release(stamp, which, last);
                }
                Step::Extend { .. } | Step::Release { .. } => {}
                Step::Restart => world.state = State::from_rows(world.state.rows()).unwrap(),
            }
            world.check_reads();
        }
    }
}

#[test]
fn before_a_layouts_epoch_nothing_is_leased() {
    let mut state = founded();
    let mut stamp = stamp(0, 0);
    stamp.wall_ms.0 = EPOCH_MS - 1;
    let command = take(LAYOUT, "a", Tick(1));
    let outcome = apply_one(&mut state, stamp, command);
    assert!(matches!(
        outcome,
        Outcome::Refused(Refusal::Workers(WorkerRefusal::BeforeLayoutEpoch {
            epoch_ms: EPOCH_MS,
            ..
        }))
    ));
    let extend = extend(LAYOUT.to_owned(), WorkerId(0), LeaseId(4), Tick(1));
    let outcome = apply_one(&mut state, stamp, extend);
    assert!(matches!(
        outcome,
        Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. }))
    ));
}
