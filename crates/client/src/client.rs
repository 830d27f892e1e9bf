//! Sends requests: tries the endpoints in turn, applies deadlines, and distinguishes requests that
//! were not sent from requests without a response.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use seqd_api::{ErrorCode, Problem, TLS_REQUIRED, Token, Typed as _, op, without_secret};
use seqd_net::tls::ClientFiles;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::connect::connector;
use crate::endpoint::{Endpoint, no_endpoint};
use crate::error::{Attempt, Error};
use crate::round::{Budget, Endpoints, Round, Tried, Unusable, silence};

/// The time that the client waits beyond the server's deadline, so that it receives the server's
/// response about the missed deadline.
const GRACE: Duration = Duration::from_millis(500);

/// The longest deadline that a server accepts.
const MAX_SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The default deadline of a server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// The default deadline. It exceeds the default of the server, so that the server's response about
/// a missed deadline arrives.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest response. It exceeds the size of a million values, more than any node returns at
/// once.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The media types of almost every response.
const JSON: &str = "application/json, application/problem+json";

/// The options of a client.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The nodes, in the order in which they are tried. After a good response, its endpoint is
    /// tried first.
    pub endpoints: Vec<Endpoint>,
    /// The deadline of one request. All endpoints share it, and it is sent to the server. The
    /// default is the server's own deadline.
    pub timeout: Option<Duration>,
    /// The CAs and the certificate for `https` endpoints.
    pub tls: ClientFiles,
    /// Called after each request to an endpoint.
    pub trace: Option<fn(&Traced<'_>)>,
    /// The token, for nodes that require one. Over `http`, anyone who reads the network traffic can
    /// read it.
    pub token: Option<Token>,
}

/// A request to one endpoint.
#[derive(Debug)]
pub struct Traced<'a> {
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The result: a status, the code of a problem, or the reason why no response arrived.
    pub result: String,
    /// The duration of the request.
    pub took: Duration,
}

/// A client of one cluster. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoints: Arc<Endpoints>,
    /// The `Authorization` header, marked as sensitive so that no `Debug` output contains it.
    authorization: Option<HeaderValue>,
    timeout: Option<Duration>,
    trace: Option<fn(&Traced<'_>)>,
    /// The longest time of a request, over all attempts.
    total_limit: Duration,
}

/// A request that has not been assigned an endpoint.
pub(crate) struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    accept: &'static str,
    /// An additional header.
    header: Option<(HeaderName, HeaderValue)>,
    /// `true` if the request may have an effect, so that its outcome is unknown when the response
    /// is lost.
    changes: bool,
    /// The time for which the node may wait before it responds, in addition to any deadline.
    wait: Duration,
}

impl Call {
    /// Creates a request that may be lost without harm.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            query: Vec::new(),
            body: None,
            accept: JSON,
            header: None,
            changes: false,
            wait: Duration::ZERO,
        }
    }

    /// Creates a request whose outcome is unknown if its response is lost.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            changes: true,
            ..Self::get(path)
        }
    }

    /// Marks a change that may be lost and retried.
    pub(crate) fn repeatable(mut self) -> Self {
        self.changes = false;
        self
    }

    /// Sets the media type of the response. The default is JSON.
    pub(crate) fn accept(mut self, form: &'static str) -> Self {
        self.accept = form;
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Lets the node wait for up to `wait` before it responds.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Adds the fields of `request` as query keys.
    pub(crate) fn query(mut self, request: &impl Serialize) -> Result<Self, Error> {
        let value = serde_json::to_value(request).map_err(Error::setup)?;
        for (key, value) in value.as_object().into_iter().flatten() {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.query.push((key.clone(), text));
        }
        Ok(self)
    }

    /// Sets `request` as the JSON body.
    pub(crate) fn body(mut self, request: &impl Serialize) -> Result<Self, Error> {
        self.body = Some(serde_json::to_vec(request).map_err(Error::setup)?);
        Ok(self)
    }
}

impl Client {
    /// Creates a client of these endpoints. It does not connect to any of them yet.
    ///
    /// # Errors
    /// There is no endpoint, or the HTTP client cannot be created.
    pub fn new(options: Options) -> Result<Self, Error> {
        if options.endpoints.is_empty() {
            return Err(no_endpoint());
        }
        let total_limit = options.timeout.unwrap_or(DEFAULT_TIMEOUT) + GRACE;
        let any_https = options.endpoints.iter().any(Endpoint::is_https);
        let http = connector(total_limit, &options.tls, any_https)?;
        Ok(Self {
            http,
            endpoints: Arc::new(Endpoints::new(options.endpoints)),
            authorization: options.token.map(authorization).transpose()?,
            timeout: options.timeout,
            trace: options.trace,
            total_limit,
        })
    }

