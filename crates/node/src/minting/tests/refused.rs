//! Leases that the cluster refuses.

use super::*;

#[tokio::test(start_paused = true)]
async fn without_a_free_worker_it_proposes_seldom_and_at_a_request() {
    let clock = TestClock::at(NOON);
    let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
    let layout = Layout::preset("default").unwrap();
    let take = seqd_state::TakeLease {
        tenant: seqd_state::Tenant::OPERATOR,
        layout: "default".to_owned(),
        owner: "other".to_owned(),
        node: None,
        boot: 0,
        fence: layout.fence_at(WallMs(NOON + WINDOW_MS)),
        datacenter: None,
    };
    let take = seqd_state::WorkerCommand::TakeLease(take);
    let all = vec![seqd_state::Command::Workers(take); layout.workers() as usize];
    let taken = replica.apply(all);
    let Some(seqd_state::Outcome::Workers(seqd_state::WorkerOutcome::LeaseTaken(grant))) =
        taken.last()
    else {
        panic!("{taken:?}");
    };
    let story = Story::on(clock, replica, ClockPolicy::default(), None);
    story.pass(12_000).await;
    assert_eq!(story.code().await, Some(ErrorCode::WorkersExhausted));
    let proposals = story.replica.proposals();
    assert!(
        proposals <= 4,
        "one each five seconds, and one at the request: {proposals}"
    );

    let released = seqd_state::WorkerCommand::ReleaseLease {
        layout: "default".to_owned(),
        worker: grant.worker,
        lease: grant.lease,
        last_tick: grant.from_tick.0.checked_sub(1).map(seqd_idgen::Tick),
    };
    story
        .replica
        .apply(vec![seqd_state::Command::Workers(released)]);
    story.pass(300).await;
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_refused_for_good_is_seldom_proposed_and_requests_are_refused_at_once() {
    let story = Story::begin();
    let keeper = Keeper {
        datacenter: 99,
        ..story.replica.keeper(&story.watch, ClockPolicy::default())
    };
    let minters = Minters::start(keeper, Layout::preset("twitter").unwrap());
    story.pass(1_000).await;
    let before = story.replica.proposals();
    let asked = Instant::now();
    for _ in 0..100 {
        let deadline = Instant::now() + Duration::from_secs(3);
        let refused = minters.default().mint(&story.watch, 1, deadline).await;
        assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidArgument);
    }
    assert_eq!(asked.elapsed(), Duration::ZERO);
    story.pass(9_000).await;
    assert!(
        story.replica.proposals() <= before + 1,
        "the other layout's window is extended"
    );
}
