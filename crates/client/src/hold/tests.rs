//! A lock holder against an in-memory cluster, on paused time. The reported end of the hold is
//! never later than the end in the cluster.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use seqd_api::{
    AcquireRequest, ErrorCode, HeldLock, Problem, ReleaseLockRequest, RenewLockRequest,
};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::error::Attempt;

const TTL: Duration = Duration::from_secs(30);

/// The boot clock on paused time.
pub(super) fn clock() -> BootTime {
    static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();
    let now = Instant::now().into_std();
    // Other tests may have started slightly earlier.
    let began = BEGAN.get_or_init(|| now - Duration::from_secs(1));
    BootTime::from_millis(0).after(now - *began)
}

/// The behavior of the cluster for the next requests. After the last one, it grants and renews.
#[derive(Clone, Debug)]
enum Does {
    /// Responds after this delay. The request takes effect immediately or, with `done_late`, when
    /// the response is sent.
    Grants {
        after: Duration,
        done_late: bool,
    },
    /// Performs the request and loses the response.
    Loses,
    IsGone,
    SaysHeld,
    SaysLost,
    Refuses,
}

const AT_ONCE: Does = Does::Grants {
    after: Duration::ZERO,
    done_late: false,
};

#[derive(Default, Debug)]
struct Cluster {
    does: VecDeque<Does>,
    /// The behavior once `does` is empty.
    then: Option<Does>,
    token: u64,
    /// The end and the nonce of the current hold.
    held: Option<(BootTime, String)>,
    acquisitions: u32,
    renewals: u32,
    releases: u32,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Cluster>>);

impl Fake {
    fn that(does: impl IntoIterator<Item = Does>) -> Self {
        let fake = Self::default();
        fake.0.lock().unwrap().does = does.into_iter().collect();
        fake
    }

    fn then(&self, does: Does) {
        self.0.lock().unwrap().then = Some(does);
    }

    fn next(&self) -> Does {
        let mut cluster = self.0.lock().unwrap();
        let next = cluster.does.pop_front();
        next.or_else(|| cluster.then.clone()).unwrap_or(AT_ONCE)
    }

    fn held(&self) -> Option<(BootTime, String)> {
        self.0.lock().unwrap().held.clone()
    }

    fn grant(&self, ttl_ms: u64, nonce: Option<&str>) {
        let mut cluster = self.0.lock().unwrap();
        let until = clock().after(Duration::from_millis(ttl_ms));
        let nonce = match (nonce, cluster.held.take()) {
            (Some(nonce), Some((until, of))) if nonce == of && until > clock() => {
                cluster.held = Some((until, of));
                return;
            }
            (Some(nonce), _) => {
                cluster.token += 1;
                nonce.to_owned()
            }
            (None, held) => held.map_or(String::new(), |(_, nonce)| nonce),
        };
        cluster.held = Some((until, nonce));
    }

    fn answer(&self) -> HeldLock {
        let cluster = self.0.lock().unwrap();
        let (until, _) = cluster.held.clone().unwrap();
        HeldLock {
            name: "report".to_owned(),
            owner: "me".to_owned(),
            token: cluster.token,
            lease: Some(format!("lease-{}", cluster.token)),
            expires_in_ms: until.since(clock()).as_millis() as u64,
        }
    }

    async fn ask(&self, ttl_ms: u64, nonce: Option<&str>) -> Result<HeldLock, Error> {
        let gone = || Attempt::new("a:1", "gone");
        match self.next() {
            Does::Grants { after, done_late } => {
                if !done_late {
                    self.grant(ttl_ms, nonce);
                }
                sleep(after).await;
                if done_late {
                    self.grant(ttl_ms, nonce);
                }
                Ok(self.answer())
            }
            Does::Loses => {
                self.grant(ttl_ms, nonce);
                Err(Error::OutcomeUnknown(gone()))
            }
            Does::IsGone => Err(Error::Unreachable(vec![gone()])),
            Does::SaysHeld => Err(problem(ErrorCode::LockHeld)),
            Does::SaysLost => Err(problem(ErrorCode::LeaseLost)),
            Does::Refuses => Err(problem(ErrorCode::Forbidden)),
        }
    }
}

