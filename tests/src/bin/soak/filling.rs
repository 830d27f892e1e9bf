//! Requests that take space in the replicated state or in its log, each under a new name.

use seqd_tests::asker::Asker;
use seqd_tests::http::{Failure, Reply};
use serde_json::json;
use tokio::time::Duration;

/// The longest TTLs, in ms: of keys and one-time tokens, and of locks.
pub(crate) const MONTH_MS: u64 = 30 * DAY_MS;
pub(crate) const DAY_MS: u64 = 86_400_000;

/// The size of a key's result. The largest result has 16 KiB as JSON; a larger one is refused
/// before it takes space.
const RESULT: usize = 16_000;

/// The largest description in bytes.
const DESCRIPTION: usize = 1_024;

/// One-time tokens per request.
const TOKENS: u64 = 1_000;

/// The sequence for keyed requests, which the caller of this module creates.
pub(crate) const FLOODED: &str = "hostile.flood";

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Begins a key with this TTL and completes it with the largest result.
    Result { ttl_ms: u64 },
    /// Sends a request with a new `Idempotency-Key`.
    KeyedRequest,
    /// Acquires a lock for the longest time.
    Lock,
    /// Creates a sequence with the longest description.
    Sequence,
    /// Issues as many one-time tokens as one request may, with the longest TTL.
    OneTimeTokens,
}

impl Filling {
    /// Sends the request to the client's first address. `name` must be new. Returns the last
    /// response.
    pub(crate) async fn send(
        self,
        asker: &mut Asker,
        name: &str,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let idempotency = |what: &str| format!("/v1/idempotency/{name}/{what}");
        let (method, path, key, body) = match self {
            Self::Result { ttl_ms } => {
                let body = json!({"ttl_ms": ttl_ms}).to_string();
                let begin = idempotency("begin");
                let begun = asker.ask(0, ("POST", &begin, ""), &body, patience).await?;
                let claim = begun.json()["claim"].clone();
                if !begun.is_ok() || claim.is_null() {
                    return Ok(begun);
                }
                let result = "r".repeat(RESULT);
                let body = json!({"claim": claim, "result": result});
                ("POST", idempotency("complete"), "", body)
            }
            Self::KeyedRequest => {
                let path = format!("/v1/sequences/{FLOODED}/next");
                ("POST", path, name, json!({}))
            }
            Self::Lock => {
                let body = json!({"owner": "hostile", "ttl_ms": DAY_MS});
                ("POST", format!("/v1/locks/{name}/acquire"), "", body)
            }
            Self::Sequence => {
                let body = json!({"mode": "strict", "description": "d".repeat(DESCRIPTION)});
                ("PUT", format!("/v1/sequences/{name}"), "", body)
            }
            Self::OneTimeTokens => {
                let body = json!({"ttl_ms": MONTH_MS, "count": TOKENS});
                ("POST", "/v1/tokens".to_owned(), "", body)
            }
        };
        let body = body.to_string();
        asker.ask(0, (method, &path, key), &body, patience).await
    }
}
