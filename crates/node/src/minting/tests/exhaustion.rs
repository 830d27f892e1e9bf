//! The end of a layout's time field, through a node's minter.

use seqd_idgen::SnowflakeId;

use super::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Layouts whose time fields end, with ticks of different lengths.
const LAYOUTS: [&str; 5] = ["default", "twitter", "leaf", "sonyflake", "js53"];

/// A node that starts at this time.
fn at(ms: u64) -> Story {
    let replica = TestReplica::founded(TestClock::at(ms), WINDOW_MS);
    Story::on(TestClock::at(ms), replica, ClockPolicy::default(), None)
}

impl Story {
    async fn one_of(&self, layout: &str) -> Result<u64, MintError> {
        let deadline = Instant::now() + Duration::from_secs(3);
        let minter = self.minters.of(layout).unwrap();
        let minted = minter.mint(&self.watch, 1, deadline).await?;
        Ok(minted.ids().next().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_year_day_second_and_tick_give_ids_and_the_end_is_a_conflict() {
    for name in LAYOUTS {
        let layout = Layout::preset(name).unwrap();
        let end = layout.exhausted_at().0;
        for before_ms in [365 * DAY_MS, DAY_MS, 1000, 1] {
            let story = at(end - before_ms);
            let id = story.one_of(name).await.unwrap();
            assert!(i64::try_from(id).is_ok(), "{id} is negative");
            let parts = layout.unpack(SnowflakeId::from_u64(id)).unwrap();
            let tick = layout.tick_at(WallMs(end - before_ms)).unwrap();
            assert_eq!(parts.tick, tick, "{name}, {before_ms} ms before the end");
        }
        // A running node passes the end.
        let story = at(end - 1);
        story.one_of(name).await.unwrap();
        for _ in 0..50 {
            story.pass(1).await;
            let refused = story.one_of(name).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::LayoutExhausted, "{refused}");
        }
        assert_eq!(ErrorCode::LayoutExhausted.row().status, 409);
        // Other nodes start after the end.
        for after_ms in [0, 1000, DAY_MS, 365 * DAY_MS] {
            let refused = at(end + after_ms).one_of(name).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::LayoutExhausted, "{refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_the_last_tick_cannot_hold_is_refused() {
    let end = Layout::preset("default").unwrap().exhausted_at().0;
    let story = at(end - 1);
    let batch = story.mint(4096).await.unwrap();
    assert_eq!(batch.len(), 4096);
    assert!(batch.iter().all(|id| i64::try_from(*id).is_ok()));
    let code = story.code().await;
    assert_eq!(code, Some(ErrorCode::LayoutExhausted));
    let story = at(end - 1);
    let refused = story.mint(5000).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::LayoutExhausted, "{refused}");
}