    /// Returns the same client with at most `limit` for a request.
    #[must_use]
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self {
            total_limit: self.total_limit.min(limit),
            ..self.clone()
        }
    }

    /// Sends `call` and returns the response.
    pub(crate) async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        Ok(self.send(call).await?.1)
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<(StatusCode, T), Error> {
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(Unusable::unreadable);
        self.send_as(call, json).await
    }

    /// Like [`Client::answer`], for a response in plain text.
    pub(crate) async fn answer_text(&self, call: Call) -> Result<String, Error> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(Unusable::unreadable);
        Ok(self.send_as(call, text).await?.1)
    }

    /// Sends `call`, passes the body of the response to `read`, and returns its result.
    pub(crate) async fn send_as<T>(
        &self,
        call: Call,
        read: impl Fn(&[u8]) -> Result<T, Unusable>,
    ) -> Result<(StatusCode, T), Error> {
        let mut round = Round::default();
        let mut budget = Budget::new(self.total_limit + call.wait);
        let order = self.endpoints.in_turn();
        for (tried, at) in order.iter().enumerate() {
            let left = order.len() - tried;
            let begun = Instant::now();
            let tried = self.try_endpoint(*at, left, &mut budget, &call, &read);
            let tried = tried.await;
            if let Some(trace) = self.trace {
                trace(&Traced {
                    endpoint: self.endpoints.at(*at),
                    method: call.method.as_str(),
                    path: &without_secret(&call.path),
                    result: match &tried {
                        Ok((status, _)) => status.as_u16().to_string(),
                        Err(tried) => tried.to_string(),
                    },
                    took: begun.elapsed(),
                });
            }
            if let Some(result) = round.result(tried) {
                return result;
            }
            if budget.look().is_zero() {
                break;
            }
        }
        Err(round.error())
    }

    /// Sends the request to one endpoint. `left` endpoints have not been tried, including this one.
    ///
    /// A request that must not be retried gets all of the remaining time, because no other endpoint
    /// is tried after it. It is therefore sent only to a node that has responded recently, at least
    /// to `/livez`. These checks get a share of the time, as the request does. The same applies to
    /// a request that the node may answer after a wait, while other endpoints are left.
    async fn try_endpoint<T>(
        &self,
        at: usize,
        left: usize,
        budget: &mut Budget,
        call: &Call,
        read: &impl Fn(&[u8]) -> Result<T, Unusable>,
    ) -> Result<(StatusCode, T), Tried> {
        let may_wait = !call.wait.is_zero();
        let needs_sign = call.changes || (may_wait && left > 1);
        if needs_sign && !self.endpoints.answered_lately(at) {
            // `/livez` is answered without the wait.
            let rest = budget.rest().min(self.total_limit);
            let limit = silence(share(rest, left + 1), left);
            self.sign_of_life(at, limit).await?;
            budget.look();
        }
        // Each node may use up the whole wait.
        let wait = call.wait.min(budget.rest());
        let limit = match share(budget.rest() - wait, left) + wait {
            _ if call.changes => budget.rest(),
            // A deadline set by the user is divided without the limit on silence, and so is the
            // time of a request that waits.
            share if may_wait || self.timeout.is_some() => share,
            share => silence(share, left),
        };
        let endpoint = self.endpoints.at(at);
        let attempt = |error: &reqwest::Error| Attempt::new(endpoint, innermost(error));
        let unanswered = |error: &reqwest::Error| {
            self.endpoints.was_silent(at);
            if call.changes {
                Tried::Final(Error::OutcomeUnknown(attempt(error)))
            } else {
                Tried::Silent(attempt(error))
            }
        };
        let request = self.request(endpoint, call, limit).send();
        let response = request.await.map_err(|error| {
            // A node that rejects the certificate of this client has not processed any of the
            // request.
            if error.is_connect() || seqd_net::tls::is_certificate_refused(&error) {
                self.endpoints.was_silent(at);
                Tried::NotSent(attempt(&error))
            } else {
                unanswered(&error)
            }
        })?;
        let status = response.status();
        let body = read_body(response).await;
        let Some(bytes) = body.map_err(|error| unanswered(&error))? else {
            let reason = format!("the response is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(Tried::Final(bad_answer(endpoint, status, b"", &reason)));
        };
        self.endpoints.answered(at, !status.is_server_error());
        if status.is_success() {
            return match read(&bytes) {
                Ok(answer) => Ok((status, answer)),
                Err(Unusable::Unreadable(reason)) => {
                    Err(Tried::Final(bad_answer(endpoint, status, &bytes, &reason)))
                }
                Err(Unusable::Elsewhere(problem)) => {
                    self.endpoints.answered(at, false);
                    Err(Tried::Retryable(problem))
                }
            };
        }
        Err(match refused(endpoint, status, &bytes) {
            tried @ Tried::WithoutTls(..) => {
                self.endpoints.was_silent(at);
                tried
            }
            // An intermediary may have forwarded the request before it failed.
            Tried::Final(Error::BadAnswer { .. }) if call.changes && status.is_server_error() => {
                let attempt = Attempt::new(endpoint, format!("status {status}"));
                Tried::Final(Error::OutcomeUnknown(attempt))
            }
            tried => tried,
        })
    }

    /// Waits for any response of the node itself to `/livez`. If none arrives, nothing that could
    /// have an effect was sent.
    pub(crate) async fn sign_of_life(&self, at: usize, limit: Duration) -> Result<(), Tried> {
        let endpoint = self.endpoints.at(at);
        let request = self.request(endpoint, &Call::get(op::GetLive::ROW.path), limit);
        let answer = async {
            let response = request.send().await?;
            let status = response.status();
            // The body is read to its end, so that the connection can be reused for the request.
            read_body(response).await.map(|_| status)
        };
        let reason = match answer.await {
            // A proxy returns such a status if it cannot reach the node.
            Ok(status) if status.is_server_error() => {
                format!("status {status} for {}", op::GetLive::ROW.path)
            }
            Ok(_) => {
                self.endpoints.answered(at, true);
                return Ok(());
            }
            Err(error) if error.is_connect() => innermost(&error),
            Err(error) => format!("{} {}", op::GetLive::ROW.path, innermost(&error)),
        };
        self.endpoints.was_silent(at);
        Err(Tried::NotSent(Attempt::new(endpoint, reason)))
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub(crate) const fn total_limit(&self) -> Duration {
        self.total_limit
    }

    /// Builds the request of `call` for this endpoint, with `limit` as the time for the response. The
    /// server gets a shorter deadline, unless its default is short enough and the caller set none.
    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        limit: Duration,
    ) -> reqwest::RequestBuilder {
        let mut query = call.query.clone();
        let told = limit.saturating_sub(call.wait).min(self.total_limit);
        let is_short = told < SERVER_TIMEOUT + GRACE;
        if (self.timeout.is_some() || is_short) && call.path.starts_with("/v1/") {
            let deadline = told.saturating_sub(GRACE).max(told / 2);
            let timeout_ms = deadline.min(MAX_SERVER_TIMEOUT).as_millis().max(1);
            query.push(("timeout_ms".to_owned(), timeout_ms.to_string()));
        }
        let request = self
            .http
            .request(call.method.clone(), endpoint.url(&call.path, &query))
            .timeout(limit)
            .header(header::ACCEPT, call.accept);
        let request = match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value.clone()),
            None => request,
        };
        let request = match &call.header {
            Some((name, value)) => request.header(name, value.clone()),
            None => request,
        };
        match &call.body {
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone()),
            None => request,
        }
    }
}

