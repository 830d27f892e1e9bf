//! The bounds of a connection, and the answer to a request that exceeds them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1::Builder;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioTimer;

/// The bounds of a connection and of the heads of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    pub(crate) head_bytes: usize,
    pub(crate) headers: usize,
    /// How long a head may take, the wait for it on an idle connection included; `None`: for ever.
    pub(crate) head_wait: Option<Duration>,
    /// How long a new connection may be without its first byte.
    pub(crate) first_byte: Duration,
    /// How long a client may take nothing of its answer.
    pub(crate) write_wait: Duration,
    /// Bytes of answers that all clients together have not taken.
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

/// Makes the answer to a head that cannot be read, of this status.
pub(crate) type Unreadable = Arc<dyn Fn(StatusCode) -> Response<Bytes> + Send + Sync>;