fn problem(code: ErrorCode) -> Error {
    Error::Problem(Box::new(Problem::new(code, "in a test")))
}

impl Asks for Fake {
    async fn acquire(&self, _: &str, request: &AcquireRequest) -> Result<HeldLock, Error> {
        self.0.lock().unwrap().acquisitions += 1;
        self.ask(request.ttl_ms.unwrap(), request.nonce.as_deref())
            .await
    }

    async fn renew(
        &self,
        _: &str,
        request: &RenewLockRequest,
        limit: Duration,
    ) -> Result<HeldLock, Error> {
        self.0.lock().unwrap().renewals += 1;
        let asked = self.ask(request.ttl_ms.unwrap(), None);
        let no_answer = || Error::NoAnswer(vec![Attempt::new("a:1", "slow")]);
        timeout(limit, asked)
            .await
            .unwrap_or_else(|_| Err(no_answer()))
    }

    async fn release(&self, _: &str, _: &ReleaseLockRequest) -> Result<(), Error> {
        let mut cluster = self.0.lock().unwrap();
        cluster.releases += 1;
        cluster.held = None;
        Ok(())
    }
}

async fn taken(fake: &Fake, options: LockOptions) -> Result<LockGuard, LockError> {
    LockGuard::with(fake.clone(), "report", options, clock).await
}

