//! How messages reach peers, whatever carries them. What a failure means for the caller (sent or
//! not?) is in the error.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use seqd_net::WhoIsAt;

use super::route::Route;

/// The largest message between peers, bytes: a replication message is at most 1 MiB and one
/// entry, and an entry at most 8 MiB.
pub const MESSAGE_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The port is closed: the process is not running. Nothing was sent.
    #[error("connection refused")]
    Refused,
    /// Nothing was sent.
    #[error("{0}")]
    Unsent(String),
    /// The message cannot be encoded. Nothing was sent, nor would the same message be the next time.
    #[error("{0}")]
    Unwritable(String),
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
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Refused | Self::Unsent(_) | Self::Unwritable(_) => true,
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
    /// The certificate of the connection is that of another node than the sender.
    WrongCertificate,
    /// The receiver's Raft does not run yet, or no more, or it has no room for the message.
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

    /// What a peer wrote.
    pub fn parse(text: &str) -> Self {
        let (word, detail) = text.split_once(": ").unwrap_or(("", text));
        let code = CODES
            .iter()
            .find(|(_, w)| *w == word)
            .map_or(RejectionCode::Malformed, |(c, _)| *c);
        Self::new(code, detail)
    }
}

/// What a connection is for: a full log must not delay a heartbeat, nor a snapshot the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Entries of the log, handled one after another: appends reach Raft in the order in which they
    /// were sent.
    Log,
    /// Groups of commands for the leader. Groups are independent: whichever is committed first is
    /// answered first.
    Forward,
    /// Heartbeats, votes, pings, reads, changes of members, the handshake: small, and independent.
    Control,
    /// The one call that the leader keeps for seconds; a connection that breaks is its answer.
    Watch,
    Snapshots,
}

impl Link {
    pub const ALL: [Self; 5] = [
        Self::Log,
        Self::Forward,
        Self::Control,
        Self::Watch,
        Self::Snapshots,
    ];

    /// What stands for it in the opening of a connection.
    pub fn byte(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Forward => 2,
            Self::Control => 3,
            Self::Watch => 4,
            Self::Snapshots => 5,
        }
    }

    /// Bytes under way in either direction that the receiver's handlers have not taken.
    pub fn window(self) -> u32 {
        match self {
            Self::Log | Self::Forward | Self::Snapshots => 1 << 20,
            Self::Control | Self::Watch => 256 << 10,
        }
    }

    /// Whether a call is handled only when the one before it was answered.
    pub fn is_ordered(self) -> bool {
        self == Self::Log
    }
}

/// When a call is given up.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After so long, whatever has come.
    Total(Duration),
    /// While its bytes move, never.
    Progress {
        /// After the last sign that the receiver takes its bytes.
        moving: Duration,
        /// After the receiver has taken the last one.
        answer: Duration,
    },
}

impl Limit {
    /// What is left of it after a while in which nothing was sent.
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
    /// Sends a payload to the handler of `route` at `addr` and waits for its answer within `limit`.
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Answering<'a>;

    /// Says once who is where, before the first call, for a transport that verifies it.
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
