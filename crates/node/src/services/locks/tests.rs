//! Waits, withdrawals and limits with the real state machine, without HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_api::{
    AcquireRequest, ErrorCode, HeldLock, LockQuery, LocksQuery, ReleaseLockRequest,
    RenewLockRequest, VerifyLockRequest,
};
use seqd_state::{Nonce, Tenant, Wait};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::LockService;
use crate::access::Right;
use crate::config::keys::LimitsSection;
use crate::replica::peek;
use crate::services::ServiceError;
use crate::services::tests::LIMITS;
use crate::test_replica::{NOON, TestClock, TestReplica};

mod holders;
mod reentry;
mod secrets;
mod withdrawals;

const NAME: &str = "jobs/nightly 1";

struct Story {
    replica: Arc<TestReplica>,
    locks: Arc<LockService>,
}

impl Story {
    fn begin() -> Story {
        Self::with_share(seqd_state::Share::WHOLE)
    }

    fn with_share(tenant_share: seqd_state::Share) -> Story {
        let replica = TestReplica::founded(TestClock::at(NOON), 30_000);
        let limits = LimitsSection {
            tenant_share,
            locks: 3,
            lock_waiters: 2,
            ..LIMITS
        };
        let locks = Arc::new(LockService::new(replica.clone(), limits));
        Story { replica, locks }
    }

    async fn ask(&self, name: &str, request: AcquireRequest) -> Result<HeldLock, ServiceError> {
        let by = (&Right::default(), Tenant::OPERATOR);
        self.locks.acquire(name, request, by, soon()).await
    }

    async fn acquire(&self, owner: &str, wait_ms: u64) -> Result<HeldLock, ServiceError> {
        self.ask(NAME, asked(owner, wait_ms)).await
    }

    /// A pending request, which waits for the lock once this function returns.
    async fn wait(&self, owner: &str) -> JoinHandle<Result<HeldLock, ServiceError>> {
        let (locks, asked) = (Arc::clone(&self.locks), asked(owner, 60_000));
        let waiting = self.waiting().await;
        let wait = tokio::spawn(async move {
            locks
                .acquire(NAME, asked, (&Right::default(), Tenant::OPERATOR), soon())
                .await
        });
        self.until(waiting + 1).await;
        wait
    }

    async fn waiting(&self) -> u32 {
        let stale = LockQuery {
            stale: Some(true),
            ..LockQuery::default()
        };
        let lock = self.locks.get(NAME, &stale, soon()).await;
        lock.unwrap().waiting
    }

    async fn until(&self, waiting: u32) {
        let waited = timeout(Duration::from_secs(5), async {
            while self.waiting().await != waiting {
                sleep(Duration::from_millis(1)).await;
            }
        });
        waited.await.unwrap();
    }

    /// The nonce of a waiting owner's claim.
    fn nonce_of(&self, owner: &str) -> Nonce {
        let nonce = peek(&*self.replica, |state| {
            let mut waiters = state.lock(NAME).unwrap().waiters();
            waiters
                .find(|waiter| waiter.shown_owner() == owner)
                .unwrap()
                .nonce
        });
        nonce.unwrap()
    }

    async fn release(&self, held: &HeldLock) -> Result<(), ServiceError> {
        let request = ReleaseLockRequest {
            lease: held.lease.clone(),
        };
        self.locks.release(NAME, request, soon()).await.map(|_| ())
    }

    async fn verify(&self, held: &HeldLock) -> Result<HeldLock, ServiceError> {
        let request = VerifyLockRequest {
            owner: None,
            token: Some(held.token),
        };
        self.locks.verify(NAME, request, soon()).await
    }
}

fn asked(owner: &str, wait_ms: u64) -> AcquireRequest {
    AcquireRequest {
        owner: Some(owner.to_owned()),
        ttl_ms: Some(10_000),
        wait_ms: Some(wait_ms),
        ..AcquireRequest::default()
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3)
}

fn code<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> ErrorCode {
    result.unwrap_err().code()
}

