//! Downloads a snapshot from a node to a file.
//!
//! The endpoints are tried in turn until one sends the first bytes, as the request changes nothing.
//! A node may take long until its response begins, so each node must first respond to `/livez`. If
//! the connection breaks after the first bytes, the download fails: the remaining bytes of another
//! node's snapshot would not match.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use seqd_api::{SNAPSHOT_CONTENT_TYPE, SnapshotHead, SnapshotQuery, op};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use crate::client::{Call, Client, innermost, read_body, refused, share};
use crate::endpoint::Endpoint;
use crate::error::{Attempt, Error};
use crate::operations::call_of;
use crate::round::{Round, Tried, silence};

/// The time until the response of a node begins. The node writes the snapshot first, which takes
/// long for millions of records on a slow disk.
const BUILD_LIMIT: Duration = Duration::from_secs(180);

/// The time limit for the body of a refusal, which is short and follows its head at once.
const REFUSAL_LIMIT: Duration = Duration::from_millis(1_500);

/// The longest time without a received byte.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The timeout of the whole request. The limits above apply first; a week is effectively no limit.
const NO_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A snapshot whose first bytes have arrived.
#[derive(Debug)]
pub struct Download {
    head: SnapshotHead,
    endpoint: String,
    node: Option<String>,
    response: Response,
}

impl Client {
    /// Requests a snapshot with every change that was acknowledged before the request. With
    /// `stale`, the snapshot contains the state of the answering node.
    ///
    /// # Errors
    /// The problem that a node returned, or the reason why no response arrived.
    pub async fn snapshot(&self, query: &SnapshotQuery) -> Result<Download, Error> {
        let call = call_of::<op::GetSnapshot>(&[], query)?.accept(SNAPSHOT_CONTENT_TYPE);
        let mut round = Round::default();
        let order = self.endpoints().in_turn();
        let mut rest = self.total_limit();
        for (before, at) in order.iter().enumerate() {
            let left = order.len() - before;
            let tried = self.download_from(*at, left, &mut rest, &call).await;
            if let Some(result) = round.result(tried) {
                return result;
            }
        }
        Err(round.error())
    }

    /// Requests the snapshot from one endpoint. `left` endpoints have not been tried, including this
    /// one. They share `rest`, the remaining time for signs of life.
    async fn download_from(
        &self,
        at: usize,
        left: usize,
        rest: &mut Duration,
        call: &Call,
    ) -> Result<Download, Tried> {
        let begun = Instant::now();
        let sign = self
            .sign_of_life(at, silence(share(*rest, left), left))
            .await;
        // The response has limits of its own, so only the sign of life counts.
        *rest = rest.saturating_sub(begun.elapsed());
        sign?;
        let endpoint = self.endpoints().at(at);
        let request = self.request(endpoint, call, NO_LIMIT);
        Download::try_endpoint(endpoint, request).await
    }
}

impl Download {
    async fn try_endpoint(endpoint: &Endpoint, request: RequestBuilder) -> Result<Self, Tried> {
        let failed = |reason: String| Attempt::new(endpoint, reason);
        let response = match timeout(BUILD_LIMIT, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Tried::Silent(failed(innermost(&error)))),
            Err(_) => return Err(Tried::Silent(failed("timed out".to_owned()))),
        };
        let status = response.status();
        if status.is_success() {
            return Download::begin(endpoint, response).map_err(Tried::Final);
        }
        Err(match timeout(REFUSAL_LIMIT, read_body(response)).await {
            Ok(Ok(Some(bytes))) => refused(endpoint, status, &bytes),
            Ok(Ok(None)) => Tried::Silent(failed("sent a response of more than 64 MiB".to_owned())),
            Ok(Err(error)) => Tried::Silent(failed(innermost(&error))),
            Err(_) => Tried::Silent(failed("timed out".to_owned())),
        })
    }

    fn begin(endpoint: &Endpoint, response: Response) -> Result<Self, Error> {
        let text = |name: &'static str| response.headers().get(name)?.to_str().ok();
        let length = response.content_length().ok_or("content-length");
        let head = length.and_then(|length| SnapshotHead::from_headers(text, length));
        let head = head.map_err(|name| Error::BadAnswer {
            endpoint: endpoint.to_string(),
            status: response.status().as_u16(),
            reason: format!("the header {name} is missing or cannot be read"),
        })?;
        Ok(Self {
            head,
            endpoint: endpoint.to_string(),
            node: text("seqd-node").map(str::to_owned),
            response,
        })
    }

    /// Returns the description that the node sent in the headers.
    #[must_use]
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Returns the name of the node that sends the snapshot.
    #[must_use]
    pub fn node(&self) -> &str {
        self.node.as_deref().unwrap_or(&self.endpoint)
    }

    /// Writes the whole snapshot to `out` and calls `progress` after each piece with the number of
    /// bytes so far.
    ///
    /// After an error, the written bytes are useless. This function does not verify the content;
    /// every block of the file has a checksum that its reader verifies.
    ///
    /// # Errors
    /// The connection broke or sent no byte for too long, or `out` could not be written.
    pub async fn save(
        mut self,
        out: &mut (impl AsyncWrite + Unpin),
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut written = 0;
        loop {
            let broken = |reason: String| {
                let reason = format!("{reason} after {written} of {} bytes", self.head.bytes);
                Error::NoAnswer(vec![Attempt::new(&self.endpoint, reason)])
            };
            let chunk = match timeout(IDLE_LIMIT, self.response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(broken(innermost(&error))),
                Err(_) => return Err(broken("the server stopped sending".to_owned())),
            };
            let Some(chunk) = chunk else {
                break;
            };
            let failed = |error: std::io::Error| Error::Write(error.to_string());
            out.write_all(&chunk).await.map_err(failed)?;
            written += chunk.len() as u64;
            progress(written);
        }
        let flushed = out.flush().await;
        flushed.map_err(|error| Error::Write(error.to_string()))
    }
}
