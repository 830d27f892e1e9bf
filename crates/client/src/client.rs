//! Sending a request: endpoints in turn, deadlines, and telling "not sent" from "not answered".

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use seqd_api::{ErrorCode, Problem, Token, Typed as _, op};
use seqd_net::tls::ClientFiles;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connect::connector;
use crate::endpoint::{Endpoint, no_endpoint};
use crate::error::{Attempt, Error};
use crate::round::{Budget, Endpoints, Round, Tried, silence};

/// How much longer than the server's deadline the client waits: the server's answer about a missed
/// deadline is worth more than a guess.
const GRACE: Duration = Duration::from_millis(500);

/// The longest deadline that a server takes.
const MAX_SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// A server's own deadline, where its configuration sets no other.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// The deadline where none is set: above a server's own, so that its answer about a missed deadline
/// arrives.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// More than a million values take, which no node gives at once.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// What nearly every answer is.
const JSON: &str = "application/json, application/problem+json";

/// How a client is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The nodes, in the order in which they are tried; the last one that answered well is first.
    pub endpoints: Vec<Endpoint>,
    /// The deadline of one request, which all endpoints share and which is sent to the server too;
    /// the server's own if none is set.
    pub timeout: Option<Duration>,
    /// CAs and certificate for `https` endpoints.
    pub tls: ClientFiles,
    /// What nodes that serve nobody else are shown. Over `http` whoever reads the network has it.
    pub token: Option<Token>,
}

/// A client of one cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoints: Arc<Endpoints>,
    /// The `Authorization` header, marked as a secret: no `Debug` shows it.
    authorization: Option<HeaderValue>,
    timeout: Option<Duration>,
    /// How long a request may take with all that is tried for it.
    whole: Duration,
}

/// A request before it has an endpoint.
pub(crate) struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    accept: &'static str,
    /// One more header.
    header: Option<(HeaderName, HeaderValue)>,
    /// Whether an answer that got lost may have left something behind that matters.
    changes: bool,
    /// How long the node may wait before it answers, beyond any deadline.
    wait: Duration,
}

impl Call {
    /// A request that may be lost without harm.
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

    /// A request whose lost answer leaves its outcome unknown.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            changes: true,
            ..Self::get(path)
        }
    }

    /// Another method, for a request that may be lost and repeated all the same.
    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// The form in which the answer is wanted; JSON by default.
    pub(crate) fn accept(mut self, form: &'static str) -> Self {
        self.accept = form;
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }

    /// A request that the node answers after a wait of up to this.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The fields of `request` as query keys.
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

    /// `request` as the JSON body.
    pub(crate) fn body(mut self, request: &impl Serialize) -> Result<Self, Error> {
        self.body = Some(serde_json::to_vec(request).map_err(Error::setup)?);
        Ok(self)
    }
}

impl Client {
    /// A client of these endpoints; connects to none of them yet.
    ///
    /// # Errors
    /// No endpoint, or the HTTP client cannot be made.
    pub fn new(options: Options) -> Result<Self, Error> {
        if options.endpoints.is_empty() {
            return Err(no_endpoint());
        }
        let whole = options.timeout.unwrap_or(DEFAULT_TIMEOUT) + GRACE;
        let any_https = options.endpoints.iter().any(Endpoint::is_https);
        let http = connector(whole, &options.tls, any_https)?;
        Ok(Self {
            http,
            endpoints: Arc::new(Endpoints::new(options.endpoints)),
            authorization: options.token.map(authorization).transpose()?,
            timeout: options.timeout,
            whole,
        })
    }

