//! How messages reach peers, whatever carries them. What a failure means for the caller (sent or
//! not?) is in the error.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

/// The largest message between peers, bytes: a replication message is at most 4 MiB and one
/// entry, and an entry at most 8 MiB.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The port is closed: the process is not running. Nothing was sent.
    #[error("connection refused")]
    Refused,
    /// No connection came about. Nothing was sent.
    #[error("{0}")]
    Unsent(String),
    /// It was sent, and the time for an answer is over.
    #[error("no answer in time")]
    NoAnswer,
    /// It was sent, and no whole answer came.
    #[error("{0}")]
    Broken(String),
    /// The peer answered that it does not take the message.
    #[error("{0}")]
    Rejected(#[from] Rejection),
}

impl CallError {
    /// Whether the peer certainly did nothing with the message. A `malformed` one does not show that: a
    /// reply that cannot be encoded is rejected so after the message was carried out.
    pub(crate) fn is_unsent(&self) -> bool {
        match self {
            Self::Refused | Self::Unsent(_) => true,
            Self::Rejected(rejection) => rejection.code != RejectionCode::Malformed,
            Self::NoAnswer | Self::Broken(_) => false,
        }
    }
}

/// Why a peer does not take a message; travels as `code: detail`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Rejection {
    pub code: RejectionCode,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCode {
    Malformed,
    /// The message, or its version, is of a newer program.
    NewerFormat,
    WrongCluster,
    WrongTarget,
    /// A later start of the sender, or a twin of it, was seen.
    StaleBoot,
    /// The sender must send a hello first.
    Unintroduced,
    /// The sender's cluster was restored into this one, whose ID is the detail.
    Superseded,
    Removed,
    /// The receiver's Raft does not run yet, or no more.
    NotRunning,
}

const CODES: [(RejectionCode, &str); 9] = [
    (RejectionCode::Malformed, "malformed"),
    (RejectionCode::NewerFormat, "newer-format"),
    (RejectionCode::WrongCluster, "wrong-cluster"),
    (RejectionCode::WrongTarget, "wrong-target"),
    (RejectionCode::StaleBoot, "stale-boot"),
    (RejectionCode::Unintroduced, "unintroduced"),
    (RejectionCode::Superseded, "superseded"),
    (RejectionCode::Removed, "removed"),
    (RejectionCode::NotRunning, "not-running"),
];

impl std::fmt::Display for RejectionCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = CODES
            .iter()
            .find(|(code, _)| code == self)
            .map_or("malformed", |(_, w)| w);
        f.write_str(word)
    }
}

impl Rejection {
    pub(crate) fn new(code: RejectionCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }

    /// What a peer wrote.
    pub(crate) fn parse(text: &str) -> Self {
        let (word, detail) = text.split_once(": ").unwrap_or(("", text));
        let code = CODES
            .iter()
            .find(|(_, w)| *w == word)
            .map_or(RejectionCode::Malformed, |(c, _)| *c);
        Self::new(code, detail)
    }
}

/// Which connections a call uses: a snapshot or a full log must not delay a heartbeat.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    Calls,
    /// Heartbeats, votes and pings.
    Heartbeats,
    Snapshots,
}

/// What is sent in one call.
pub enum Payload {
    Bytes(Bytes),
    /// A message and a file behind it.
    Stream(BoxStream<'static, io::Result<Vec<u8>>>),
}

/// The bytes of an answer, to come.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// Carries calls to peers.
pub trait Transport: Send + Sync {
    /// Sends a payload to the handler that `path` names at `addr` and waits for its answer, for
    /// `limit` at most.
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        path: &'a str,
        payload: Payload,
        limit: Duration,
    ) -> Answering<'a>;
}

/// What a message's bytes come in.
pub(crate) type Chunks = BoxStream<'static, io::Result<Bytes>>;

/// The bytes of a reply, or why there is none, to come.
pub(crate) type Replying = Pin<Box<dyn Future<Output = Result<Bytes, Rejection>> + Send>>;

/// Answers what peers send, whatever carries it.
pub(crate) trait Handler: Send + Sync {
    /// Answers the message that `path` names.
    fn handle(self: Arc<Self>, path: String, chunks: Chunks) -> Replying;
}

/// All bytes of one message.
pub(crate) async fn collect(mut chunks: Chunks) -> Result<Bytes, Rejection> {
    let malformed = |detail: String| Rejection::new(RejectionCode::Malformed, detail);
    let mut all = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|e| malformed(e.to_string()))?;
        if all.len() + chunk.len() > MESSAGE_BYTES {
            return Err(malformed(format!(
                "a message has at most {MESSAGE_BYTES} bytes"
            )));
        }
        if all.is_empty() {
            all = BytesMut::from(chunk);
        } else {
            all.extend_from_slice(&chunk);
        }
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_survive_the_wire() {
        for (code, _) in CODES {
            let rejection = Rejection::new(code, "why: because");
            assert_eq!(Rejection::parse(&rejection.to_string()), rejection);
        }
    }

    #[test]
    fn a_malformed_message_may_have_been_carried_out_and_another_rejected_one_was_not() {
        for (code, _) in CODES {
            let error = CallError::from(Rejection::new(code, "why"));
            assert_eq!(
                error.is_unsent(),
                code != RejectionCode::Malformed,
                "{code}"
            );
        }
    }
}
