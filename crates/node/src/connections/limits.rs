//! The limits of a connection, and the response to a request that exceeds them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1::Builder;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioTimer;

use super::head::IsHot;

/// The limits of the connections of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The longest time until the first byte of a new connection; `None` for no limit.
    pub(crate) first_byte: Option<Duration>,
    /// The longest time in which a client may receive nothing of its response.
    pub(crate) write_wait: Duration,
    /// The most unsent bytes of responses of all clients together.
    pub(crate) unsent_bytes: usize,
}

impl Bounds {
    /// The limits of a port whose clients connect when they have a request.
    pub(crate) const USUAL: Bounds = Bounds {
        first_byte: Some(Duration::from_secs(10)),
        // The reader of a snapshot may stall for this time. It is many times the longest pause of a
        // link that loses packets.
        write_wait: Duration::from_secs(60),
        // A hundred and fifty of the largest responses.
        unsent_bytes: 32 << 20,
    };

    /// The limits of a port whose clients keep connections in pools, connected before they are
    /// needed. A connection that never sends a request is the first to be closed for others.
    pub(crate) const POOLED: Bounds = Bounds {
        first_byte: None,
        ..Self::USUAL
    };
}

/// The limits of a connection and of the heads of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    pub(crate) head_bytes: usize,
    pub(crate) headers: usize,
    /// The requests that are read without hyper; `None` for none.
    pub(crate) hot: Option<IsHot>,
    /// The limit of the idle time of a connection and of the time for a head; `None` for no limit.
    /// Without hot requests, one wait covers both.
    pub(crate) head_wait: Option<Duration>,
}

impl HttpLimits {
    pub(super) fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_wait)
            .max_buf_size(self.head_bytes)
            .max_header_size(self.head_bytes)
            .max_headers(self.headers);
        builder
    }
}

/// Builds the response to an unreadable head, with this status.
pub(crate) type Unreadable = Arc<dyn Fn(StatusCode) -> Response<Bytes> + Send + Sync>;
