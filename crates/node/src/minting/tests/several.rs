//! Nodes that may lease several workers of one layout.

use std::collections::{BTreeMap, BTreeSet};

use seqd_idgen::SnowflakeId;
use seqd_state::{Command, Outcome, WorkerCommand, WorkerOutcome};

use super::*;

impl Story {
    fn holding_up_to(workers: u32) -> Story {
        let clock = TestClock::at(NOON);
        let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
        let policy = ClockPolicy::default();
        let watch = Arc::new(ClockWatch::alone(clock.clone(), policy, None));
        let keeper = Keeper {
            workers,
            ..replica.keeper(&watch, policy)
        };
        Story {
            minters: Minters::start(keeper, Layout::preset("default").unwrap()),
            clock,
            replica,
            watch,
        }
    }

    fn held_workers(&self) -> Vec<u32> {
        let windows = self.minters.default().windows();
        windows.iter().map(|window| window.worker.0).collect()
    }

    fn live_leases(&self) -> usize {
        let mut live = 0;
        self.replica
            .look(&mut |state| live = state.leases().filter(|view| view.live).count())
            .unwrap();
        live
    }

    /// Sixteen clients request a thousand IDs at a time for `ms` milliseconds. Returns their
    /// batches.
    async fn load(self: &Arc<Story>, ms: u64) -> Vec<Vec<u64>> {
        let until = Instant::now() + Duration::from_millis(ms);
        let clients: Vec<_> = (0..16)
            .map(|_| {
                let story = Arc::clone(self);
                tokio::spawn(async move {
                    let mut batches = Vec::new();
                    while Instant::now() < until {
                        batches.push(story.mint(1000).await.unwrap());
                    }
                    batches
                })
            })
            .collect();
        for _ in 0..ms {
            sleep(Duration::from_millis(1)).await;
            self.clock.step(1);
            self.replica.clock.step(1);
        }
        // The clock advances while requests wait for the next tick.
        let (clock, replica) = (Arc::clone(&self.clock), Arc::clone(&self.replica));
        let ticking = tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(1)).await;
                clock.step(1);
                replica.clock.step(1);
            }
        });
        let mut batches = Vec::new();
        for client in clients {
            batches.extend(client.await.unwrap());
        }
        ticking.abort();
        batches
    }
}

/// Fails on a duplicate ID, a batch of two workers or a batch out of order. Returns the IDs of each
/// worker.
fn by_worker(batches: &[Vec<u64>]) -> BTreeMap<u32, BTreeSet<u64>> {
    let layout = Layout::preset("default").unwrap();
    let mut workers = BTreeMap::<u32, BTreeSet<u64>>::new();
    for batch in batches {
        assert!(batch.is_sorted_by(|a, b| a < b), "out of order");
        let worker = |id: &u64| layout.unpack(SnowflakeId::from_u64(*id)).unwrap().worker.0;
        assert_eq!(worker(&batch[0]), worker(&batch[999]));
        let ids = workers.entry(worker(&batch[0])).or_default();
        assert!(batch.iter().all(|id| ids.insert(*id)), "an ID twice");
    }
    workers
}

