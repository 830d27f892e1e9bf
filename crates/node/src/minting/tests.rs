//! Tests of minting: a real state machine, a clock that is set by hand, and paused monotonic time.

mod exhaustion;
mod in_line;
mod peers;
mod refused;
mod resets;
mod several;

use std::sync::Arc;
use std::time::Duration;

use seqd_api::ErrorCode;
use seqd_idgen::{ClockPolicy, Layout, OnRollback, StoredMark, WallMs, WorkerId};
use seqd_state::LeaseId;
use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::replica::Replica as _;
use crate::test_replica::{NOON, TestClock, TestReplica};

const WINDOW_MS: u64 = 30_000;

struct Story {
    clock: Arc<TestClock>,
    replica: Arc<TestReplica>,
    watch: Arc<ClockWatch>,
    minters: Minters,
}

impl Story {
    fn begin() -> Story {
        Story::with(ClockPolicy::default(), None)
    }

    fn with(policy: ClockPolicy, mark: Option<StoredMark>) -> Story {
        let clock = TestClock::at(NOON);
        let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
        Story::on(clock, replica, policy, mark)
    }

    fn on(
        clock: Arc<TestClock>,
        replica: Arc<TestReplica>,
        policy: ClockPolicy,
        mark: Option<StoredMark>,
    ) -> Story {
        let watch = ClockWatch::alone(clock.clone(), policy, mark);
        Story::watched(clock, replica, watch, policy)
    }

    fn watched(
        clock: Arc<TestClock>,
        replica: Arc<TestReplica>,
        watch: ClockWatch,
        policy: ClockPolicy,
    ) -> Story {
        let watch = Arc::new(watch);
        let keeper = replica.keeper(&watch, policy);
        let minters = Minters::start(keeper, Layout::preset("default").unwrap());
        Story {
            clock,
            replica,
            watch,
            minters,
        }
    }

