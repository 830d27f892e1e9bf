//! Who waits for IDs of ticks to come.

use super::*;

/// A second has 25,600 IDs of this layout: seven of the twelve can be served within three.
#[tokio::test(start_paused = true)]
async fn who_wants_many_ids_of_a_slow_layout_is_served_in_turn_or_refused_at_once() {
    let story = Arc::new(Story::begin());
    let slow = story.minters.of("sonyflake").unwrap();
    let begin = Instant::now();
    slow.mint(&story.watch, 1, begin + Duration::from_secs(3))
        .await
        .unwrap();
    let (clock, began) = (Arc::clone(&story.clock), Instant::now());
    let ticking = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            clock.step(1);
        }
    });
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
    // The clock stands still.
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
