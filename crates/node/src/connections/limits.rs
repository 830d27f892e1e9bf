//! The limits of a connection, and the response to a request that exceeds them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1::Builder;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioTimer;

use super::head::IsHot;

/// The limits of a connection and of the heads of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    pub(crate) head_bytes: usize,
    pub(crate) headers: usize,
    /// The requests that are read without hyper; `None` for none.
    pub(crate) hot: Option<IsHot>,
    /// The longest time on an idle connection, and for a head; `None` for no limit. Without hot
    /// requests, it is one wait for both.
    pub(crate) head_wait: Option<Duration>,
    /// The longest time until the first byte of a new connection.
    pub(crate) first_byte: Duration,
    /// The longest time in which a client may receive nothing of its response.
    pub(crate) write_wait: Duration,
    /// The most unsent bytes of responses of all clients together.
    pub(crate) unsent_bytes: usize,
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
