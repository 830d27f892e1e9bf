//! Sending a request: endpoints in turn, deadlines, and telling "not sent" from "not answered".

use std::time::Duration;

use reqwest::{Method, StatusCode, header};
use seqd_api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connect::connector;
use crate::endpoint::{Endpoint, no_endpoint};
use crate::error::{Attempt, Error};

/// How much longer than the server's deadline the client waits: the server's answer about a missed
/// deadline is worth more than a guess.
const GRACE: Duration = Duration::from_millis(500);

/// The longest deadline that a server takes.
const MAX_SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The deadline where none is set: above a server's own default of three seconds, so that its
/// answer about a missed deadline arrives.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// What nearly every answer is.
const JSON: &str = "application/json, application/problem+json";

/// How a client is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes, in the order in which they are tried.
    pub endpoints: Vec<Endpoint>,
    /// The deadline of one request, which is sent to the server too; the server's own if none is set.
    pub timeout: Option<Duration>,
}

/// A client of one cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoints: Vec<Endpoint>,
    timeout: Option<Duration>,
}

/// A request before it has an endpoint.
pub(crate) struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    accept: &'static str,
    /// Whether an answer that got lost may have left something behind that matters.
    changes: bool,
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
            changes: false,
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

    /// The form in which the answer is wanted; JSON by default.
    pub(crate) fn accept(mut self, form: &'static str) -> Self {
        self.accept = form;
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

/// How one endpoint ended; the first two leave the next one to be tried.
pub(crate) enum Tried {
    NotConnected(Attempt),
    Retryable(Box<Problem>),
    Final(Error),
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
        let http = connector(whole)?;
        Ok(Self {
            http,
            endpoints: options.endpoints,
            timeout: options.timeout,
        })
    }

    /// The same client for one endpoint alone.
    #[must_use]
    pub fn only(&self, endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
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
        for endpoint in &self.endpoints {
            let tried = self.try_endpoint(endpoint, &call, &read).await;
            if let Some(result) = round.result(tried) {
                return result;
            }
        }
        Err(round.error())
    }

    async fn try_endpoint<T>(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        read: &impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<(StatusCode, T), Tried> {
        let attempt = |reason| Attempt::new(endpoint, reason);
        let unanswered = |error: &reqwest::Error| {
            let attempt = attempt(innermost(error));
            Tried::Final(if call.changes {
                Error::OutcomeUnknown(attempt)
            } else {
                Error::NoAnswer(attempt)
            })
        };
        let response = self.request(endpoint, call).send().await.map_err(|error| {
            if error.is_connect() {
                Tried::NotConnected(attempt(innermost(&error)))
            } else {
                unanswered(&error)
            }
        })?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unanswered(&error))?;
        if status.is_success() {
            return match read(&bytes) {
                Ok(answer) => Ok((status, answer)),
                Err(reason) => Err(Tried::Final(bad_answer(endpoint, status, &bytes, &reason))),
            };
        }
        Err(match refused(endpoint, status, &bytes) {
            // Whatever stands between may have passed the request on before it failed.
            Tried::Final(Error::BadAnswer { .. }) if call.changes && status.is_server_error() => {
                Tried::Final(Error::OutcomeUnknown(attempt(format!("status {status}"))))
            }
            tried => tried,
        })
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The request that `call` is at this endpoint.
    pub(crate) fn request(&self, endpoint: &Endpoint, call: &Call) -> reqwest::RequestBuilder {
        let mut query = call.query.clone();
        if let Some(timeout) = self.timeout
            && call.path.starts_with("/v1/")
        {
            let timeout_ms = timeout.min(MAX_SERVER_TIMEOUT).as_millis().max(1);
            query.push(("timeout_ms".to_owned(), timeout_ms.to_string()));
        }
        let request = self
            .http
            .request(call.method.clone(), endpoint.url(&call.path, &query))
            .header(header::ACCEPT, call.accept);
        match &call.body {
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone()),
            None => request,
        }
    }
}

/// What the endpoints that were tried so far answered.
#[derive(Default)]
pub(crate) struct Round {
    not_connected: Vec<Attempt>,
    problem: Option<Box<Problem>>,
}

impl Round {
    /// The result of the round; `None` if the next endpoint is to be tried.
    pub(crate) fn result<T>(&mut self, tried: Result<T, Tried>) -> Option<Result<T, Error>> {
        match tried {
            Ok(answer) => return Some(Ok(answer)),
            Err(Tried::Final(error)) => return Some(Err(error)),
            Err(Tried::NotConnected(attempt)) => self.not_connected.push(attempt),
            Err(Tried::Retryable(problem)) => self.problem = Some(problem),
        }
        None
    }

    /// The error of a round without an answer. A node's problem explains more than a refused
    /// connection to another.
    pub(crate) fn error(self) -> Error {
        let Round {
            not_connected,
            problem,
        } = self;
        problem.map_or(Error::Unreachable(not_connected), Error::Problem)
    }
}

/// What a status that is no success leads to.
pub(crate) fn refused(endpoint: &Endpoint, status: StatusCode, bytes: &[u8]) -> Tried {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) if problem.retryable => Tried::Retryable(Box::new(problem)),
        Ok(problem) => Tried::Final(Error::Problem(Box::new(problem))),
        Err(error) => Tried::Final(bad_answer(endpoint, status, bytes, &error.to_string())),
    }
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
