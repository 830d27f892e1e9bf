//! After its clock was ahead, a reset lets a node mint in the present again, without a duplicate
//! ID.

use std::collections::BTreeSet;

use seqd_state::{ClusterCommand, Command};

use super::*;
use crate::replica::peek;
use crate::test_replica::NODE;

const TEN_YEARS_MS: i64 = 315_360_000_000;

impl Story {
    /// Orders a reset, and makes the node check for it as often as its thread does in a second.
    fn reset(&self) {
        let command = ClusterCommand::ResetWorkers { node: NODE };
        self.replica.apply(vec![Command::Cluster(command)]);
        for _ in 0..4 {
            self.minters.obey_reset();
        }
    }

    fn set_clocks(&self, by_ms: i64) {
        self.clock.step(by_ms);
        self.replica.clock.step(by_ms);
    }

    fn fence_of(&self, worker: WorkerId) -> u64 {
        let fence = peek(&*self.replica, |state| {
            let mut leases = state.leases();
            leases
                .find(|lease| lease.worker == worker)
                .map(|lease| lease.record.fence.0)
        });
        fence.flatten().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_reset_a_node_mints_at_the_current_time_although_its_clock_was_ten_years_ahead() {
    let story = Story::begin();
    let mut ids: Vec<u64> = story.mint(100).await.unwrap();
    story.set_clocks(TEN_YEARS_MS);
    story.pass(15_000).await;
    ids.extend(story.mint(100).await.unwrap());
    let (burned, _) = story.held();
    story.set_clocks(-TEN_YEARS_MS);
    story.pass(1_000).await;
    assert_eq!(story.code().await, Some(ErrorCode::ClockBehind));
    story.pass(60_000).await;
    assert_eq!(story.code().await, Some(ErrorCode::ClockBehind));
    let fence = story.fence_of(burned);

    story.reset();
    story.pass(1_000).await;
    ids.extend(story.mint(100).await.expect("IDs after the reset"));
    let (worker, _) = story.held();
    assert_ne!(worker, burned, "its fence is ahead");
    assert_eq!(story.fence_of(burned), fence, "a reset moved a fence");
    let distinct: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "an ID twice");
    // It is obeyed once: only a later reset has another effect.
    let number = peek(&*story.replica, |state| state.reset_of(NODE)).flatten();
    assert_eq!(Some(story.minters.obeyed_reset()), number);
    let mark = story.minters.mark();
    assert!(mark.ahead.0 <= story.watch.wall().0 + 1_000, "{mark:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_gives_up_only_windows_that_no_correct_clock_can_have() {
    let story = Story::begin();
    story.mint(1).await.unwrap();
    let held = story.held();
    story.set_clocks(-500);
    assert_eq!(story.code().await, Some(ErrorCode::ClockBehind));
    story.reset();
    assert_eq!(
        (story.code().await, story.held()),
        (Some(ErrorCode::ClockBehind), held),
        "a reset gave up what comes to an end by itself"
    );
}
