//! Work that is done once for a key, whoever asks for it and however often.

use std::future::Future;
use std::time::Duration;

use seqd_api::{BeginKey, ErrorCode, JsonText, KeyState, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::Error;
use crate::nonce;

/// The pause before a request that failed is repeated.
const AGAIN: Duration = Duration::from_millis(300);

/// How a key is begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceOptions {
    /// What is to be done, such as a hash of the request, 128 bytes at most: another one under the same
    /// key is refused.
    pub fingerprint: String,
    /// How long the key, and then its result, is known; a day by default.
    pub ttl: Duration,
    /// How long the work may take; a minute by default. Then another caller is told to do it.
    pub claim_ttl: Duration,
    /// How long to wait for another caller that is at it; a minute by default.
    pub patience: Duration,
}

impl Default for OnceOptions {
    fn default() -> Self {
        Self {
            fingerprint: String::new(),
            ttl: Duration::from_millis(BeginKey::DEFAULT_TTL_MS),
            claim_ttl: Duration::from_millis(BeginKey::DEFAULT_CLAIM_TTL_MS),
            patience: Duration::from_secs(60),
        }
    }
}

/// What the work is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Larger than that of every claim before it: a fencing token for what is changed.
    pub token: u64,
    /// 1, and one more each time that somebody began and did not come to an end. Above 1 the work may
    /// have been done, or a part of it: look first.
    pub attempt: u64,
}

/// A result, and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once<T> {
    /// The result.
    pub value: T,
    /// Whether another call made it.
    pub replayed: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum OnceError<E> {
    /// The work failed. The key is free for another attempt.
    #[error("{0}")]
    Work(E),
    /// Another caller is at it for longer than the patience.
    #[error("{0}")]
    InProgress(Box<Problem>),
    /// The work was done, and took longer than its claim: another was told to do it too.
    #[error("the work was done, but its claim was over: {0}")]
    TookTooLong(Box<Problem>),
    /// The work was done, and whether its result was kept is not known.
    #[error("the work was done; whether its result was kept is not known: {0}")]
    NotKept(Error),
    /// A result that cannot be written or read as JSON of this type.
    #[error("the result: {0}")]
    Result(String),
    /// The cluster refused, or could not be asked. The work was not done by this call.
    #[error(transparent)]
    Request(Error),
}

impl Client {
    /// Does `work` unless it was done for this key, and gives its result to all who call.
    ///
    /// The work is not done twice by callers that come to an end. Where one of them dies in the middle,
    /// the next is told by its attempt; see docs/IDEMPOTENCY.md for what it has to do then.
    ///
    /// # Errors
    /// An [`OnceError`]: whether the work was done is in each of them.
    pub async fn once<T, E, F>(
        &self,
        key: &str,
        options: &OnceOptions,
        work: impl FnOnce(Turn) -> F,
    ) -> Result<Once<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        let (turn, claim) = match self.turn(key, options).await? {
            Told::First(turn, claim) => (turn, claim),
            Told::Done(text) => {
                let value = serde_json::from_str(text.as_str());
                let value = value.map_err(|error| OnceError::Result(error.to_string()))?;
                return Ok(Once {
                    value,
                    replayed: true,
                });
            }
        };
        match work(turn).await {
            Ok(value) => {
                self.keep(key, &claim, &value).await?;
                Ok(Once {
                    value,
                    replayed: false,
                })
            }
            Err(error) => {
                // Else the next caller waits until the claim is over.
                let _ = self.abandon_key(key, &claim).await;
                Err(OnceError::Work(error))
            }
        }
    }

    async fn turn<E>(&self, key: &str, options: &OnceOptions) -> Result<Told, OnceError<E>> {
        let until = Instant::now() + options.patience;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let request = BeginKey {
            ttl_ms: Some(ms(options.ttl)),
            claim_ttl_ms: Some(ms(options.claim_ttl)),
            fingerprint: Some(options.fingerprint.clone()),
            nonce: Some(nonce::draw()),
        };
        loop {
            let error = match self.begin_key(key, &request).await {
                Ok(begun) => {
                    let turn = Turn {
                        token: begun.token.unwrap_or_default(),
                        attempt: begun.attempt,
                    };
                    return match (begun.state, begun.claim, begun.result) {
                        (KeyState::First, Some(claim), _) => Ok(Told::First(turn, claim)),
                        (KeyState::Done, _, Some(result)) => Ok(Told::Done(result)),
                        _ => Err(OnceError::Result("the answer has none".to_owned())),
                    };
                }
                Err(error) => error,
            };
            let problem = error.problem();
            let code = problem.and_then(Problem::error_code);
            let may_pass = match &error {
                Error::Unreachable(_) | Error::NoAnswer(_) | Error::OutcomeUnknown(_) => true,
                _ => {
                    code == Some(ErrorCode::OutcomeUnknown)
                        || problem.is_some_and(|problem| problem.retryable)
                }
            };
            if !may_pass || Instant::now() >= until {
                return Err(match error {
                    Error::Problem(problem) if code == Some(ErrorCode::InProgress) => {
                        OnceError::InProgress(problem)
                    }
                    error => OnceError::Request(error),
                });
            }
            let asked = problem.and_then(|problem| problem.retry_after_ms);
            let asked = asked.map_or(AGAIN, |ms| Duration::from_millis(ms.into()));
            sleep(asked.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Completes the key, again where the answer is lost: it may be repeated.
    async fn keep<T: Serialize, E>(
        &self,
        key: &str,
        claim: &str,
        value: &T,
    ) -> Result<(), OnceError<E>> {
        let written = serde_json::to_string(value).map_err(|error| error.to_string());
        let result = written
            .and_then(|text| JsonText::new(text).map_err(|error| error.to_string()))
            .map_err(OnceError::Result)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.complete_key(key, claim, &result).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match error {
                Error::Problem(problem) if problem.error_code() == Some(ErrorCode::LeaseLost) => {
                    return Err(OnceError::TookTooLong(problem));
                }
                _ if attempts < 5 => sleep(AGAIN).await,
                error => return Err(OnceError::NotKept(error)),
            }
        }
    }
}

enum Told {
    /// The turn and its claim.
    First(Turn, String),
    Done(JsonText),
}
