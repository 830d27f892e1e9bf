//! A snapshot on its way from a node to a file.
//!
//! The next endpoint is tried until the first bytes come, since nothing is changed by asking. As a
//! node may take long to begin, each has to show first that it lives. After the first bytes a broken connection ends it: the rest of another node's snapshot would not fit.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use seqd_api::{SNAPSHOT_CONTENT_TYPE, SnapshotHead, SnapshotQuery, op};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::client::{Call, Client, innermost, refused, share};
use crate::endpoint::Endpoint;
use crate::error::{Attempt, Error};
use crate::operations::call_of;
use crate::round::{Round, Tried, silence};

/// How long a node may take until its answer begins: it writes the snapshot first, and a state of
/// millions of records on a slow disk takes its time.
const BUILD_LIMIT: Duration = Duration::from_secs(180);

/// How long no byte may come.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The request's whole time, which the limits above bound in truth; a week is no limit.
const NO_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A snapshot whose first bytes are there.
#[derive(Debug)]
pub struct Download {
    head: SnapshotHead,
    endpoint: String,
    node: Option<String>,
    response: Response,
}

impl Client {
    /// Asks for a snapshot that holds whatever was acknowledged before; with `stale`, for the state
    /// of the node that answers.
    ///
    /// # Errors
    /// What was answered, or why no answer came.
    pub async fn snapshot(&self, query: &SnapshotQuery) -> Result<Download, Error> {
        let call = call_of::<op::GetSnapshot>(&[], query)?.accept(SNAPSHOT_CONTENT_TYPE);
        let mut round = Round::default();
        let order = self.endpoints().in_turn();
        for at in &order {
            let tried = self.download_from(*at, order.len(), &call).await;
            if let Some(result) = round.result(tried) {
                return result;
            }
        }
        Err(round.error())
    }

    async fn download_from(&self, at: usize, all: usize, call: &Call) -> Result<Download, Tried> {
        let limit = silence(share(self.whole(), all), all);
        self.sign_of_life(at, limit).await?;
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
        match response.bytes().await {
            Ok(bytes) => Err(refused(endpoint, status, &bytes)),
            Err(error) => Err(Tried::Silent(failed(innermost(&error)))),
        }
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

    /// What the node announced of the snapshot.
    #[must_use]
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// The name of the node that it comes from.
    #[must_use]
    pub fn node(&self) -> &str {
        self.node.as_deref().unwrap_or(&self.endpoint)
    }

    /// Writes all of it to `out`; `progress` is called after each piece with the bytes so far.
    ///
    /// What was written before an error is of no use. Whether the bytes are right is for the reader
    /// of the file to check: every block carries its checksum.
    ///
    /// # Errors
    /// The connection broke or fell silent, or `out` did not take the bytes.
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
                Err(_) => return Err(broken("it fell silent".to_owned())),
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
