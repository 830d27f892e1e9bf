//! Work that is performed once per key, no matter how many callers request it and how often.

use std::future::Future;
use std::time::Duration;

use seqd_api::{BeginKey, ErrorCode, JsonText, KeyState, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::Error;
use crate::nonce;

/// The pause before a failed request is retried.
const AGAIN: Duration = Duration::from_millis(300);

/// The shortest pause. A response may request a pause of 0 ms, and a waiting caller would then send
/// requests without a pause.
const LEAST: Duration = Duration::from_millis(20);

/// The only field of the result of a key whose work was done, but whose result cannot be stored.
/// The libraries of all languages write and read it.
const NOT_KEPT: &str = "seqd_result_not_kept";

/// The longest reason of [`NOT_KEPT`], in characters. Each key reserves 256 bytes for its result.
const LONGEST_REASON: usize = 100;

/// The options for beginning a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceOptions {
    /// Identifies the work, such as a hash of the request, at most 128 bytes. Another fingerprint
    /// for the same key is refused.
    pub fingerprint: String,
    /// The lifetime of the key and its result. One day by default.
    pub ttl: Duration,
    /// The longest duration of the work. One minute by default. After it, another caller can
    /// receive a claim.
    pub claim_ttl: Duration,
    /// The longest wait for another caller that performs the work. One minute by default.
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

/// The arguments of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// A fencing token for the changes of the work, greater than that of every earlier claim.
    pub token: u64,
    /// 1 plus the number of claims that ended without a result. If it is above 1, the work may
    /// already have been performed in whole or in part, so check first.
    pub attempt: u64,
}

/// A result and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once<T> {
    /// The result.
    pub value: T,
    /// `true` if another call produced it.
    pub replayed: bool,
}

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum OnceError<E> {
    /// The work failed. The key is free for another attempt.
    #[error("{0}")]
    Work(E),
    /// Another caller has performed the work for longer than the patience.
    #[error("{0}")]
    InProgress(Box<Problem>),
    /// The work was performed but took longer than its claim. Another caller received a claim too.
    #[error("the work was done, but its claim had expired: {0}")]
    TookTooLong(Box<Problem>),
    /// The work was performed, but its result is not JSON or was refused. Later callers get this
    /// error too, unless the key is still open.
    #[error("the work was done, but its result {reason}; {}", after_not_kept(*is_open))]
    NotKept {
        /// Continues "the result", such as "is not JSON: key must be a string".
        reason: String,
        /// `true` if the key could not be completed either.
        is_open: bool,
    },
    /// The work was performed, but it is unknown whether its result was stored.
    #[error("the work was done, but it is unknown whether its result was stored: {0}")]
    OutcomeUnknown(Error),
    /// The stored result cannot be read as this type. This call did not perform the work.
    #[error("cannot decode the result: {0}")]
    Result(String),
    /// The cluster refused, or could not be reached. This call did not perform the work.
    #[error(transparent)]
    Request(Error),
}

fn after_not_kept(is_open: bool) -> &'static str {
    if is_open {
        "its key is still open: another caller begins when the claim expires"
    } else {
        "later callers get this error too: return JSON of at most 16 KiB"
    }
}

impl Client {
    /// Performs `work` unless it was already performed for this key, and returns its result to all
    /// callers.
    ///
    /// The work is not performed twice by callers that complete. If a caller dies during the work,
    /// the next caller detects this by its attempt number; docs/IDEMPOTENCY.md describes what it
    /// must do then.
    ///
    /// # Errors
    /// An [`OnceError`]. Each variant states whether the work was performed.
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
                if let Some(reason) = reason_not_kept(&text) {
                    let is_open = false;
                    return Err(OnceError::NotKept { reason, is_open });
                }
                let value = serde_json::from_str(&text);
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
                // Otherwise the next caller would wait until the claim expires.
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
                        // A result of null is read as none.
                        (KeyState::Done, _, result) => Ok(Told::Done(
                            result.as_ref().map_or("null", JsonText::as_str).to_owned(),
                        )),
                        _ => Err(OnceError::Result("the response has no claim".to_owned())),
                    };
                }
                Err(error) => error,
            };
            let may_pass = match &error {
                Error::Unreachable(_) | Error::NoAnswer(_) | Error::OutcomeUnknown(_) => true,
                _ => {
                    error.is(ErrorCode::OutcomeUnknown)
                        || error.problem().is_some_and(|problem| problem.retryable)
                }
            };
            if !may_pass || Instant::now() >= until {
                return Err(match error {
                    Error::Problem(problem) if problem.is(ErrorCode::InProgress) => {
                        OnceError::InProgress(problem)
                    }
                    error => OnceError::Request(error),
                });
            }
            let asked = error.retry_after().unwrap_or(AGAIN).max(LEAST);
            sleep(asked.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Stores the result. A key whose result cannot be stored is completed nevertheless, because
    /// its work must not be done again.
    async fn keep<T: Serialize, E>(
        &self,
        key: &str,
        claim: &str,
        value: &T,
    ) -> Result<(), OnceError<E>> {
        let written = serde_json::to_string(value).map_err(|error| error.to_string());
        let reason = match written.and_then(json_text) {
            Ok(result) => match self.store(key, claim, &result).await? {
                None => return Ok(()),
                Some(refusal) => format!("was refused: {}", refusal.detail),
            },
            Err(error) => format!("is not JSON: {error}"),
        };
        let start: String = reason.chars().take(LONGEST_REASON).collect();
        let marker =
            json_text(json!({ NOT_KEPT: start }).to_string()).map_err(OnceError::Result)?;
        // The cluster always has room for a short result, but the token may have been revoked.
        let is_open = self.store(key, claim, &marker).await?.is_some();
        Err(OnceError::NotKept { reason, is_open })
    }

    /// Completes the key, or returns the refusal of the result. The request is safe to retry, so it
    /// is sent again if the response is lost.
    async fn store<E>(
        &self,
        key: &str,
        claim: &str,
        result: &JsonText,
    ) -> Result<Option<Box<Problem>>, OnceError<E>> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.complete_key(key, claim, result).await {
                Ok(_) => return Ok(None),
                Err(error) => error,
            };
            match error {
                Error::Problem(problem) if problem.is(ErrorCode::LeaseLost) => {
                    return Err(OnceError::TookTooLong(problem));
                }
                Error::Problem(problem)
                    if (400..500).contains(&problem.status) && !problem.retryable =>
                {
                    return Ok(Some(problem));
                }
                _ if attempts < 5 => sleep(AGAIN).await,
                error => return Err(OnceError::OutcomeUnknown(error)),
            }
        }
    }
}

fn json_text(text: String) -> Result<JsonText, String> {
    JsonText::new(text).map_err(|error| format!("not JSON: {error}"))
}

/// Returns the reason if this is the result of a key whose result was not kept.
fn reason_not_kept(result: &str) -> Option<String> {
    let value: Value = serde_json::from_str(result).ok()?;
    value.get(NOT_KEPT)?.as_str().map(str::to_owned)
}

enum Told {
    /// This caller is the first: its turn and its claim.
    First(Turn, String),
    /// The work was done: its result as JSON.
    Done(String),
}
