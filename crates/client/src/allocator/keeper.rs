//! The task of one allocator: requests the next segment in time, and returns unused values at the
//! end.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ErrorCode, GrantRequest};
use tokio::time::{Instant, sleep, timeout_at};

use super::Closed;
use super::error::{AllocateError, Failed, may_have_effect};
use super::segments::Segments;
use super::stock::{Stock, Tail};
use crate::error::Error;
use crate::pace::Pace;

/// The pause between two attempts to return values.
const AGAIN: Duration = Duration::from_millis(300);

pub(super) struct Keeper<S> {
    segments: S,
    stock: Arc<Stock>,
    pace: Pace,
}

impl<S: Segments> Keeper<S> {
    pub(super) fn new(segments: S, stock: Arc<Stock>) -> Self {
        Self {
            segments,
            stock,
            pace: Pace::new(),
        }
    }

    pub(super) async fn keep(mut self) {
        // The first segment is fetched before the first call.
        self.refill().await;
        let stock = Arc::clone(&self.stock);
        while !stock.is_closing() {
            tokio::select! {
                () = stock.wake.notified() => self.refill().await,
                _ = stock.until_closing() => {}
            }
        }
        let deadline = stock.until_closing().await;
        let closed = self.give_back(stock.seal(), deadline).await;
        stock.closed.send_replace(Some(closed));
    }

    /// Requests segments until none is needed. A request in progress is completed when the
    /// allocator closes, so that its segment is returned.
    async fn refill(&mut self) {
        while !self.stock.is_closing()
            && let Some(request) = self.stock.refill()
        {
            let wait = match self.segments.grant(&request).await {
                Ok(grant) => match self.stock.granted(&grant) {
                    Ok(()) => {
                        self.pace.after_success(Duration::ZERO);
                        continue;
                    }
                    Err(error) => {
                        self.stock.failed(error, true);
                        self.pace.after(true, None)
                    }
                },
                Err(error) => match self.wait_after(error, &request) {
                    Some(wait) => wait,
                    None => continue,
                },
            };
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.stock.until_closing() => {}
            }
        }
    }

    /// Reports a failed request. `None` if it is repeated at once.
    fn wait_after(&mut self, error: Error, request: &GrantRequest) -> Option<Duration> {
        let failed = Failed::of(&error);
        let asked = error.retry_after();
        if failed == Failed::Abandoned {
            self.stock.abandon(request.size.unwrap_or_default());
        }
        // A restored cluster does not accept the grants of its predecessor.
        if failed == Failed::Permanent && request.after.is_some() && self.stock.forget_grant() {
            return None;
        }
        let is_permanent = failed == Failed::Permanent;
        let why = Box::new(error);
        let error = if is_permanent {
            AllocateError::Refused(why)
        } else {
            AllocateError::Unavailable { why: Some(why) }
        };
        self.stock.failed(error, is_permanent);
        Some(self.pace.after(is_permanent, asked))
    }

    /// Returns unused values. A request may be repeated, because a second return of the same values
    /// is refused.
    async fn give_back(&self, tail: Tail, deadline: Instant) -> Closed {
        let Some(grant) = tail.grant else {
            return Closed::default();
        };
        let mut unused = tail.unused;
        let mut why = "no time was left".to_owned();
        // `true` if an earlier request may have returned the values.
        let mut may_be_returned = false;
        while Instant::now() < deadline {
            match timeout_at(deadline, self.segments.give_back(grant, unused)).await {
                Ok(Ok(returned)) => {
                    return Closed {
                        returned,
                        lost: tail.unused + tail.lost - returned.min(tail.unused),
                        why: None,
                    };
                }
                Ok(Err(error)) if may_be_returned && error.is(ErrorCode::GrantSuperseded) => {
                    // The return itself ends the grant, as a later grant does, so the two cases
                    // cannot be distinguished.
                    return Closed {
                        returned: 0,
                        lost: tail.lost,
                        why: Some(format!(
                            "it is unknown whether {} values were returned: {why}; then: {error}",
                            tail.unused
                        )),
                    };
                }
                Ok(Err(error)) => {
                    may_be_returned |= may_have_effect(&error);
                    why = error.to_string();
                    let is_permanent = Failed::of(&error) == Failed::Permanent;
                    // The previous segment may belong to another run. Only the cluster can decide
                    // this.
                    match (is_permanent, unused > tail.of_grant) {
                        (true, true) => unused = tail.of_grant,
                        (true, false) => break,
                        (false, _) => {
                            let _ = timeout_at(deadline, sleep(AGAIN)).await;
                        }
                    }
                }
                Err(_) => break,
            }
        }
        Closed {
            returned: 0,
            lost: tail.unused + tail.lost,
            why: Some(why),
        }
    }
}
