//! Withdrawals of many claims at once.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use seqd_state::{AccessId, ClusterMs, FencingToken, LockOutcome, Outcome, Share};

use super::super::MOST_WITHDRAWALS;
use super::*;

fn tenant(id: u64) -> Tenant {
    Tenant::of_token(AccessId(id))
}

#[tokio::test(start_paused = true)]
async fn one_tenant_s_withdrawals_leave_places_for_those_of_others() {
    let story = Story::begin();
    let limits = LimitsSection {
        tenant_share: Share::of_percent(25).unwrap(),
        locks: 100,
        lock_waiters: 100,
        ..story.locks.limits.clone()
    };
    let locks = Arc::new(LockService::new(story.replica.clone(), limits));
    let story = Story { locks, ..story };
    story.acquire("a", 0).await.unwrap();
    let mut taken = Vec::new();
    while let Some(place) = story.locks.withdrawals.take(tenant(1), 1) {
        taken.push(place);
    }
    assert_eq!(taken.len() as u64, MOST_WITHDRAWALS / 4);
    let gone_client = async |id: u64, waiting: u32| {
        let locks = Arc::clone(&story.locks);
        let waits = tokio::spawn(async move {
            let asked = asked("b", 60_000);
            let right = Right::default();
            locks
                .acquire(NAME, asked, (&right, tenant(id)), soon())
                .await
        });
        story.until(waiting).await;
        waits.abort();
        let _ = waits.await;
        sleep(Duration::from_millis(100)).await;
    };
    gone_client(2, 1).await;
    assert_eq!(story.waiting().await, 0, "no place for another tenant");
    gone_client(1, 1).await;
    assert_eq!(story.waiting().await, 1, "more places than its share");
}

/// Drops a request whose claim is proposed and whose client has gone.
async fn disconnected<T>(request: impl Future<Output = T>) {
    {
        let mut request = pin!(request);
        let polled = request
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_its_owner_may_find_is_not_withdrawn() {
    let story = Story::begin();
    let held = story.acquire("a", 0).await.unwrap();
    story.release(&held).await.unwrap();
    let (right, tenant) = (Right::default(), Tenant::OPERATOR);
    let by = (&right, tenant);
    // Only the client that has gone knows this hold.
    disconnected(story.locks.acquire(NAME, asked("a", 0), by, soon())).await;
    let free = story.locks.holder(NAME, tenant, soon()).await.unwrap();
    assert!(free.is_none());
    let (one, two) = (format!("{NAME} 1"), format!("{NAME} 2"));
    disconnected(story.locks.acquire_secret(&one, ("v", 10_000), by, soon())).await;
    disconnected(
        story
            .locks
            .acquire_for(&two, ("v", 10_000), None, by, soon()),
    )
    .await;
    for name in [one, two] {
        let holder = story.locks.holder(&name, tenant, soon()).await.unwrap();
        assert!(
            holder.is_some(),
            "{name}: a hold, which its owner counts on, was withdrawn"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_its_owner_may_find_is_not_denied_if_it_cannot_be_confirmed() {
    let story = Story::begin();
    let held = story.acquire("a", 0).await.unwrap();
    let (right, tenant) = (Right::default(), Tenant::OPERATOR);
    story.release(&held).await.unwrap();
    // The claim is granted, but this node has not applied the entry and cannot read.
    let granted = LockOutcome::Held {
        token: FencingToken(2),
        until: ClusterMs(10_000),
    };
    *story.replica.outcome.lock().unwrap() = Some(Outcome::Locks(granted));
    story.replica.can_read.store(false, Ordering::Relaxed);
    let secret = ("v", 10_000);
    let claimed = story
        .locks
        .acquire_secret(NAME, secret, (&right, tenant), soon());
    assert_eq!(code(claimed.await), ErrorCode::OutcomeUnknown);
    story.replica.can_read.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let holder = story.locks.holder(NAME, tenant, soon()).await.unwrap();
    assert!(holder.is_some_and(|holder| holder.has("v")));
}
