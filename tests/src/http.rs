//! A blocking HTTP client for stories. A call returns the status, problem code, body, headers and
//! time.
//!
//! It follows no redirect and retries nothing: a story sees each response of a node.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::generators;

/// The client's timeout: longer than the server's default of 3 s, so that a hang counts as a
/// missing response of the server and not as a timeout of the client.
pub const PATIENCE: Duration = Duration::from_secs(8);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(generators::runtime);

static CLIENT: LazyLock<Client> = LazyLock::new(client);

/// A client that accepts any certificate: stories about certificates use the program itself.
fn client() -> Client {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .tls_danger_accept_invalid_certs(true)
        .build()
        .expect("a client")
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The time from sending the request to the last byte of the response.
    pub elapsed: Duration,
}

#[derive(Debug, Clone)]
pub enum Failure {
    /// The connection was refused: certainly no effect.
    Refused(String),
    /// The connection broke or timed out after the request may have been sent.
    Unknown(String),
}

impl Reply {
    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// Returns whether it is the replay of an earlier response.
    pub fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed").is_some()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The `code` of a problem, else an empty string.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The `detail` of a problem.
    pub fn detail(&self) -> String {
        self.json()["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns whether a problem guarantees that the request had no effect.
    pub fn retryable(&self) -> bool {
        self.json()["retryable"].as_bool().unwrap_or(false)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the response, which must be a success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(
            (200..300).contains(&self.status),
            "{} {}",
            self.status,
            self.body
        );
        self
    }

    /// Returns the response, which must be this refusal.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{}",
            self.body
        );
        let kind = self.header("content-type").unwrap_or_default();
        assert!(
            kind.starts_with("application/problem+json"),
            "an error sent as {kind:?}"
        );
        let is_later = matches!(status, 429 | 503) || self.json()["retry_after_ms"].is_u64();
        assert_eq!(
            self.header("retry-after").is_some(),
            is_later,
            "{}",
            self.body
        );
        self
    }
}

#[derive(Debug)]
pub struct Request(RequestBuilder);

pub fn get(url: &str) -> Request {
    request("GET", url)
}

pub fn post(url: &str) -> Request {
    request("POST", url)
}

pub fn request(method: &str, url: &str) -> Request {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    Request(CLIENT.request(method, url))
}

impl Request {
    pub fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value))
    }

    pub fn accept_json(self) -> Self {
        self.header("accept", "application/json")
    }

    pub fn json(self, body: &Value) -> Self {
        Self(self.0.json(body))
    }

    pub fn body(self, body: impl Into<String>) -> Self {
        Self(self.0.body(body.into()))
    }

    pub fn patience(self, patience: Duration) -> Self {
        Self(self.0.timeout(patience))
    }

    pub fn send(self) -> Result<Reply, Failure> {
        RUNTIME.block_on(answer(self.0))
    }

    /// Sends the request and discards the body. Returns the number of its bytes.
    #[track_caller]
    pub fn length(self) -> u64 {
        RUNTIME.block_on(async {
            let mut answer = self.0.send().await.expect("an answer");
            assert!(answer.status().is_success(), "{}", answer.status());
            let mut length = 0;
            while let Some(chunk) = answer.chunk().await.expect("the rest of the body") {
                length += chunk.len() as u64;
            }
            length
        })
    }

    /// Sends the request to a node, which must answer.
    #[track_caller]
    pub fn reply(self) -> Reply {
        match self.send() {
            Ok(reply) => reply,
            Err(failure) => panic!("no answer: {failure:?}"),
        }
    }
}

async fn answer(request: RequestBuilder) -> Result<Reply, Failure> {
    let begin = Instant::now();
    let failed = |error: reqwest::Error| {
        let chain = chain(&error);
        if error.is_connect() {
            Failure::Refused(chain)
        } else {
            Failure::Unknown(chain)
        }
    };
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status().as_u16();
    let headers = answer
        .headers()
        .iter()
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    // After the head arrived the request has had its effect, whatever happens to the body.
    let body = answer
        .text()
        .await
        .map_err(|error| Failure::Unknown(chain(&error)))?;
    Ok(Reply {
        status,
        headers,
        body,
        elapsed: begin.elapsed(),
    })
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
