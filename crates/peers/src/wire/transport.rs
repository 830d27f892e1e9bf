//! Calls to peers, independent of the transport. An error states whether the message was sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use seqd_net::WhoIsAt;

use super::route::Route;

/// The largest message between peers in bytes: a replication message has at most 1 MiB and one
/// entry, and an entry has at most 8 MiB.
pub const MESSAGE_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The port is closed: the process is not running. Nothing was sent.
    #[error("connection refused")]
    Refused,
    /// Nothing was sent.
    #[error("{0}")]
    Unsent(String),
    /// The message cannot be encoded. Nothing was sent, and a retry would fail in the same way.
    #[error("{0}")]
    Unwritable(String),
    /// The message was sent, and no response arrived in time.
    #[error("no response in time")]
    NoAnswer,
    /// The message was sent, and the response did not arrive in full.
    #[error("{0}")]
    Broken(String),
    /// The peer refused the message.
    #[error("{0}")]
    Rejected(#[from] Rejection),
}

impl CallError {
    /// Returns whether the peer's program is too old to read the message. It did nothing with it.
    pub fn is_newer(&self) -> bool {
        let newer = |rejection: &Rejection| rejection.code == RejectionCode::NewerFormat;
        matches!(self, Self::Rejected(rejection) if newer(rejection))
    }

    /// Returns whether the peer certainly did nothing with the message. The code `malformed` does
    /// not imply that: it is also the code of a response that could not be encoded after the
    /// message was processed.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Refused | Self::Unsent(_) | Self::Unwritable(_) => true,
            Self::Rejected(rejection) => rejection.code != RejectionCode::Malformed,
            Self::NoAnswer | Self::Broken(_) => false,
        }
    }
}

/// The reason why a peer refuses a message. It is sent as `code: detail`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Rejection {
    pub code: RejectionCode,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCode {
    Malformed,
    /// The message or its version belongs to a newer program.
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
    /// The certificate of the connection belongs to another node than the sender.
    WrongCertificate,
    /// The receiver's Raft does not run, or the receiver has no room for the message.
    NotRunning,
}

const CODES: [(RejectionCode, &str); 10] = [
    (RejectionCode::Malformed, "malformed"),
    (RejectionCode::NewerFormat, "newer-format"),
    (RejectionCode::WrongCluster, "wrong-cluster"),
    (RejectionCode::WrongTarget, "wrong-target"),
    (RejectionCode::StaleBoot, "stale-boot"),
    (RejectionCode::Unintroduced, "unintroduced"),
    (RejectionCode::Superseded, "superseded"),
    (RejectionCode::Removed, "removed"),
    (RejectionCode::WrongCertificate, "wrong-certificate"),
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
    pub fn new(code: RejectionCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }

    /// Parses the text of a rejection from a peer.
    pub fn parse(text: &str) -> Self {
        let (word, detail) = text.split_once(": ").unwrap_or(("", text));
        let code = CODES
            .iter()
            .find(|(_, w)| *w == word)
            .map_or(RejectionCode::Malformed, |(c, _)| *c);
        Self::new(code, detail)
    }
}

/// The purpose of a connection. Entries must not delay heartbeats, and snapshots must not delay
/// entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Entries of the log. They are handled in sequence, so that appends reach Raft in the order in
    /// which they were sent.
    Log = 1,
    /// Groups of commands for the leader. They are independent: each receives its response once it
    /// is committed.
    Forward = 2,
    /// Heartbeats, votes, pings, reads, membership changes, the handshake: small and independent.
    Control = 3,
    /// The call that the leader keeps open for seconds. A broken connection is its response.
    Watch = 4,
    Snapshots = 5,
}

impl Link {
    pub const ALL: [Self; 5] = [
        Self::Log,
        Self::Forward,
        Self::Control,
        Self::Watch,
        Self::Snapshots,
    ];

    /// The byte of the link in the opening of a connection.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The largest number of bytes in flight in either direction that the receiver's handlers have
    /// not processed.
    pub fn window(self) -> u32 {
        match self {
            Self::Log | Self::Forward | Self::Snapshots => 1 << 20,
            Self::Control | Self::Watch => 256 << 10,
        }
    }

    /// Returns whether a call is handled only after the response to the previous call.
    pub fn is_ordered(self) -> bool {
        self == Self::Log
    }
}

/// The time after which a call is abandoned.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time, regardless of the progress.
    Total(Duration),
    /// Never while the bytes of the call progress.
    Progress {
        /// The time after the last sign that the receiver accepts its bytes.
        moving: Duration,
        /// The time after the receiver has accepted the last byte.
        answer: Duration,
    },
}

impl Limit {
    /// Returns the rest of the limit after a time in which nothing was sent.
    pub fn after(self, passed: Duration) -> Self {
        match self {
            Self::Total(total) => Self::Total(total.saturating_sub(passed)),
            Self::Progress { .. } => self,
        }
    }
}

impl From<Duration> for Limit {
    fn from(total: Duration) -> Self {
        Self::Total(total)
    }
}

/// The content of a call.
pub enum Payload {
    Bytes(Bytes),
    /// A message and a file after it.
    Stream(BoxStream<'static, io::Result<Vec<u8>>>),
}

/// A future response in bytes.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// Carries calls to peers.
pub trait Transport: Send + Sync {
    /// Sends a payload to the handler of `route` at `addr` and waits for its response within
    /// `limit`.
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Answering<'a>;

    /// Sets, before the first call, how a transport with TLS determines the name of the node at an
    /// address.
    fn know(&self, _who: WhoIsAt) {}
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
