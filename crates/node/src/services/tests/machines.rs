//! Machine numbers: how long an instance holds one, and which number another instance gets.

use seqd_state::MAX_LOCK_TTL_MS;
use tokio::time::sleep;

use super::*;
use crate::access::Right;

const MINUTE_MS: u64 = 60_000;
const STALE_MS: u64 = 5 * MINUTE_MS;

struct Numbers {
    locks: LockService,
    pool: MachinePool,
}

impl Numbers {
    fn begin() -> Numbers {
        let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
        let limits = LimitsSection { locks: 9, ..LIMITS };
        Numbers {
            locks: LockService::new(replica, limits),
            pool: MachinePool::new("shop").unwrap(),
        }
    }

    /// The number of an instance, of four numbers.
    async fn take(&self, instance: &str, stale_ms: u64) -> Option<u32> {
        let (right, asked) = (Right::default(), (instance, 2, stale_ms));
        let by = (&right, Tenant::OPERATOR);
        let taken = self.locks.take_machine(&self.pool, asked, by, soon());
        taken.await.unwrap()
    }

    async fn guard(&self, instance: &str) -> Option<bool> {
        let by = (Tenant::OPERATOR, soon());
        let guarded = self.locks.guard_machine(&self.pool, instance, by);
        guarded.await.unwrap()
    }

    async fn revert(&self, instance: &str) {
        let by = (Tenant::OPERATOR, soon());
        let reverted = self.locks.revert_machine(&self.pool, instance, by);
        assert!(reverted.await.unwrap());
    }
}

async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

/// CosId's client continues to use a number whose guard fails.
#[tokio::test(start_paused = true)]
async fn an_instance_without_contact_keeps_its_number_while_another_is_free() {
    let numbers = Numbers::begin();
    assert_eq!(numbers.take("a", STALE_MS).await, Some(0));
    pass(STALE_MS + 1).await;
    assert_eq!(numbers.take("b", STALE_MS).await, Some(1));
    assert_eq!(numbers.guard("a").await, Some(true));
    assert_eq!(numbers.take("a", STALE_MS).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn the_number_without_a_guard_for_the_longest_time_is_taken_if_none_is_free() {
    let numbers = Numbers::begin();
    for (number, instance) in (0..).zip(["a", "b", "c", "d"]) {
        assert_eq!(numbers.take(instance, STALE_MS).await, Some(number));
        pass(MINUTE_MS).await;
    }
    assert_eq!(numbers.guard("a").await, Some(true));
    let taken = numbers.take("e", STALE_MS).await;
    assert_eq!(taken, None, "a number with a recent guard was taken over");
    pass(2 * MINUTE_MS).await;
    assert_eq!(numbers.take("e", MAX_LOCK_TTL_MS).await, None, "stable");
    assert_eq!(numbers.take("e", STALE_MS).await, Some(1));
    assert_eq!(numbers.guard("b").await, None);
    assert_eq!(numbers.guard("e").await, Some(true));
    for instance in ["a", "c", "d"] {
        assert_eq!(numbers.guard(instance).await, Some(true), "{instance}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_number_is_the_last_that_is_assigned_again() {
    let numbers = Numbers::begin();
    for (number, instance) in (0..).zip(["a", "b"]) {
        assert_eq!(numbers.take(instance, STALE_MS).await, Some(number));
    }
    numbers.revert("a").await;
    for (number, instance) in [(2, "c"), (3, "d"), (0, "e")] {
        assert_eq!(numbers.take(instance, STALE_MS).await, Some(number));
    }
}

/// Such a hold reserves a number, and its end does not show a guard.
#[tokio::test(start_paused = true)]
async fn a_number_that_is_reserved_by_a_lock_is_not_taken() {
    let numbers = Numbers::begin();
    let right = Right::default();
    for number in 0..4 {
        let lock = format!("cosid/shop/{number:08}");
        let by = (&right, Tenant::OPERATOR);
        let reserved = ("operator", MAX_LOCK_TTL_MS / 2);
        let held = numbers.locks.acquire_for(&lock, reserved, None, by, soon());
        held.await.unwrap();
    }
    assert_eq!(numbers.take("a", STALE_MS).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_more_locks_than_a_request_may_read_is_refused() {
    let mut numbers = Numbers::begin();
    numbers.pool.most = 2;
    for (number, instance) in (0..).zip(["a", "b", "c"]) {
        assert_eq!(numbers.take(instance, STALE_MS).await, Some(number));
    }
    let by = (Tenant::OPERATOR, soon());
    let guarded = numbers.locks.guard_machine(&numbers.pool, "a", by).await;
    assert!(
        matches!(guarded, Err(ServiceError::Overloaded { .. })),
        "{guarded:?}"
    );
    numbers.pool.most = 3;
    assert_eq!(numbers.guard("a").await, Some(true));
}
