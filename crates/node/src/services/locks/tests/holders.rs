//! The lease, the time and the access of a holder.

use seqd_api::CreateAccess;
use seqd_state::{AccessId, Share, Tenant};

use super::*;
use crate::access::{Access, TokenFile};
use crate::services::AccessService;

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_released_and_entered_again_by_its_lease_alone() {
    let story = Story::begin();
    let held = story.acquire("a", 0).await.unwrap();
    let lease = held.lease.clone().unwrap();
    let number: u128 = lease.parse().unwrap();
    let guesses = [
        held.token.to_string(),
        (number + 1).to_string(),
        (number ^ 1 << 64).to_string(),
        String::new(),
        "x".to_owned(),
    ];
    for guess in guesses {
        let wrong = HeldLock {
            lease: Some(guess.clone()),
            ..held.clone()
        };
        let released = story.release(&wrong).await;
        assert_eq!(
            code(released),
            ErrorCode::LeaseLost,
            "a hold was taken over: {guess}"
        );
        let renew = RenewLockRequest {
            lease: Some(guess.clone()),
            ttl_ms: None,
        };
        let renewed = story.locks.renew(NAME, renew, soon()).await;
        assert_eq!(
            code(renewed),
            ErrorCode::LeaseLost,
            "a hold was taken over: {guess}"
        );
        let enter = AcquireRequest {
            lease: Some(guess.clone()),
            ..asked("a", 0)
        };
        let entered = story.ask(NAME, enter).await;
        assert_eq!(
            code(entered),
            ErrorCode::LeaseLost,
            "a hold was taken over: {guess}"
        );
    }
    let elsewhere = ReleaseLockRequest { lease: Some(lease) };
    let released = story.locks.release("other", elsewhere, soon()).await;
    assert_eq!(
        code(released),
        ErrorCode::LeaseLost,
        "the lease of another lock"
    );
    assert_eq!(code(story.acquire("a", 0).await), ErrorCode::LockHeld);
    story.release(&held).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_lasts_for_as_long_as_each_response_promises() {
    let story = Story::begin();
    let first = story.acquire("a", 0).await.unwrap();
    assert_eq!(first.expires_in_ms, 10_000);
    let waits = story.wait("b").await;
    // The time of the applied entries does not advance while nothing is proposed.
    sleep(Duration::from_millis(900)).await;
    let asked = Instant::now();
    let seen = story.verify(&first).await.unwrap();
    let end = asked + Duration::from_millis(seen.expires_in_ms);
    let lock = story.locks.get(NAME, &LockQuery::default(), soon()).await;
    let left_ms = lock.unwrap().holders[0].expires_in_ms;
    let held_until = {
        story.release(&first).await.unwrap();
        let held = waits.await.unwrap().unwrap();
        Instant::now() + Duration::from_millis(held.expires_in_ms)
    };
    let began = asked - Duration::from_millis(900);
    assert!(
        end <= began + Duration::from_millis(10_003),
        "more was promised than is left: {seen:?}"
    );
    assert!(left_ms <= seen.expires_in_ms);
    assert!(held_until <= Instant::now() + Duration::from_millis(10_000));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_token_was_revoked_is_not_granted_the_lock() {
    let story = Story::begin();
    let operator = Some(TokenFile::of_token(
        "operator-0123456789abcdef0123456789abcdef",
    ));
    let clock = story.replica.clock.clone();
    let access = Access::new(
        operator,
        story.replica.clone(),
        clock.clone(),
        Duration::MAX,
    );
    access.look().await;
    let tokens = AccessService {
        replica: story.replica.clone(),
        clock,
    };
    let scope = CreateAccess {
        scopes: Some(vec!["allocate".parse().unwrap()]),
        ..CreateAccess::default()
    };
    let created = tokens.create(scope, soon()).await.unwrap();
    let caller = access.admit(Some(created.token.as_bytes())).unwrap();
    let right = Right::new(&access, caller);

    let first = story.acquire("a", 0).await.unwrap();
    let locks = Arc::clone(&story.locks);
    let waits = tokio::spawn(async move {
        locks
            .acquire(NAME, asked("b", 60_000), (&right, Tenant::OPERATOR), soon())
            .await
    });
    story.until(1).await;
    tokens.revoke(&created.listed.id, soon()).await.unwrap();
    story.release(&first).await.unwrap();
    let granted = waits.await.unwrap();
    assert!(
        granted.is_err(),
        "a revoked token was granted a lock: {granted:?}"
    );
    assert_eq!(code(granted), ErrorCode::Unauthorized);
    assert_eq!(
        story.acquire("c", 0).await.unwrap().owner,
        "c",
        "the claim was withdrawn"
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_hold_is_not_verified_although_no_entry_has_ended_it() {
    let story = Story::begin();
    let first = story.acquire("a", 0).await.unwrap();
    sleep(Duration::from_millis(first.expires_in_ms + 1)).await;
    assert_eq!(code(story.verify(&first).await), ErrorCode::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn one_tenant_leaves_places_for_the_waits_of_others() {
    let story = Story::with_share(Share::of_percent(25).unwrap());
    let [one, other] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
    let taken = (0..2_000).map_while(|_| story.locks.place_of(1, one).ok());
    let held: Vec<_> = taken.collect();
    assert_eq!(
        held.len(),
        1_024,
        "a tenant waits in more requests than its share"
    );
    assert!(
        story.locks.place_of(0, one).is_ok(),
        "a claim without a wait"
    );
    assert!(story.locks.place_of(1, other).is_ok());
    drop(held);
    assert!(story.locks.place_of(1, one).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_refusal_of_a_share_counts_all_holds_and_waits() {
    let story = Story::with_share(Share::of_percent(50).unwrap());
    let one = Tenant::of_token(AccessId(1));
    let acquire = |name: &'static str, owner, wait_ms| {
        let (locks, asked) = (Arc::clone(&story.locks), asked(owner, wait_ms));
        async move {
            let right = Right::default();
            locks.acquire(name, asked, (&right, one), soon()).await
        }
    };
    acquire(NAME, "a", 0).await.unwrap();
    let waiting = tokio::spawn(acquire(NAME, "b", 60_000));
    story.until(1).await;
    let other = story.wait("c").await;
    let refused = acquire("other", "a", 0).await.unwrap_err();
    let words = "holds 2 of the 3 holds and waits of locks";
    assert!(refused.to_string().contains(words), "{refused}");
    waiting.abort();
    other.abort();
}
