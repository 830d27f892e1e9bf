//! Locks that their holder enters again.

use futures_util::FutureExt as _;
use futures_util::future::join;
use seqd_state::{AccessId, LockCommand, MAX_ATTEMPTS};

use super::super::acquire::Unanswered;
use super::*;
use crate::services::locks::secret;
use crate::services::{Entry, Exit, Unlock, lock_name};

const RECORD: Option<(&str, u64)> = Some(("unlock 17", 10_000));

async fn enter(story: &Story, value: &str, ttl_ms: u64) -> Result<Entry, ServiceError> {
    let by = (&Right::default(), Tenant::OPERATOR);
    story.locks.enter(NAME, (value, ttl_ms), by, soon()).await
}

async fn exit(story: &Story, value: &str, record: Option<(&str, u64)>) -> Exit {
    try_exit(story, value, record).await.unwrap()
}

async fn try_exit(
    story: &Story,
    value: &str,
    record: Option<(&str, u64)>,
) -> Result<Exit, ServiceError> {
    let unlock = Unlock {
        value,
        ttl_ms: 10_000,
        record,
    };
    let by = (&Right::default(), Tenant::OPERATOR);
    story.locks.exit(NAME, &unlock, by, soon()).await
}

/// The number of times that the holder has entered the lock, and the remaining time.
async fn inside(story: &Story, tenant: Tenant) -> Option<(usize, u64)> {
    let holder = story.locks.holder(NAME, tenant, soon()).await.unwrap();
    holder.map(|holder| (holder.depth, holder.left_ms))
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_free_after_as_many_exits_as_entries() {
    let story = Story::begin();
    assert_eq!(enter(&story, "a", 10_000).await.unwrap(), Entry::Entered);
    assert_eq!(enter(&story, "a", 30_000).await.unwrap(), Entry::Entered);
    let (depth, left_ms) = inside(&story, Tenant::OPERATOR).await.unwrap();
    assert_eq!(depth, 2);
    assert!((29_000..=30_000).contains(&left_ms), "{left_ms}");
    let other = enter(&story, "b", 10_000).await.unwrap();
    assert!(matches!(other, Entry::Held { left_ms } if left_ms > 20_000));
    assert_eq!(exit(&story, "b", None).await, Exit::NotHeld);
    assert_eq!(exit(&story, "a", None).await, Exit::Inside);
    assert_eq!(exit(&story, "a", None).await, Exit::Free);
    assert_eq!(inside(&story, Tenant::OPERATOR).await, None);
    assert_eq!(exit(&story, "a", None).await, Exit::NotHeld);
    assert_eq!(enter(&story, "b", 10_000).await.unwrap(), Entry::Entered);
}

/// The entry repeats the claim of the hold, whose lifetime is the old one.
#[tokio::test(start_paused = true)]
async fn an_entry_after_the_end_of_its_hold_lasts_as_long_as_requested() {
    let story = Story::begin();
    enter(&story, "a", 1_000).await.unwrap();
    let broken = async {
        // The extension has been applied, and the entry has been proposed.
        sleep(Duration::from_millis(1)).await;
        let name = lock_name(NAME).unwrap();
        let broken = LockCommand::Break { name, token: None };
        story.replica.apply(vec![broken.into()]);
    };
    let (entered, ()) = join(enter(&story, "a", 60_000), broken).await;
    assert_eq!(entered.unwrap(), Entry::Entered);
    let (depth, left_ms) = inside(&story, Tenant::OPERATOR).await.unwrap();
    assert_eq!(depth, 1, "the former hold was not broken");
    assert!((59_000..=60_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_exit_ends_one_entry() {
    let story = Story::begin();
    for _ in 0..2 {
        enter(&story, "a", 10_000).await.unwrap();
    }
    for _ in 0..3 {
        let exited = exit(&story, "a", RECORD).await;
        let depth = inside(&story, Tenant::OPERATOR).await.map(|it| it.0);
        let left = (exited, depth);
        assert_eq!(
            left,
            (Exit::Inside, Some(1)),
            "a repeated exit ends another entry"
        );
    }
    let last = Some(("unlock 18", 10_000));
    for _ in 0..3 {
        assert_eq!(exit(&story, "a", last).await, Exit::Free);
        assert_eq!(inside(&story, Tenant::OPERATOR).await, None);
    }
    // The holder enters again before the last retry arrives.
    enter(&story, "a", 10_000).await.unwrap();
    assert_eq!(exit(&story, "a", last).await, Exit::Free);
    let depth = inside(&story, Tenant::OPERATOR).await.map(|it| it.0);
    assert_eq!(depth, Some(1), "a repeated exit ends a later entry");
}

#[tokio::test(start_paused = true)]
async fn the_last_exit_needs_no_room_for_its_record() {
    let story = Story::begin();
    let by = (&Right::default(), Tenant::OPERATOR);
    enter(&story, "a", 10_000).await.unwrap();
    enter(&story, "a", 10_000).await.unwrap();
    assert_eq!(exit(&story, "a", RECORD).await, Exit::Inside);
    // All three locks are in use: the lock, the record and another.
    let held = story.locks.acquire_secret("c", ("b", 10_000), by, soon());
    held.await.unwrap().unwrap();
    assert_eq!(
        exit(&story, "a", RECORD).await,
        Exit::Inside,
        "the earlier record is ignored"
    );
    let last = Some(("unlock 18", 10_000));
    assert_eq!(exit(&story, "a", last).await, Exit::Free);
    assert_eq!(inside(&story, Tenant::OPERATOR).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_inner_exit_without_room_for_its_record_has_no_effect() {
    let story = Story::begin();
    let by = (&Right::default(), Tenant::OPERATOR);
    for _ in 0..2 {
        enter(&story, "a", 10_000).await.unwrap();
    }
    for name in ["c", "d"] {
        let held = story.locks.acquire_secret(name, ("b", 10_000), by, soon());
        held.await.unwrap().unwrap();
    }
    for _ in 0..2 {
        let refused = try_exit(&story, "a", RECORD).await;
        assert_eq!(code(refused), ErrorCode::Overloaded);
        let depth = inside(&story, Tenant::OPERATOR).await.map(|it| it.0);
        assert_eq!(depth, Some(2), "a retry could end another entry");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_enters_a_lock_so_often_and_is_refused_then() {
    let story = Story::begin();
    for _ in 0..MAX_ATTEMPTS {
        enter(&story, "a", 10_000).await.unwrap();
    }
    let refused = enter(&story, "a", 10_000).await;
    assert_eq!(code(refused), ErrorCode::InvalidArgument);
    for left in (0..MAX_ATTEMPTS).rev() {
        let expected = if left == 0 { Exit::Free } else { Exit::Inside };
        assert_eq!(exit(&story, "a", None).await, expected, "{left}");
    }
}

/// Two concurrent entries must not exceed the limit, because no exit could end the last one.
#[tokio::test(start_paused = true)]
async fn entries_under_way_together_do_not_pass_the_limit() {
    let story = Story::begin();
    for _ in 1..MAX_ATTEMPTS {
        enter(&story, "a", 10_000).await.unwrap();
    }
    let asked = async || {
        let holder = story.locks.holder(NAME, Tenant::OPERATOR, soon()).await;
        let nonce = holder.unwrap().unwrap().nonce;
        let asked = secret::asked(lock_name(NAME).unwrap(), ("a", 10_000), Tenant::OPERATOR);
        seqd_state::AcquireLock {
            nonce,
            ..asked.unwrap()
        }
    };
    let (one, two) = (asked().await, asked().await);
    let claim = async |asked| {
        let right = Right::default();
        let claimed = (story.locks).claim((asked, None), Unanswered::Withdrawn, &right, soon());
        claimed.await
    };
    claim(one).await.unwrap();
    claim(two).await.unwrap_err();
    for left in (0..MAX_ATTEMPTS).rev() {
        let expected = if left == 0 { Exit::Free } else { Exit::Inside };
        assert_eq!(exit(&story, "a", None).await, expected, "{left}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_is_no_proof_for_another_token() {
    let story = Story::begin();
    enter(&story, "a", 10_000).await.unwrap();
    let tenant = Tenant::of_token(AccessId(1));
    let by = (&Right::default(), tenant);
    let entered = story.locks.enter(NAME, ("a", 10_000), by, soon()).await;
    assert!(matches!(entered.unwrap(), Entry::Held { .. }));
    let unlock = Unlock {
        value: "a",
        ttl_ms: 10_000,
        record: RECORD,
    };
    let exited = story.locks.exit(NAME, &unlock, by, soon()).await;
    assert_eq!(exited.unwrap(), Exit::NotHeld);
    assert_eq!(inside(&story, tenant).await.map(|it| it.0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_each_time_the_lock_is_free() {
    let story = Story::begin();
    let name = lock_name(NAME).unwrap();
    let watch = story.locks.watch_holder(name, Tenant::OPERATOR, soon());
    let watch = watch.await.unwrap();
    for _ in 0..3 {
        enter(&story, "a", 10_000).await.unwrap();
        enter(&story, "a", 10_000).await.unwrap();
        exit(&story, "a", None).await;
        assert!(watch.freed().now_or_never().is_none(), "it is still held");
        exit(&story, "a", None).await;
        watch.freed().now_or_never().expect("the lock is free");
    }
}
