//! The scripts of held locks in `clients/vectors.json`: how long a holder may count on its hold.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_api::{
    AcquireRequest, ErrorCode, HeldLock, Problem, ReleaseLockRequest, RenewLockRequest,
};
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use super::asks::Asks;
use super::tests::clock;
use super::{LockGuard, LockLost, LockOptions};
use crate::boot_clock::BootTime;
use crate::error::{Attempt, Error};

/// The outcome of one request after this many milliseconds.
#[derive(Clone, Copy)]
enum Response {
    Held { after_ms: u64, expires_in_ms: u64 },
    Problem { after_ms: u64, code: ErrorCode },
    None { after_ms: u64 },
}

/// A cluster that answers by a script. Once it is used up, no response arrives.
#[derive(Clone)]
struct Scripted {
    began: BootTime,
    responses: Arc<Mutex<VecDeque<Response>>>,
    steps: Arc<Mutex<Vec<Value>>>,
}

impl Scripted {
    fn now_ms(&self) -> u64 {
        clock().since(self.began).as_millis() as u64
    }

    fn note(&self, step: Value) {
        self.steps.lock().unwrap().push(step);
    }

    async fn respond(&self, does: &str) -> Result<HeldLock, Error> {
        let sent_ms = self.now_ms();
        let next = self.responses.lock().unwrap().pop_front();
        match next.unwrap_or(Response::None { after_ms: 0 }) {
            Response::Held {
                after_ms,
                expires_in_ms,
            } => {
                sleep(Duration::from_millis(after_ms)).await;
                self.note(json!({
                    "do": does,
                    "sent_ms": sent_ms,
                    "at_ms": self.now_ms(),
                    "expires_in_ms": expires_in_ms,
                }));
                Ok(HeldLock {
                    name: "report".to_owned(),
                    owner: "me".to_owned(),
                    token: 1,
                    lease: Some("lease".to_owned()),
                    expires_in_ms,
                })
            }
            Response::Problem { after_ms, code } => {
                sleep(Duration::from_millis(after_ms)).await;
                let at_ms = self.now_ms();
                let step = json!({ "do": "refused", "at_ms": at_ms, "code": code.as_str() });
                self.note(step);
                Err(Error::Problem(Box::new(Problem::new(code, "in a test"))))
            }
            Response::None { after_ms } => {
                sleep(Duration::from_millis(after_ms)).await;
                Err(Error::Unreachable(vec![Attempt::new("a:1", "gone")]))
            }
        }
    }
}

impl Asks for Scripted {
    async fn acquire(&self, _: &str, _: &AcquireRequest) -> Result<HeldLock, Error> {
        self.respond("granted").await
    }

    async fn renew(&self, _: &str, _: &RenewLockRequest, _: Duration) -> Result<HeldLock, Error> {
        self.respond("renewed").await
    }

    async fn release(&self, _: &str, _: &ReleaseLockRequest) -> Result<(), Error> {
        Ok(())
    }
}

/// One script: the guard is checked at these times. With `true`, the process is stopped until then.
async fn script(name: &str, ttl_ms: u64, responses: &[Response], checks: &[(u64, bool)]) -> Value {
    let cluster = Scripted {
        began: clock(),
        responses: Arc::new(Mutex::new(responses.iter().copied().collect())),
        steps: Arc::default(),
    };
    let options = LockOptions {
        ttl: Duration::from_millis(ttl_ms),
        ..LockOptions::of_owner("me")
    };
    let guard = LockGuard::with(cluster.clone(), "report", options, clock).await;
    let guard = guard.unwrap();
    for (at_ms, frozen) in checks {
        let left = Duration::from_millis(at_ms - cluster.now_ms());
        if *frozen {
            // The task that renews does not run in the meantime.
            advance_alone(left).await;
        } else {
            sleep(left).await;
        }
        check(&guard, &cluster);
    }
    let steps = cluster.steps.lock().unwrap().clone();
    json!({ "name": name, "ttl_ms": ttl_ms, "steps": steps })
}

/// Moves the clock before any other task runs.
async fn advance_alone(by: Duration) {
    let mut advanced = std::pin::pin!(advance(by));
    // The first poll moves the clock. Later polls let other tasks run.
    std::future::poll_fn(|context| {
        let _ = advanced.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
}

fn check(guard: &LockGuard, cluster: &Scripted) {
    let at_ms = cluster.now_ms();
    let step = match guard.check() {
        Ok(until) => {
            let until_ms = until.since(cluster.began).as_millis() as u64;
            json!({ "do": "check", "at_ms": at_ms, "until_ms": until_ms })
        }
        Err(LockLost::RanOut { .. }) => {
            json!({ "do": "check", "at_ms": at_ms, "lost": "ran-out" })
        }
        Err(LockLost::TakenAway(_)) => {
            json!({ "do": "check", "at_ms": at_ms, "lost": "taken-away" })
        }
        Err(other) => panic!("{other}"),
    };
    cluster.note(step);
}

pub(crate) async fn scripts() -> Vec<Value> {
    let held = |after_ms, expires_in_ms| Response::Held {
        after_ms,
        expires_in_ms,
    };
    let gone = |after_ms| Response::None { after_ms };
    let refused = |after_ms, code| Response::Problem { after_ms, code };
    vec![
        script(
            "a hold is counted from before its request was sent",
            30_000,
            &[held(2000, 29_000), held(500, 30_000)],
            &[
                (2000, false),
                (9000, false),
                (20_000, false),
                (39_400, false),
            ],
        )
        .await,
        script(
            "a hold that is not renewed ends",
            3000,
            &[held(0, 3000)],
            &[(2996, false), (2997, false), (3500, false)],
        )
        .await,
        script(
            "a hold that lasts at most its ttl",
            3000,
            &[held(0, 3000), held(10, 3000), held(0, 9999)],
            &[(1500, false), (2500, false)],
        )
        .await,
        script(
            "a cluster that has no such hold",
            3000,
            &[held(0, 3000), refused(10, ErrorCode::LeaseLost)],
            &[(900, false), (1200, false)],
        )
        .await,
        script(
            "a failed renewal is repeated",
            3000,
            &[
                held(0, 3000),
                refused(10, ErrorCode::NoQuorum),
                gone(100),
                held(5, 3000),
            ],
            &[(1100, false), (2000, false), (4000, false), (5000, false)],
        )
        .await,
        script(
            "a process that is stopped past the end",
            3000,
            &[held(0, 3000)],
            &[(500, false), (60_000, true)],
        )
        .await,
    ]
}