fn authorization(token: Token) -> Result<HeaderValue, Error> {
    let text = format!("Bearer {}", token.secret());
    let mut value = HeaderValue::try_from(text).map_err(Error::setup)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Divides the remaining time into `parts` equal shares.
pub(crate) fn share(rest: Duration, parts: usize) -> Duration {
    rest / u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}

/// Maps a response without a success status to the next step.
pub(crate) fn refused(endpoint: &Endpoint, status: StatusCode, bytes: &[u8]) -> Tried {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) if problem.retryable && !is_the_same_elsewhere(&problem) => {
            Tried::Retryable(Box::new(problem))
        }
        Ok(problem) if !endpoint.is_https() && requires_tls(&problem) => {
            let attempt = Attempt::new(endpoint, &*problem.detail);
            Tried::WithoutTls(attempt, Box::new(problem))
        }
        Ok(problem) => Tried::Final(Error::Problem(Box::new(problem))),
        Err(error) => Tried::Final(bad_answer(endpoint, status, bytes, &error.to_string())),
    }
}

/// Returns whether the port requires TLS. It has then not read the request.
fn requires_tls(problem: &Problem) -> bool {
    problem.extra.get(TLS_REQUIRED) == Some(&Value::Bool(true))
}

/// Returns whether every node would return the same response, such as the holder of a lock.
fn is_the_same_elsewhere(problem: &Problem) -> bool {
    &*problem.code == ErrorCode::LockHeld.as_str()
}

/// Returns the body of a response, or `None` if it is longer than any response of a node.
pub(crate) async fn read_body(
    mut response: reqwest::Response,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The error for a response that is not from seqd, with the beginning of its body.
fn bad_answer(endpoint: &Endpoint, status: StatusCode, bytes: &[u8], reason: &str) -> Error {
    let start: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
    Error::BadAnswer {
        endpoint: endpoint.to_string(),
        status: status.as_u16(),
        reason: format!("{reason}; the response begins with {start:?}"),
    }
}

/// Returns the innermost cause: `connection refused`, not `error sending request`.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return if error.is_connect() {
            "connecting timed out"
        } else {
            "timed out"
        }
        .to_owned();
    }
    if let Some(words) = seqd_net::tls::words_of(error) {
        return words;
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
