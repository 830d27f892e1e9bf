//! Calls to peers: one function that makes connections, one that sends a message and reads the
//! answer. What a failure means for the caller (sent or not?) is in the error.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Body, Client};

/// The largest message between peers, bytes: a replication message is at most 4 MiB and one
/// entry, and an entry at most 8 MiB.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;

/// Idle connections that are kept for each peer and link: as many as groups are forwarded at once.
const IDLE_PER_PEER: usize = 8;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nobody listens there: the process is not running. Nothing was sent.
    #[error("connection refused")]
    Refused,
    /// No connection came about. Nothing was sent.
    #[error("{0}")]
    Unsent(String),
    /// It was sent, and no whole answer came.
    #[error("{0}")]
    Broken(String),
    /// The peer answered that it does not take the message.
    #[error("{0}")]
    Rejected(#[from] Rejection),
}

impl CallError {
    /// Whether the peer certainly never saw the message.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Refused | Self::Unsent(_) | Self::Rejected(_))
    }
}

/// Why a peer does not take a message; travels as `code: detail`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub(crate) struct Rejection {
    pub(crate) code: RejectionCode,
    pub(crate) detail: String,
}

/// The kinds of rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionCode {
    /// The message is of another protocol version, or not a message.
    Malformed,
    /// It is of another cluster.
    WrongCluster,
    /// It is meant for another node.
    WrongTarget,
    /// A later start of the sender, or a twin of it, was seen.
    StaleBoot,
    /// The sender must say hello first.
    Unintroduced,
    /// The sender's cluster was restored into this one, whose ID is the detail.
    Superseded,
    /// The sender was removed from the cluster.
    Removed,
    /// The receiver's Raft does not run yet, or no more.
    NotRunning,
}

const CODES: [(RejectionCode, &str); 8] = [
    (RejectionCode::Malformed, "malformed"),
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

    fn parse(text: &str) -> Self {
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
pub(crate) enum Link {
    /// Everything else.
    Calls,
    /// Heartbeats, votes and pings.
    Heartbeats,
    /// Snapshots.
    Snapshots,
}

/// Connections to peers.
#[derive(Clone)]
pub(crate) struct Transport {
    calls: Client,
    heartbeats: Client,
    snapshots: Client,
}

impl Transport {
    /// Makes the clients; they connect at their first call.
    pub(crate) fn new(connect_timeout: Duration) -> Result<Self, String> {
        let client = || {
            Client::builder()
                .no_proxy()
                .http1_only()
                .tcp_nodelay(true)
                .connect_timeout(connect_timeout)
                .pool_max_idle_per_host(IDLE_PER_PEER)
                .pool_idle_timeout(Duration::from_secs(60))
                .build()
                .map_err(|e| format!("cannot make a client for peers: {e}"))
        };
        Ok(Self {
            calls: client()?,
            heartbeats: client()?,
            snapshots: client()?,
        })
    }

    /// Sends `body` to `http://addr/path` and returns the answer's bytes.
    pub(crate) async fn post(
        &self,
        link: Link,
        addr: &str,
        path: &str,
        body: impl Into<Body>,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let client = match link {
            Link::Calls => &self.calls,
            Link::Heartbeats => &self.heartbeats,
            Link::Snapshots => &self.snapshots,
        };
        let url = format!("http://{addr}{path}");
        let sent = client.post(url).timeout(timeout).body(body).send().await;
        let answer = sent.map_err(|e| classify(&e))?;
        let status = answer.status();
        if answer
            .content_length()
            .is_some_and(|length| length > MESSAGE_BYTES as u64)
        {
            return Err(CallError::Broken(
                "the answer is larger than a message may be".into(),
            ));
        }
        let bytes = answer.bytes().await.map_err(|e| classify(&e))?;
        if status.is_success() {
            Ok(bytes)
        } else {
            Err(Rejection::parse(&String::from_utf8_lossy(&bytes)).into())
        }
    }
}

fn classify(error: &reqwest::Error) -> CallError {
    let mut source = std::error::Error::source(error);
    let mut innermost = error.to_string();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return CallError::Refused;
        }
        innermost = inner.to_string();
        source = inner.source();
    }
    if error.is_connect() {
        let why = if error.is_timeout() {
            "no answer to connect".to_owned()
        } else {
            innermost
        };
        CallError::Unsent(why)
    } else if error.is_timeout() {
        CallError::Broken("no answer in time".to_owned())
    } else {
        CallError::Broken(innermost)
    }
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

    #[tokio::test]
    async fn a_closed_port_is_told_from_a_silent_one() {
        let transport = Transport::new(Duration::from_millis(500)).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_millis(100);
        let silent = transport
            .post(Link::Calls, &addr, "/", "x", limit)
            .await
            .unwrap_err();
        assert!(matches!(silent, CallError::Broken(_)), "{silent:?}");
        drop(listener);
        let closed = transport
            .post(Link::Calls, &addr, "/", "x", limit)
            .await
            .unwrap_err();
        assert!(matches!(closed, CallError::Refused), "{closed:?}");
    }
}
