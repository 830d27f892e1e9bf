//! Withdrawals of many claims at once.

use seqd_state::{AccessId, Share};

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