fn options() -> LockOptions {
    LockOptions {
        ttl: TTL,
        ..LockOptions::of_owner("me")
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_after_a_third_and_never_overstates_its_remaining_time() {
    let fake = Fake::default();
    let guard = taken(&fake, options()).await.unwrap();
    assert_eq!(guard.token(), 1);
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        let (until, _) = fake.held().unwrap();
        assert!(guard.check().unwrap() <= until);
    }
    let renewals = fake.0.lock().unwrap().renewals;
    assert!((9..=11).contains(&renewals), "{renewals}");
    guard.release().await.unwrap();
    assert_eq!(fake.held(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_holder_detects_the_loss_before_the_cluster_grants_the_lock_again() {
    let fake = Fake::default();
    let guard = taken(&fake, options()).await.unwrap();
    fake.then(Does::IsGone);
    let lost = guard.lost().await;
    let (until, _) = fake.held().unwrap();
    assert!(matches!(lost, LockLost::RanOut { why: Some(_) }), "{lost}");
    assert!(clock() <= until, "held by its own account when it was over");
    assert!(until.since(clock()) < TTL / 10, "given up far too early");
    assert!(lost.to_string().contains("gone"), "{lost}");
    fake.0.lock().unwrap().then = None;
    assert!(!guard.is_held(), "what is lost stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_takes_too_long_does_not_outlast_the_hold() {
    let fake = Fake::default();
    let guard = taken(&fake, options()).await.unwrap();
    fake.then(Does::Grants {
        after: Duration::from_secs(3600),
        done_late: true,
    });
    let lost = guard.lost().await;
    assert!(matches!(lost, LockLost::RanOut { .. }), "{lost}");
    assert!(clock() <= fake.held().unwrap().0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_unknown_to_the_cluster_is_lost_immediately() {
    let fake = Fake::that([AT_ONCE, Does::SaysLost]);
    let guard = taken(&fake, options()).await.unwrap();
    let began = Instant::now();
    let lost = guard.lost().await;
    assert!(matches!(lost, LockLost::TakenAway(_)), "{lost}");
    assert!(
        began.elapsed() <= TTL / 3 + Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_without_a_response_is_retried_with_the_same_nonce() {
    let fake = Fake::that([Does::Loses, Does::Loses, AT_ONCE]);
    let guard = taken(&fake, options()).await.unwrap();
    assert_eq!((guard.token(), fake.0.lock().unwrap().acquisitions), (1, 3));
    assert!(guard.check().unwrap() <= fake.held().unwrap().0);
}

/// The hold began during the wait, and most of it had passed when the response arrived.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_waited_for_is_confirmed_before_it_is_had() {
    let late = |done_late| Does::Grants {
        after: Duration::from_secs(25),
        done_late,
    };
    for done_late in [false, true] {
        let fake = Fake::that([late(done_late)]);
        let guard = taken(&fake, options()).await.unwrap();
        assert_eq!(fake.0.lock().unwrap().renewals, 1);
        let left = guard.check().unwrap().since(clock());
        assert!(left > TTL * 9 / 10, "{left:?}");
        assert!(guard.check().unwrap() <= fake.held().unwrap().0);
    }
    // The hold expired before the response arrived, so there is a second acquisition with a new
    // nonce.
    let fake = Fake::that([late(false), Does::SaysLost, AT_ONCE]);
    let guard = taken(&fake, options()).await.unwrap();
    assert_eq!((guard.token(), fake.0.lock().unwrap().acquisitions), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_holder_named_and_a_wait_without_an_end_continues() {
    let fake = Fake::default();
    fake.then(Does::SaysHeld);
    let wait = Some(Duration::ZERO);
    let refused = taken(&fake, LockOptions { wait, ..options() }).await;
    assert!(matches!(refused, Err(LockError::Held(_))), "{refused:?}");
    let fake = Fake::that([Does::SaysHeld, Does::IsGone, Does::SaysHeld, AT_ONCE]);
    assert!(taken(&fake, options()).await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_is_dropped_when_the_lock_is_lost() {
    let fake = Fake::that([AT_ONCE, Does::SaysLost]);
    let guard = taken(&fake, options()).await.unwrap();
    let done = guard.run(async { 7 }).await;
    assert_eq!(done.unwrap(), 7);
    let never = guard.run(std::future::pending::<()>()).await;
    assert!(matches!(never, Err(LockLost::TakenAway(_))), "{never:?}");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_gives_the_lock_back() {
    let fake = Fake::default();
    drop(taken(&fake, options()).await.unwrap());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.held(), None);
    assert_eq!(fake.0.lock().unwrap().releases, 1);
}

/// In a real child, the task that would release the lock does not run.
#[tokio::test(start_paused = true)]
async fn a_forked_child_leaves_the_lock_of_its_parent_alone() {
    let forked = async |fake: &Fake| {
        let mut guard = taken(fake, options()).await.unwrap();
        guard.process += 1;
        assert!(matches!(guard.check(), Err(LockLost::Forked)));
        guard
    };
    let released = Fake::default();
    forked(&released).await.release().await.unwrap();
    let dropped = Fake::default();
    drop(forked(&dropped).await);
    sleep(Duration::from_secs(60)).await;
    for fake in [released, dropped] {
        assert_eq!(fake.0.lock().unwrap().releases, 0);
        assert!(fake.held().is_some_and(|(until, _)| until > clock()));
    }
}

/// Otherwise other waiters would wait for its whole duration.
#[tokio::test(start_paused = true)]
async fn a_hold_is_released_if_its_caller_gives_up_during_the_confirmation() {
    let late = Does::Grants {
        after: Duration::from_secs(25),
        done_late: true,
    };
    // The caller leaves before the confirming renewal completes, or the renewal is permanently
    // refused.
    let fake = Fake::that([late.clone(), late.clone()]);
    let left = timeout(Duration::from_secs(27), taken(&fake, options())).await;
    assert!(left.is_err() && fake.0.lock().unwrap().renewals == 1);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.held(), None);
    assert_eq!(fake.0.lock().unwrap().releases, 1);

    let fake = Fake::that([late, Does::Refuses]);
    let refused = taken(&fake, options()).await;
    assert!(matches!(refused, Err(LockError::Request(_))), "{refused:?}");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.held(), None);
}

#[tokio::test(start_paused = true)]
async fn invalid_options_are_refused_before_a_request_is_sent() {
    for ttl in [
        Duration::from_millis(99),
        Duration::from_secs(24 * 3600 + 1),
    ] {
        let fake = Fake::default();
        let refused = taken(&fake, LockOptions { ttl, ..options() }).await;
        assert!(matches!(refused, Err(LockError::Options(_))), "{refused:?}");
        assert_eq!(fake.0.lock().unwrap().acquisitions, 0);
    }
}