#[tokio::test(start_paused = true)]
async fn waiters_are_answered_in_turn_and_not_earlier() {
    let story = Story::begin();
    let first = story.acquire("a", 0).await.unwrap();
    assert!((9_990..=10_000).contains(&first.expires_in_ms), "{first:?}");
    let second = story.wait("b").await;
    let third = story.wait("c").await;
    sleep(Duration::from_millis(500)).await;
    assert!(!second.is_finished() && !third.is_finished());
    story.release(&first).await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.token > first.token && !third.is_finished());
    assert_eq!(code(story.verify(&first).await), ErrorCode::LeaseLost);
    assert_eq!(story.verify(&second).await.unwrap().owner, "b");
    story.release(&second).await.unwrap();
    assert_eq!(third.await.unwrap().unwrap().owner, "c");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_neither_waits_nor_holds() {
    let story = Story::begin();
    let first = story.acquire("a", 0).await.unwrap();
    let gone = story.wait("b").await;
    let next = story.wait("c").await;
    gone.abort();
    story.until(1).await;
    story.release(&first).await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(
        next.token,
        first.token + 1,
        "nobody was granted it in between"
    );

    // A client that disconnects before its proposal is answered.
    story.release(&next).await.unwrap();
    let locks = Arc::clone(&story.locks);
    let asked = asked("d", 0);
    let gone = tokio::spawn(async move {
        locks
            .acquire(NAME, asked, (&Right::default(), Tenant::OPERATOR), soon())
            .await
    });
    tokio::task::yield_now().await;
    gone.abort();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(story.acquire("e", 0).await.unwrap().owner, "e");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_leaves_no_request_and_names_the_holder() {
    let story = Story::begin();
    story.acquire("a", 0).await.unwrap();
    let began = Instant::now();
    let error = story.acquire("b", 4_000).await.unwrap_err();
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(5));
    assert!(
        error.to_string().contains("held by a with token"),
        "{error}"
    );
    assert_eq!(code::<HeldLock>(Err(error)), ErrorCode::LockHeld);
    assert_eq!(story.waiting().await, 0);
    assert_eq!(code(story.acquire("b", 0).await), ErrorCode::LockHeld);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_runs_out_makes_way_and_is_not_renewed() {
    let story = Story::begin();
    let first = story.acquire("a", 0).await.unwrap();
    let renew = || RenewLockRequest {
        lease: first.lease.clone(),
        ttl_ms: Some(20_000),
    };
    let renewed = story.locks.renew(NAME, renew(), soon()).await.unwrap();
    assert_eq!(
        (renewed.token, renewed.expires_in_ms),
        (first.token, 20_000)
    );
    let second = story.wait("b").await;
    sleep(Duration::from_millis(20_100)).await;
    // An entry that advances the time, as the leader proposes it at a deadline.
    story.replica.apply(Vec::new());
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.expires_in_ms, 10_000);
    let late = story.locks.renew(NAME, renew(), soon()).await;
    assert_eq!(code(late), ErrorCode::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_repeated_is_the_same_one() {
    let story = Story::begin();
    let request = || AcquireRequest {
        nonce: Some("4711".to_owned()),
        ..asked("a", 0)
    };
    let first = story.ask(NAME, request()).await.unwrap();
    sleep(Duration::from_millis(4_000)).await;
    let again = story.ask(NAME, request()).await.unwrap();
    assert_eq!(first.token, again.token);
    assert!(again.expires_in_ms <= 6_000, "{again:?}");
    let other = AcquireRequest {
        owner: Some("b".to_owned()),
        ..request()
    };
    let other = story.ask(NAME, other).await;
    assert_eq!(
        code(other),
        ErrorCode::LockHeld,
        "another owner's is another"
    );
    let entered = AcquireRequest {
        lease: first.lease.clone(),
        ..asked("a", 0)
    };
    let entered = story.ask(NAME, entered).await.unwrap();
    assert_eq!(
        (entered.token, entered.expires_in_ms),
        (first.token, 10_000)
    );
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_node_are_checked_before_anything_is_proposed() {
    let story = Story::begin();
    story.acquire("a", 0).await.unwrap();
    let _waits = (story.wait("b").await, story.wait("c").await);
    let before = story.replica.proposals();
    assert_eq!(code(story.acquire("d", 1_000).await), ErrorCode::Overloaded);
    let none = story.ask("", asked("a", 0)).await;
    assert_eq!(code(none), ErrorCode::InvalidArgument);
    assert_eq!(story.replica.proposals(), before);
    for name in ["x", "y"] {
        story.ask(name, asked("a", 0)).await.unwrap();
    }
    let full = story.ask("z", asked("a", 0)).await;
    assert_eq!(code(full), ErrorCode::Overloaded);
    let query = LocksQuery {
        limit: Some(2),
        ..LocksQuery::default()
    };
    let all = [String::new()];
    let page = story.locks.list(&query, &all, soon()).await.unwrap();
    let names: Vec<_> = page.items.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, [NAME, "x"]);
    assert_eq!((page.items[0].held, page.items[0].waiting), (1, 2));
    assert!(page.next_cursor.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_ends_its_waits() {
    let story = Story::begin();
    story.acquire("a", 0).await.unwrap();
    let waits = story.wait("b").await;
    story.locks.stop();
    assert_eq!(code(waits.await.unwrap()), ErrorCode::Draining);
    assert_eq!(story.waiting().await, 0, "its claim was withdrawn before");
    assert_eq!(code(story.acquire("c", 0).await), ErrorCode::Draining);
}

/// Its claim may be granted later, so the client must not continue as if it had requested nothing.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_withdrawn_is_not_known_to_have_ended() {
    let story = Story::begin();
    story.acquire("a", 0).await.unwrap();
    let waits = story.wait("b").await;
    story.replica.set_quorum(false);
    // The waiter wakes up and cannot read the result of its claim.
    let nonce = story.nonce_of("b");
    let name = NAME.parse().unwrap();
    story.replica.turns.wake(&[Wait::Lock { name, nonce }]);
    assert_eq!(code(waits.await.unwrap()), ErrorCode::OutcomeUnknown);
    assert_eq!(story.waiting().await, 1, "the claim is still there");
    story.replica.set_quorum(true);
    story.until(0).await;

    let waits = story.wait("c").await;
    story.replica.set_quorum(false);
    let began = Instant::now();
    story.locks.stop();
    assert_eq!(code(waits.await.unwrap()), ErrorCode::OutcomeUnknown);
    assert!(began.elapsed() < Duration::from_secs(4), "bounded in time");
    story.replica.set_quorum(true);
    story.until(0).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_claim_is_withdrawn_before_its_client_receives_the_error() {
    let story = Story::begin();
    story.acquire("a", 0).await.unwrap();
    let waits = story.wait("b").await;
    story.replica.can_read.store(false, Ordering::SeqCst);
    let nonce = story.nonce_of("b");
    let name = NAME.parse().unwrap();
    story.replica.turns.wake(&[Wait::Lock { name, nonce }]);
    assert_eq!(code(waits.await.unwrap()), ErrorCode::NoQuorum);
    assert_eq!(story.waiting().await, 0, "certainly nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_no_state_yet_waits_for_it_and_has_no_quorum_else() {
    let story = Story::begin();
    let has_state = |has_state| story.replica.has_state.store(has_state, Ordering::SeqCst);
    has_state(false);
    let proposals = story.replica.proposals();
    for wait_ms in [0, 60_000] {
        assert_eq!(code(story.acquire("a", wait_ms).await), ErrorCode::NoQuorum);
    }
    let release = ReleaseLockRequest {
        lease: Some("1".to_owned()),
    };
    let released = story.locks.release(NAME, release, soon()).await;
    assert_eq!(code(released), ErrorCode::NoQuorum);
    assert_eq!(story.replica.proposals(), proposals);
    let comes = async {
        sleep(Duration::from_millis(700)).await;
        has_state(true);
    };
    let (held, ()) = tokio::join!(story.acquire("a", 60_000), comes);
    assert_eq!(held.unwrap().owner, "a");
}

#[tokio::test(start_paused = true)]
async fn a_nonce_with_other_terms_is_another_request() {
    let story = Story::begin();
    let request = |ttl_ms| AcquireRequest {
        nonce: Some("4711".to_owned()),
        ttl_ms: Some(ttl_ms),
        ..asked("a", 0)
    };
    let first = story.ask(NAME, request(10_000));
    let first = first.await.unwrap();
    let other = story.ask(NAME, request(20_000)).await;
    assert_eq!(code(other), ErrorCode::FingerprintMismatch);
    assert_eq!(story.verify(&first).await.unwrap().owner, "a");
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_no_client_receives_a_lock() {
    let story = Story::begin();
    story.replica.set_quorum(false);
    assert_eq!(code(story.acquire("a", 0).await), ErrorCode::NoQuorum);
    story.replica.set_quorum(true);
    story.acquire("b", 0).await.unwrap();
}