    /// Advances both clocks by `ms`, in small steps like real clocks.
    async fn pass(&self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(100);
            self.clock.step(step as i64);
            self.replica.clock.step(step as i64);
            advance(Duration::from_millis(step)).await;
            tokio::task::yield_now().await;
            left -= step;
        }
    }

    async fn mint(&self, count: u32) -> Result<Vec<u64>, MintError> {
        let deadline = Instant::now() + Duration::from_secs(3);
        let minter = self.minters.default();
        minter
            .mint(&self.watch, count, deadline)
            .await
            .map(|minted| minted.ids().collect())
    }

    async fn code(&self) -> Option<ErrorCode> {
        self.mint(1).await.err().map(|error| error.code())
    }

    /// The worker and the lease that mint.
    fn held(&self) -> (WorkerId, LeaseId) {
        let holder = self.minters.default().holder().unwrap();
        (holder.generator.worker(), holder.lease)
    }

    async fn stop(&self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        self.minters.stop(deadline).await;
    }

    /// Mints ten IDs in each of `ms` milliseconds.
    async fn mint_for(&self, ms: u64) -> Vec<u64> {
        let mut ids = Vec::new();
        for _ in 0..ms {
            ids.extend(self.mint(10).await.unwrap());
            self.clock.step(1);
        }
        ids
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_waits_for_the_lease() {
    let story = Story::begin();
    let ids = story.mint(3).await.unwrap();
    let layout = Layout::preset("default").unwrap();
    let parts = layout
        .unpack(seqd_idgen::SnowflakeId::from_u64(ids[0]))
        .unwrap();
    assert_eq!(layout.wall_at(parts.tick), WallMs(NOON));
    assert_eq!((ids[1], ids[2]), (ids[0] + 1, ids[0] + 2));
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_several_ticks_and_stays_in_order() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    let ticking = story.clock.ticking();
    let ids = story.mint(10_000).await.unwrap();
    ticking.abort();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
}

#[tokio::test(start_paused = true)]
async fn the_window_moves_at_a_third_and_lasts_a_day_of_requests() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    for _ in 0..120 {
        story.pass(1_000).await;
        story.mint(1).await.unwrap();
        let window = story.minters.default().window().unwrap();
        let left = window.ends.0 - story.watch.wall().0;
        assert!(left > WINDOW_MS / 2, "{left}");
    }
    let proposals = story.replica.proposals();
    assert!(
        proposals < 30,
        "an extension for each third, not more: {proposals}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_it_mints_until_the_window_ends() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    story.replica.set_quorum(false);
    story.pass(15_000).await;
    story.mint(1).await.unwrap();
    let ends = story.minters.default().check(&story.watch).unwrap().ends;
    assert!(ends.0 > story.watch.wall().0);
    story.pass(ends.0 - story.watch.wall().0 + 1).await;
    let asked = Instant::now();
    let code = story.code().await;
    assert_eq!(
        code,
        Some(ErrorCode::NoQuorum),
        "minted past the committed window"
    );
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "at once, not at the deadline"
    );
    story.replica.set_quorum(true);
    story.pass(1_000).await;
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_small_rollback_is_waited_out_and_a_large_one_refused_until_it_ends() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    story.clock.step(-10_000);
    match story.mint(1).await {
        Err(MintError::ClockBehind { by_ms, until }) => {
            assert_eq!((by_ms, until), (10_000, WallMs(NOON)));
        }
        other => panic!("{other:?}"),
    }
    let error = story.mint(1).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ClockBehind);
    let words = error.to_string();
    assert!(words.contains("10000 ms") && words.contains("2026-11-21T"));
    story.clock.step(9_980);
    let clock = Arc::clone(&story.clock);
    let ticking = tokio::spawn(async move {
        sleep(Duration::from_millis(20)).await;
        clock.step(20);
    });
    story.mint(1).await.unwrap();
    ticking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reading_before_that_of_another_thread_is_replaced_by_a_second_one() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    let ticking = story.clock.ticking();
    story.clock.read_once_behind(100);
    story.mint(1).await.unwrap();
    // More IDs than a tick has take the queue.
    story.clock.read_once_behind(100);
    assert_eq!(story.mint(5_000).await.unwrap().len(), 5_000);
    story.clock.read_once_behind(100);
    story.minters.default().check(&story.watch).unwrap();
    ticking.abort();
}

#[tokio::test(start_paused = true)]
async fn continue_mints_in_logical_time() {
    let policy = ClockPolicy {
        on_rollback: OnRollback::Continue,
        ..ClockPolicy::default()
    };
    let story = Story::with(policy, None);
    let before = story.mint(1).await.unwrap();
    story.clock.step(-10_000);
    let after = story.mint(5_000).await.unwrap();
    assert!(before[0] < after[0]);
}

