//! Selects the endpoint to try next and its time limit, and the error if no endpoint gave a good
//! response.
//!
//! The endpoints of a client share the time of one request. The endpoint of the last good response
//! is tried first.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seqd_api::Problem;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::error::{Attempt, Error};

/// The time for which a response counts as a sign of life. It is shorter than an operator's
/// reaction to a hung node, and longer than the pauses of a program that sends requests
/// continuously.
const LATELY: Duration = Duration::from_secs(10);

/// The longest silence of an endpoint while others are left. A command must end within 2.5 s if the
/// first endpoint hangs, which leaves a second for the next endpoint. A node without a leader also
/// responds within this time, because the deadline that it receives is shorter.
const SILENCE: Duration = Duration::from_millis(1500);

/// Returns how long an endpoint may be silent: its share of the time, limited while others are
/// left.
pub(crate) fn silence(share: Duration, left: usize) -> Duration {
    if left > 1 { share.min(SILENCE) } else { share }
}

/// The endpoints of a client, with the time of each one's last response.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Endpoint>,
    seen: Mutex<EndpointHealth>,
}

#[derive(Debug)]
struct EndpointHealth {
    /// The time of the last response of each endpoint, whatever its status.
    answered: Vec<Option<Instant>>,
    /// The endpoint of the last good response.
    good: Option<usize>,
}

impl Endpoints {
    pub(crate) fn new(list: Vec<Endpoint>) -> Self {
        let answered = vec![None; list.len()];
        let good = None;
        Self {
            list,
            seen: Mutex::new(EndpointHealth { answered, good }),
        }
    }

    fn seen(&self) -> MutexGuard<'_, EndpointHealth> {
        // A panic elsewhere leaves no partial update: each field is set in one step.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn at(&self, at: usize) -> &Endpoint {
        &self.list[at]
    }

    /// Returns the order in which the endpoints are tried: the last good one, then the others as
    /// listed.
    pub(crate) fn in_turn(&self) -> Vec<usize> {
        let good = self.seen().good;
        let others = (0..self.list.len()).filter(|at| Some(*at) != good);
        good.into_iter().chain(others).collect()
    }

    pub(crate) fn answered_lately(&self, at: usize) -> bool {
        self.seen().answered[at].is_some_and(|answered| answered.elapsed() < LATELY)
    }

    /// Records a response. It is good if the node could process the request, even if it refused it.
    pub(crate) fn answered(&self, at: usize, is_good: bool) {
        let mut seen = self.seen();
        seen.answered[at] = Some(Instant::now());
        if is_good {
            seen.good = Some(at);
        } else if seen.good == Some(at) {
            seen.good = None;
        }
    }

    pub(crate) fn was_silent(&self, at: usize) {
        let mut seen = self.seen();
        seen.answered[at] = None;
        if seen.good == Some(at) {
            seen.good = None;
        }
    }
}

/// The time that the endpoints of one request share.
#[derive(Debug)]
pub(crate) struct Budget {
    until: Instant,
    rest: Duration,
}

impl Budget {
    pub(crate) fn new(whole: Duration) -> Self {
        Self {
            until: Instant::now() + whole,
            rest: whole,
        }
    }

    /// Returns the remaining time at the last reading of the clock.
    pub(crate) const fn rest(&self) -> Duration {
        self.rest
    }

    /// Reads the clock and returns the remaining time.
    pub(crate) fn look(&mut self) -> Duration {
        self.rest = self.until.saturating_duration_since(Instant::now());
        self.rest
    }
}

/// The reason why the body of a successful response is of no use.
pub(crate) enum Unusable {
    /// The response is not from seqd.
    Unreadable(String),
    /// The node lacks what was requested, and another endpoint may have it.
    Elsewhere(Box<Problem>),
}

impl Unusable {
    pub(crate) fn unreadable(error: impl fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The result of one endpoint. Every variant except the last lets the next endpoint be tried.
pub(crate) enum Tried {
    /// No part of the request was sent.
    NotSent(Attempt),
    /// The port requires TLS and the endpoint is `http`. Nothing of the request was processed.
    WithoutTls(Attempt, Box<Problem>),
    /// The request was sent without a response, and is safe to retry.
    Silent(Attempt),
    Retryable(Box<Problem>),
    Final(Error),
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(attempt) | Self::Silent(attempt) | Self::WithoutTls(attempt, _) => {
                f.write_str(&attempt.reason)
            }
            Self::Retryable(problem) => write!(f, "{} {}", problem.status, problem.code),
            Self::Final(Error::Problem(problem)) => {
                write!(f, "{} {}", problem.status, problem.code)
            }
            Self::Final(error) => error.fmt(f),
        }
    }
}

