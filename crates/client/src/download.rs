//! A snapshot on its way from a node to a file.
//!
//! The next endpoint is tried until the first bytes come, since nothing is changed by asking. After
//! that a broken connection ends it: the rest of another node's snapshot would not fit.

use std::time::Duration;

use reqwest::Response;
use seqd_api::{Problem, SNAPSHOT_CONTENT_TYPE, SnapshotHead, SnapshotQuery, paths};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::client::{Call, Client, bad_answer, innermost};
use crate::endpoint::Endpoint;
use crate::error::{Attempt, Error};

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
        let call = Call::get(paths::SNAPSHOT).accept(SNAPSHOT_CONTENT_TYPE);
        let call = call.query(query)?;
        let mut attempts = Vec::new();
        let mut problem = None;
        for endpoint in self.endpoints() {
            let request = self.request(endpoint, &call).timeout(NO_LIMIT);
            let failed = |reason: String| Attempt {
                endpoint: endpoint.to_string(),
                reason,
            };
            let response = match timeout(BUILD_LIMIT, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => {
                    attempts.push(failed(innermost(&error)));
                    continue;
                }
                Err(_) => {
                    attempts.push(failed("timed out".to_owned()));
                    continue;
                }
            };
            if response.status().is_success() {
                return Download::begin(endpoint, response);
            }
            match refusal(endpoint, response).await? {
                answer if answer.retryable => problem = Some(Box::new(answer)),
                answer => return Err(Error::Problem(Box::new(answer))),
            }
        }
        // A node's answer explains more than a refused connection to another.
        Err(problem.map_or(Error::Unreachable(attempts), Error::Problem))
    }
}

async fn refusal(endpoint: &Endpoint, response: Response) -> Result<Problem, Error> {
    let status = response.status();
    let bytes = response.bytes().await.map_err(|error| {
        Error::NoAnswer(Attempt {
            endpoint: endpoint.to_string(),
            reason: innermost(&error),
        })
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| bad_answer(endpoint, status, &bytes, &error.to_string()))
}

impl Download {
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
                Error::NoAnswer(Attempt {
                    endpoint: self.endpoint.clone(),
                    reason,
                })
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