#[tokio::test(start_paused = true)]
async fn a_start_before_its_mark_refuses_although_it_has_a_lease() {
    let mark = StoredMark::stopped(WallMs(NOON + 10_000));
    let story = Story::with(ClockPolicy::default(), Some(mark));
    story.pass(500).await;
    assert!(
        story.minters.default().window().is_some(),
        "the lease is there"
    );
    match story.mint(1).await {
        Err(MintError::ClockBehind { by_ms, until }) => {
            assert_eq!((by_ms, until), (9_501, WallMs(NOON + 10_001)));
        }
        other => panic!("minted before the mark of the last start: {other:?}"),
    }
    assert!(story.minters.default().check(&story.watch).is_err());
    story.pass(9_600).await;
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_20_ms_before_its_mark_waits_and_mints_above_it() {
    let last = WallMs(NOON + 20);
    let story = Story::with(ClockPolicy::default(), Some(StoredMark::stopped(last)));
    let ticking = story.clock.ticking();
    let asked = Instant::now();
    let ids = story.mint(1).await.unwrap();
    ticking.abort();
    assert!(asked.elapsed() >= Duration::from_millis(20), "not waited");
    let layout = Layout::preset("default").unwrap();
    let parts = layout.unpack(seqd_idgen::SnowflakeId::from_u64(ids[0]));
    let minted = layout.wall_at(parts.unwrap().tick);
    assert!(minted > last, "{minted:?} after {last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_and_a_quick_start_on_a_good_clock_are_no_rollback() {
    let mark = StoredMark::running(WallMs(NOON - 40), WallMs(NOON - 30), WallMs(NOON + 30_000));
    let story = Story::with(ClockPolicy::default(), Some(mark));
    let clock = Arc::clone(&story.clock);
    let ticking = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(10)).await;
            clock.step(10);
        }
    });
    let asked = Instant::now();
    story.mint(1).await.unwrap();
    ticking.abort();
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_clock_ahead_of_the_leaders_gets_no_window() {
    let story = Story::begin();
    story.replica.clock.step(-60_000);
    assert_eq!(story.code().await, Some(ErrorCode::ClockSkewed));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_outlasts_the_deadline_is_answered_with_its_own_reason() {
    let policy = ClockPolicy {
        max_backward_wait_ms: 5_000,
        ..ClockPolicy::default()
    };
    let story = Story::with(policy, None);
    story.mint(1).await.unwrap();
    story.clock.step(-4_000);
    let expected = MintError::ClockBehind {
        by_ms: 4_000,
        until: WallMs(NOON),
    };
    assert_eq!(story.mint(1).await.unwrap_err(), expected);
    let checked = story.minters.default().check(&story.watch);
    assert_eq!(checked.unwrap_err(), expected);
    story.clock.step(3_000);
    assert!(story.minters.default().check(&story.watch).is_ok());

    // A tick of 10 ms has 256 IDs.
    let slow = story.minters.of("sonyflake").unwrap();
    story.clock.set(NOON + 2);
    let soon = || Instant::now() + Duration::from_millis(5);
    let later = Instant::now() + Duration::from_secs(3);
    slow.mint(&story.watch, 256, later).await.unwrap();
    let full = slow.mint(&story.watch, 1, soon()).await.unwrap_err();
    assert_eq!(full, MintError::TickFull { ms: 10 });
    assert_eq!(full.code(), ErrorCode::Overloaded);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_followed_by_another() {
    let story = Story::begin();
    let before = story.mint(10).await.unwrap();
    let (worker, lost) = story.held();
    // The lease expires by cluster time, and a lease in this node's name takes the worker: the
    // previous owner is preferred to unused workers.
    story.replica.set_quorum(false);
    story.pass(WINDOW_MS + 1_000).await;
    let (node, boot) = story.replica.started().unwrap();
    let taken = story.replica.apply(vec![seqd_state::Command::Workers(
        seqd_state::WorkerCommand::TakeLease(seqd_state::TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: "default".to_owned(),
            owner: "n1".to_owned(),
            node: Some(node),
            boot,
            fence: Layout::preset("default")
                .unwrap()
                .fence_at(WallMs(story.watch.wall().0 + 30_000)),
            datacenter: None,
        }),
    )]);
    let seqd_state::Outcome::Workers(seqd_state::WorkerOutcome::LeaseTaken(grant)) = &taken[0]
    else {
        panic!("{taken:?}");
    };
    assert_eq!(grant.worker, worker);
    story.replica.set_quorum(true);
    story.pass(1_000).await;
    let after = story.mint(10).await.unwrap();
    assert!(after[0] > before[9], "{after:?} after {before:?}");
    let (other_worker, lease) = story.held();
    assert!(lease > grant.lease && grant.lease > lost, "{lease:?}");
    assert_ne!(other_worker, worker, "the worker of a live lease");
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_clock_and_mark_went_back_is_a_new_holder_and_mints_no_id_again() {
    let killed = Story::begin();
    let before = killed.mint_for(500).await;
    let (worker, lease) = killed.held();
    // The process and its mark are gone without a release, and the next process starts with the
    // same clock reading.
    let replica = Arc::clone(&killed.replica);
    let next = Story::on(TestClock::at(NOON), replica, ClockPolicy::default(), None);
    let after = next.mint_for(500).await;
    let (new_worker, new_lease) = next.held();
    assert!(new_lease > lease, "{new_lease:?} after {lease:?}");
    assert_ne!(new_worker, worker, "the worker of a live lease");
    let both: Vec<u64> = before
        .iter()
        .copied()
        .filter(|id| after.contains(id))
        .collect();
    assert!(both.is_empty(), "minted by both: {both:?}");
}

#[tokio::test(start_paused = true)]
async fn a_released_worker_comes_back_at_once_and_mints_above() {
    let story = Story::begin();
    let before = story.mint(5).await.unwrap();
    let (worker, lease) = story.held();
    story.stop().await;
    let minter = Arc::clone(story.minters.default());
    let refused = minter
        .mint(&story.watch, 1, Instant::now() + Duration::from_secs(1))
        .await;
    assert_eq!(refused.unwrap_err(), MintError::Stopping);
    story.clock.step(1);
    story.replica.clock.step(1);
    let Story { clock, replica, .. } = story;
    let next = Story::on(clock, replica, ClockPolicy::default(), None);
    let after = next.mint(5).await.unwrap();
    assert!(before[4] < after[0]);
    let (new_worker, new_lease) = next.held();
    assert_eq!(new_worker, worker);
    assert!(new_lease > lease, "{new_lease:?} after {lease:?}");
}

#[tokio::test(start_paused = true)]
async fn another_layout_is_leased_at_its_first_use() {
    let story = Story::begin();
    assert_eq!(story.minters.all().len(), 1);
    let twitter = story.minters.of("twitter").unwrap();
    let deadline = Instant::now() + Duration::from_secs(3);
    twitter.mint(&story.watch, 1, deadline).await.unwrap();
    assert_eq!(story.minters.all().len(), 2);
    let full = story.minters.of("uid-generator").unwrap();
    let error = full.mint(&story.watch, 1, deadline).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::LayoutExhausted);
    assert!(story.minters.of("nonsense").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_mark_on_disk_does_not_fall_when_a_lease_is_lost() {
    let before = StoredMark::stopped(WallMs(NOON - 60_000));
    let story = Story::with(ClockPolicy::default(), Some(before));
    story.mint(1).await.unwrap();
    story.pass(5_000).await;
    story.mint(1).await.unwrap();
    let last = story.watch.wall();
    // The lease is lost, and with it the generator that had recorded the last tick. No mark was
    // written meanwhile.
    let lost = story.minters.default().holder().unwrap();
    let released = story.replica.apply(vec![seqd_state::Command::Workers(
        seqd_state::WorkerCommand::ReleaseLease {
            layout: "default".to_owned(),
            worker: lost.generator.worker(),
            lease: lost.lease,
            last_tick: None,
        },
    )]);
    assert!(
        matches!(
            released[0],
            seqd_state::Outcome::Workers(seqd_state::WorkerOutcome::LeaseReleased { .. })
        ),
        "{released:?}"
    );
    story.pass(WINDOW_MS / 2).await;
    let holder = story.minters.default().holder().unwrap();
    assert!(holder.lease > lost.lease);
    assert_eq!(holder.generator.last_tick(), None);
    story.watch.used(before.last_minted);
    let mark = story.minters.mark();
    assert_eq!(mark.last_minted, last);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_layout_is_leased_any_more() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    story.stop().await;
    let before = story.replica.proposals();
    let twitter = story.minters.of("twitter").unwrap();
    let deadline = Instant::now() + Duration::from_secs(3);
    let refused = twitter.mint(&story.watch, 1, deadline).await;
    assert_eq!(refused.unwrap_err(), MintError::Stopping);
    story.pass(5_000).await;
    assert_eq!(story.replica.proposals(), before);
}