#[tokio::test(start_paused = true)]
async fn a_node_at_its_limit_leases_workers_one_by_one_and_makes_the_ids_of_all() {
    let story = Arc::new(Story::holding_up_to(4));
    story.mint(1).await.unwrap();
    assert_eq!(
        story.held_workers().len(),
        1,
        "nothing is leased before it is needed"
    );
    story.load(500).await;
    assert_eq!(story.held_workers().len(), 4);
    assert_eq!(story.live_leases(), 4);
    let workers = by_worker(&story.load(200).await);
    let total: usize = workers.values().map(BTreeSet::len).sum();
    let one = 200 * 4096;
    assert!(total * 10 >= one * 39, "{total} of four times {one}");
    assert_eq!(workers.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn one_worker_is_all_that_a_node_holds_by_default() {
    let story = Arc::new(Story::begin());
    story.mint(1).await.unwrap();
    let batches = story.load(300).await;
    assert_eq!(story.live_leases(), 1);
    assert_eq!(by_worker(&batches).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_few_full_ticks_lease_no_further_worker() {
    let story = Arc::new(Story::holding_up_to(4));
    story.mint(1).await.unwrap();
    story.load(5).await;
    story.pass(1_000).await;
    assert_eq!(story.live_leases(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_idle_for_a_minute_is_released_and_leased_again_on_demand() {
    let story = Arc::new(Story::holding_up_to(2));
    story.mint(1).await.unwrap();
    let before = by_worker(&story.load(300).await);
    let first = story.held_workers()[0];
    assert_eq!(story.held_workers().len(), 2);
    // The first worker alone serves a light load.
    for _ in 0..55 {
        story.pass(1_000).await;
        story.mint(10).await.unwrap();
    }
    assert_eq!(
        story.held_workers().len(),
        2,
        "a pause of less than a minute"
    );
    story.pass(10_000).await;
    assert_eq!(story.held_workers(), [first]);
    assert_eq!(story.live_leases(), 1, "given back to the cluster");
    let idle = story.replica.proposals();
    story.pass(20_000).await;
    assert!(
        story.replica.proposals() <= idle + 3,
        "the first worker's extensions alone"
    );

    let after = by_worker(&story.load(300).await);
    assert_eq!(story.held_workers().len(), 2);
    for (worker, ids) in after {
        let highest = before.get(&worker).and_then(BTreeSet::last);
        assert!(highest < ids.first(), "worker {worker} below what it made");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_all_generators_and_gives_all_workers_back() {
    let story = Arc::new(Story::holding_up_to(3));
    story.mint(1).await.unwrap();
    story.load(400).await;
    assert_eq!(story.live_leases(), 3);
    let holders: Vec<_> = story
        .minters
        .default()
        .all_seats()
        .iter()
        .filter_map(|seat| seat.holder())
        .collect();
    assert_eq!(holders.len(), 3);
    story.stop().await;
    assert_eq!((story.live_leases(), story.held_workers().len()), (0, 0));
    assert!(holders.iter().all(|holder| holder.generator.is_closed()));
    assert_eq!(story.mint(1).await.unwrap_err(), MintError::Stopping);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_of_a_further_worker_is_closed_before_another_is_taken() {
    let story = Arc::new(Story::holding_up_to(2));
    story.mint(1).await.unwrap();
    let before = by_worker(&story.load(300).await);
    let seats = story.minters.default().all_seats();
    let lost = seats[1].holder().unwrap();
    let release = WorkerCommand::ReleaseLease {
        layout: "default".to_owned(),
        worker: lost.generator.worker(),
        lease: lost.lease,
        last_tick: lost.generator.last_tick(),
    };
    let released = story.replica.apply(vec![Command::Workers(release)]);
    let is_released = matches!(
        released[0],
        Outcome::Workers(WorkerOutcome::LeaseReleased { .. })
    );
    assert!(is_released, "{released:?}");
    story.pass(WINDOW_MS / 2).await;
    assert!(lost.generator.is_closed());
    let next = seats[1].holder().unwrap();
    assert!(next.lease > lost.lease);
    let after = by_worker(&story.load(300).await);
    for (worker, ids) in after {
        let highest = before.get(&worker).and_then(BTreeSet::last);
        assert!(highest < ids.first(), "worker {worker} below what it made");
    }
}

#[tokio::test(start_paused = true)]
async fn the_mark_on_disk_lies_at_or_above_every_workers_last_tick() {
    let story = Arc::new(Story::holding_up_to(4));
    story.mint(1).await.unwrap();
    let batches = story.load(500).await;
    let last = batches.iter().filter_map(|batch| batch.last()).max();
    let layout = Layout::preset("default").unwrap();
    let parts = layout.unpack(SnowflakeId::from_u64(*last.unwrap()));
    let mark = story.minters.mark();
    assert!(
        mark.last_minted >= layout.wall_at(parts.unwrap().tick),
        "{mark:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_layout_with_fewer_workers_than_are_allowed_has_no_more() {
    let story = Story::holding_up_to(1024);
    let js53 = story.minters.of("js53").unwrap();
    assert_eq!(js53.all_seats().len(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_that_is_stopped_leases_no_worker() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    story.minters.set_drained(true);
    story.pass(3_000).await;
    assert!(story.minters.default().holder().is_none());
    let before = story.replica.proposals();
    story.minters.default().seats().0.stop();
    story.pass(1_000).await;
    assert_eq!(story.replica.proposals(), before);
}