/// The results of the endpoints tried so far.
#[derive(Default)]
pub(crate) struct Round {
    attempts: Vec<Attempt>,
    was_sent: bool,
    problem: Option<Box<Problem>>,
    /// The last problem that states that TLS is required, and the number of them.
    without_tls: (Option<Box<Problem>>, usize),
}

impl Round {
    /// Returns the result of the round, or `None` if the next endpoint should be tried.
    pub(crate) fn result<T>(&mut self, tried: Result<T, Tried>) -> Option<Result<T, Error>> {
        match tried {
            Ok(answer) => return Some(Ok(answer)),
            Err(Tried::Final(error)) => return Some(Err(error)),
            Err(Tried::NotSent(attempt)) => self.attempts.push(attempt),
            Err(Tried::WithoutTls(attempt, problem)) => {
                self.attempts.push(attempt);
                self.without_tls = (Some(problem), self.without_tls.1 + 1);
            }
            Err(Tried::Silent(attempt)) => {
                self.was_sent = true;
                self.attempts.push(attempt);
            }
            Err(Tried::Retryable(problem)) => self.problem = Some(problem),
        }
        None
    }

    /// Returns the error of a round without a good response. A problem returned by a node explains
    /// more than the silence of another. A missing TLS is the error only if no endpoint failed
    /// otherwise: a retry may reach the others.
    pub(crate) fn error(self) -> Error {
        match (self.problem, self.without_tls) {
            (Some(problem), _) => Error::Problem(problem),
            (None, (Some(problem), count)) if count == self.attempts.len() => {
                Error::Problem(problem)
            }
            (None, _) if self.was_sent => Error::NoAnswer(self.attempts),
            (None, _) => Error::Unreachable(self.attempts),
        }
    }
}

#[cfg(test)]
mod tests {
    use seqd_api::ErrorCode;

    use super::*;

    fn endpoints() -> Endpoints {
        Endpoints::new(crate::parse_endpoints("a,b,c", false).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_endpoint_is_first_until_it_is_silent() {
        let endpoints = endpoints();
        assert_eq!(endpoints.in_turn(), [0, 1, 2]);
        endpoints.answered(1, true);
        assert_eq!(endpoints.in_turn(), [1, 0, 2]);
        endpoints.answered(2, false);
        assert_eq!(endpoints.in_turn(), [1, 0, 2]);
        endpoints.was_silent(1);
        assert_eq!(endpoints.in_turn(), [0, 1, 2]);
    }

    #[test]
    fn a_hanging_endpoint_leaves_a_second_of_two_and_a_half() {
        let long = Duration::from_secs(20);
        let goal = Duration::from_millis(2500);
        for left in 2..5 {
            assert!(silence(long, left) + Duration::from_secs(1) <= goal);
        }
        let short = Duration::from_millis(700);
        assert_eq!((silence(short, 3), silence(long, 1)), (short, long));
    }

    #[test]
    fn missing_tls_is_the_error_only_if_no_endpoint_failed_otherwise() {
        let attempt = || Attempt::new("a", "in a test");
        let problem = |code| Box::new(Problem::new(code, ""));
        let without_tls = || Tried::WithoutTls(attempt(), problem(ErrorCode::InvalidArgument));
        let error = |results: Vec<Tried>| {
            let mut round = Round::default();
            for tried in results {
                assert!(round.result::<()>(Err(tried)).is_none());
            }
            round.error()
        };
        let all = error(vec![without_tls(), without_tls()]);
        assert!(all.problem().unwrap().is(ErrorCode::InvalidArgument));
        let unreachable = error(vec![without_tls(), Tried::NotSent(attempt())]);
        assert!(matches!(unreachable, Error::Unreachable(tried) if tried.len() == 2));
        let no_quorum = Tried::Retryable(problem(ErrorCode::NoQuorum));
        let refused = error(vec![no_quorum, without_tls()]);
        assert!(refused.problem().unwrap().is(ErrorCode::NoQuorum));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_grows_old() {
        let endpoints = endpoints();
        assert!(!endpoints.answered_lately(0));
        endpoints.answered(0, false);
        tokio::time::advance(LATELY / 2).await;
        assert!(endpoints.answered_lately(0) && !endpoints.answered_lately(1));
        tokio::time::advance(LATELY / 2).await;
        assert!(!endpoints.answered_lately(0));
    }
}