    /// The same client with less time for a request, or as much as it has.
    #[must_use]
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self {
            whole: self.whole.min(limit),
            ..self.clone()
        }
    }

    /// The answer to `call`.
    pub(crate) async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        Ok(self.send(call).await?.1)
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<(StatusCode, T), Error> {
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
        self.send_as(call, json).await
    }

    /// As [`Client::answer`], for an answer that is plain text.
    pub(crate) async fn answer_text(&self, call: Call) -> Result<String, Error> {
        let text =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string());
        Ok(self.send_as(call, text).await?.1)
    }

    async fn send_as<T>(
        &self,
        call: Call,
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<(StatusCode, T), Error> {
        let mut round = Round::default();
        let mut budget = Budget::new(self.whole + call.wait);
        let order = self.endpoints.in_turn();
        for (tried, at) in order.iter().enumerate() {
            let left = order.len() - tried;
            let tried = self.try_endpoint(*at, left, &mut budget, &call, &read);
            if let Some(result) = round.result(tried.await) {
                return result;
            }
            if budget.look().is_zero() {
                break;
            }
        }
        Err(round.error())
    }

    /// Asks one endpoint; `left` are still to be tried, this one among them.
    ///
    /// What may not be repeated has all the time that is left: nobody else is asked after it. So it
    /// goes only to a node that has shown that it lives, and each of these shows has a share of the
    /// time, as the request itself has. So does a request that the node answers after a wait, while
    /// others are left.
    async fn try_endpoint<T>(
        &self,
        at: usize,
        left: usize,
        budget: &mut Budget,
        call: &Call,
        read: &impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<(StatusCode, T), Tried> {
        let may_wait = !call.wait.is_zero();
        let needs_sign = call.changes || (may_wait && left > 1);
        if needs_sign && !self.endpoints.answered_lately(at) {
            let limit = silence(share(budget.rest(), left + 1), left);
            self.sign_of_life(at, limit).await?;
            budget.look();
        }
        let limit = match share(budget.rest(), left) {
            _ if call.changes => budget.rest(),
            // The user's own deadline, and a wait that was asked for, are shared as they are.
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
            // A node that refuses this client's certificate acts on nothing that was sent.
            if error.is_connect() || seqd_net::tls::is_certificate_refused(&error) {
                self.endpoints.was_silent(at);
                Tried::NotSent(attempt(&error))
            } else {
                unanswered(&error)
            }
        })?;
        let status = response.status();
        let bytes = whole(response).await.map_err(|error| unanswered(&error))?;
        let Some(bytes) = bytes else {
            let reason = format!("it is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(Tried::Final(bad_answer(endpoint, status, b"", &reason)));
        };
        self.endpoints.answered(at, !status.is_server_error());
        if status.is_success() {
            return match read(&bytes) {
                Ok(answer) => Ok((status, answer)),
                Err(reason) => Err(Tried::Final(bad_answer(endpoint, status, &bytes, &reason))),
            };
        }
        Err(match refused(endpoint, status, &bytes) {
            // Whatever stands between may have passed the request on before it failed.
            Tried::Final(Error::BadAnswer { .. }) if call.changes && status.is_server_error() => {
                let attempt = Attempt::new(endpoint, format!("status {status}"));
                Tried::Final(Error::OutcomeUnknown(attempt))
            }
            tried => tried,
        })
    }

    /// Waits for any answer of the node itself to `/livez`. Without one, nothing was sent to it
    /// that could have an effect.
    pub(crate) async fn sign_of_life(&self, at: usize, limit: Duration) -> Result<(), Tried> {
        let endpoint = self.endpoints.at(at);
        let request = self.request(endpoint, &Call::get(op::GetLive::ROW.path), limit);
        let answer = async {
            let response = request.send().await?;
            let status = response.status();
            // Read to its end, so that the connection serves the request itself too.
            response.bytes().await.map(|_| status)
        };
        let reason = match answer.await {
            // A proxy answers so for a node that it does not reach.
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

    pub(crate) const fn whole(&self) -> Duration {
        self.whole
    }

    /// The request that `call` is at this endpoint, to be answered within `limit`. The server is
    /// given a deadline that leaves time for its answer about it; none where none was set and its
    /// own does.
    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        limit: Duration,
    ) -> reqwest::RequestBuilder {
        let mut query = call.query.clone();
        let told = limit.saturating_sub(call.wait).min(self.whole);
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

/// An equal part of what is left for each of `parts`.
pub(crate) fn share(rest: Duration, parts: usize) -> Duration {
    rest / u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}

/// What a status that is no success leads to.
pub(crate) fn refused(endpoint: &Endpoint, status: StatusCode, bytes: &[u8]) -> Tried {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) if problem.retryable && !is_the_same_elsewhere(&problem) => {
            Tried::Retryable(Box::new(problem))
        }
        Ok(problem) => Tried::Final(Error::Problem(Box::new(problem))),
        Err(error) => Tried::Final(bad_answer(endpoint, status, bytes, &error.to_string())),
    }
}

/// Whether each node has the same answer: who holds a lock does so at all of them.
fn is_the_same_elsewhere(problem: &Problem) -> bool {
    &*problem.code == ErrorCode::LockHeld.as_str()
}

/// The bytes of an answer; `None` for one that is longer than any of a node.
async fn whole(mut response: reqwest::Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// An answer that is not seqd's, with what it begins with.
fn bad_answer(endpoint: &Endpoint, status: StatusCode, bytes: &[u8], reason: &str) -> Error {
    let start: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
    Error::BadAnswer {
        endpoint: endpoint.to_string(),
        status: status.as_u16(),
        reason: format!("{reason}; it begins {start:?}"),
    }
}

/// The cause at the bottom of the chain: `connection refused`, not `error sending request`.
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
