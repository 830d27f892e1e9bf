//! Requests that wait for IDs of future ticks.

use seqd_state::{AccessId, Tenant};

use super::super::minter::MANY_AT_ONCE;
use super::*;
use crate::admission::Serving;

/// A second has 25,600 IDs of this layout, so seven of the twelve requests can be served within
/// three seconds.
#[tokio::test(start_paused = true)]
async fn large_requests_to_a_slow_layout_are_served_in_turn_or_refused_at_once() {
    let story = Arc::new(Story::begin());
    let slow = story.minters.of("sonyflake").unwrap();
    let begin = Instant::now();
    slow.mint(&story.watch, 1, begin + Duration::from_secs(3))
        .await
        .unwrap();
    let (ticking, began) = (story.clock.ticking(), Instant::now());
    let deadline = began + Duration::from_secs(3);
    let callers: Vec<_> = (0..12)
        .map(|_| {
            let (story, slow) = (Arc::clone(&story), Arc::clone(&slow));
            tokio::spawn(async move {
                let minted = slow.mint(&story.watch, 10_000, deadline).await;
                (minted.map(|minted| minted.len()), began.elapsed())
            })
        })
        .collect();
    let (mut served, mut refused) = (Vec::new(), 0);
    for caller in callers {
        match caller.await.unwrap() {
            (Ok(count), took) => {
                assert_eq!(count, 10_000);
                served.push(took);
            }
            (Err(error), took) => {
                assert!(matches!(error, MintError::Crowded { .. }), "{error:?}");
                assert_eq!(error.code(), ErrorCode::Overloaded);
                assert!(took < Duration::from_millis(20), "{took:?}");
                refused += 1;
            }
        }
    }
    ticking.abort();
    assert_eq!((served.len(), refused), (7, 5));
    assert!(
        served.is_sorted() && served[0] < Duration::from_millis(500),
        "{served:?}"
    );
    assert_eq!(slow.minted(), 70_001);
}

#[tokio::test(start_paused = true)]
async fn many_callers_of_a_slow_layout_are_answered_by_their_deadlines() {
    let story = Arc::new(Story::begin());
    let slow = story.minters.of("sonyflake").unwrap();
    let later = Instant::now() + Duration::from_secs(3);
    slow.mint(&story.watch, 1, later).await.unwrap();
    // The clock does not advance.
    let began = Instant::now();
    let deadline = began + Duration::from_millis(500);
    let callers: Vec<_> = (0..300)
        .map(|_| {
            let (story, slow) = (Arc::clone(&story), Arc::clone(&slow));
            tokio::spawn(async move { slow.mint(&story.watch, 300, deadline).await.is_err() })
        })
        .collect();
    for caller in callers {
        assert!(caller.await.unwrap());
    }
    assert!(
        began.elapsed() <= Duration::from_millis(520),
        "{:?}",
        began.elapsed()
    );
}

/// Ten requests of one tenant take 3.9 s of ticks, during which another tenant gets its turn.
#[tokio::test(start_paused = true)]
async fn requests_for_many_ids_take_turns_and_those_of_another_layout_wait_for_none() {
    let story = Arc::new(Story::begin());
    let [slow, quick] = ["sonyflake", "default"].map(|name| story.minters.of(name).unwrap());
    let began = Instant::now();
    let deadline = began + Duration::from_secs(30);
    for minter in [&slow, &quick] {
        minter.mint(&story.watch, 1, deadline).await.unwrap();
    }
    let ticking = story.clock.ticking();
    let ask = |tenant: u64, minter: &Arc<Minter>| {
        let (story, minter) = (Arc::clone(&story), Arc::clone(minter));
        let serving = Serving::new(Tenant::of_token(AccessId(tenant)), None);
        tokio::spawn(serving.scope(async move {
            let minted = minter.mint_in_turn(&story.watch, 10_000, deadline).await;
            (minted.unwrap().len(), began.elapsed())
        }))
    };
    let many: Vec<_> = (0..10).map(|_| ask(1, &slow)).collect();
    sleep(Duration::from_millis(5)).await;
    let (of_quick, other) = (ask(2, &quick), ask(2, &slow));
    let took = of_quick.await.unwrap().1;
    assert!(took < Duration::from_millis(50), "{took:?}");
    let (count, took) = other.await.unwrap();
    assert_eq!(count, 10_000);
    let limit = Duration::from_millis(400 * (1 + MANY_AT_ONCE as u64 + 1));
    assert!(
        took < limit,
        "it waited for all of another tenant: {took:?}"
    );
    for one in many {
        assert_eq!(one.await.unwrap().0, 10_000);
    }
    ticking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_own_ids_take_too_long_is_refused_with_the_number_that_fits() {
    let story = Arc::new(Story::begin());
    let slow = story.minters.of("sonyflake").unwrap();
    let deadline = Instant::now() + Duration::from_millis(25);
    // 1,024 IDs take four ticks of 10 ms, of which three begin by then.
    let refused = slow.mint(&story.watch, 1_024, deadline).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CountTooLarge, "{refused}");
    assert!(
        matches!(refused, MintError::TooMany { limit: 768, .. }),
        "{refused:?}"
    );
}
