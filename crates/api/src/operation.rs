//! An operation of the HTTP API, as declared by a row of [`crate::operations`].

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::code::ErrorCode as E;
use crate::request::Request;
use crate::scope::{Need, Scope};

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads. On a path that allocates, it also takes values.
    Get,
    /// Performs an action.
    Post,
    /// Creates or replaces an object.
    Put,
    /// Changes a part of an object.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Method {
    /// The method in its wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A media type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `text/plain`, one value per line.
    Text,
    /// `application/json`.
    Json,
    /// Metrics in Prometheus's text format, `text/plain`.
    Metrics,
    /// The same metrics in the OpenMetrics format.
    OpenMetrics,
    /// `application/octet-stream`.
    Bytes,
}

impl Media {
    /// The media type without parameters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text | Self::Metrics => "text/plain",
            Self::OpenMetrics => "application/openmetrics-text",
            Self::Json => "application/json",
            Self::Bytes => "application/octet-stream",
        }
    }
}

/// The rule for retrying a request after its response was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// A retry is harmless.
    Harmless,
    /// A retry with the same `nonce` receives the same response.
    WithNonce,
    /// A retry is not safe: the outcome of the first request is unknown.
    Never,
}

/// One method of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The name: the method of the client, and the `operationId` in OpenAPI.
    pub id: &'static str,
    /// The method.
    pub method: Method,
    /// The template of the path, such as `/v1/sequences/{name}`.
    pub path: &'static str,
    /// One or two sentences of documentation.
    pub about: &'static str,
    /// The permission that the caller's token needs, if authentication is enabled.
    pub need: Need,
    /// The fields of the request type. Each may be a query key.
    pub fields: &'static [&'static str],
    /// The media types of the response. The first is the default.
    pub media: &'static [Media],
    /// The status of a successful response, and a second one if there are two.
    pub statuses: &'static [u16],
    /// True if a request takes a value. POST is then the same operation, and HEAD is rejected
    /// because it would take a value without returning it.
    pub allocates: bool,
    /// True if `?dry_run=1` returns the effect of a request without causing it.
    pub has_dry_run: bool,
    /// True if a request with an `Idempotency-Key` is served once.
    pub takes_key: bool,
    /// The conditional headers that a change evaluates.
    pub conditions: &'static [&'static str],
    /// True if `wait_ms` can delay the response beyond the deadline.
    pub waits: bool,
    /// The rule for retrying it after its response was lost.
    pub repeat: Repeat,
    /// A field of its request type that it refuses, because it returns one value.
    pub refused_field: Option<&'static str>,
    /// The codes that are specific to the operation. [`Operation::codes`] returns all codes.
    pub own_codes: &'static [E],
    /// True if the leader is involved.
    pub needs_quorum: bool,
}

/// The codes that every operation of `/v1/` can return.
const EVERYWHERE: &[E] = &[
    E::InvalidArgument,
    E::UnknownField,
    E::NotAcceptable,
    E::BodyTooLarge,
    E::UriTooLong,
    E::HeadTooLarge,
    E::UnsupportedMediaType,
    E::WrongCluster,
    E::UnknownHost,
    E::Internal,
    E::Draining,
    E::Overloaded,
];

const TOKENS: &[E] = &[E::Unauthorized, E::Forbidden, E::RateLimited];

const QUORUM: &[E] = &[E::NoQuorum, E::NodeRemoved];

/// Only JSON.
const JSON: &[Media] = &[Media::Json];
/// Text by default.
pub(crate) const TEXT_FIRST: &[Media] = &[Media::Text, Media::Json];
/// JSON by default.
pub(crate) const JSON_FIRST: &[Media] = &[Media::Json, Media::Text];

impl Operation {
    /// An operation that the answering node serves on its own and that changes nothing.
    #[must_use]
    pub const fn local(need: Need) -> Self {
        Self {
            id: "",
            method: Method::Get,
            path: "",
            about: "",
            need,
            fields: &[],
            media: JSON,
            statuses: &[200],
            allocates: false,
            has_dry_run: false,
            takes_key: false,
            conditions: &[],
            waits: false,
            repeat: Repeat::Harmless,
            refused_field: None,
            own_codes: &[],
            needs_quorum: false,
        }
    }

    /// An operation that reads state that the leader confirms.
    #[must_use]
    pub const fn read(need: Need) -> Self {
        let mut read = Self::local(need);
        read.needs_quorum = true;
        read
    }

    /// An operation that changes the replicated state. It must not be retried after a lost
    /// response.
    #[must_use]
    pub const fn change(need: Need) -> Self {
        let mut change = Self::read(need);
        change.repeat = Repeat::Never;
        change
    }

    /// An operation that returns numbers that no other caller receives.
    #[must_use]
    pub const fn allocate() -> Self {
        let mut allocate = Self::local(Need::Anywhere(Scope::Allocate));
        allocate.allocates = true;
        allocate
    }

    /// Sets the media types of the response.
    #[must_use]
    pub const fn media(mut self, media: &'static [Media]) -> Self {
        self.media = media;
        self
    }

    /// Sets the statuses of a successful response, the usual one first.
    #[must_use]
    pub const fn statuses(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// Adds a dry run.
    #[must_use]
    pub const fn dry_run(mut self) -> Self {
        self.has_dry_run = true;
        self
    }

    /// Accepts an `Idempotency-Key`.
    #[must_use]
    pub const fn keyed(mut self) -> Self {
        self.takes_key = true;
        self
    }

    /// Sets the conditional headers.
    #[must_use]
    pub const fn conditions(mut self, conditions: &'static [&'static str]) -> Self {
        self.conditions = conditions;
        self
    }

    /// Lets `wait_ms` delay the response.
    #[must_use]
    pub const fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Sets the rule for retries.
    #[must_use]
    pub const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Refuses a field of the request type.
    #[must_use]
    pub const fn refuses(mut self, field: &'static str) -> Self {
        self.refused_field = Some(field);
        self
    }

    /// Sets the error codes that are specific to the operation.
    #[must_use]
    pub const fn codes_of(mut self, codes: &'static [E]) -> Self {
        self.own_codes = codes;
        self
    }

    /// Returns whether it is served without a token.
    #[must_use]
    pub const fn is_public(&self) -> bool {
        matches!(self.need, Need::Nothing)
    }

    /// Returns every error code that it can return, in the order of the table of codes.
    #[must_use]
    pub fn codes(&self) -> Vec<E> {
        let mut codes: Vec<E> = [EVERYWHERE, self.own_codes].concat();
        if !self.is_public() {
            codes.extend_from_slice(TOKENS);
        }
        if self.needs_quorum {
            codes.extend_from_slice(QUORUM);
        }
        if self.needs_quorum && self.method != Method::Get {
            codes.push(E::OutcomeUnknown);
        }
        if self.takes_key {
            codes.extend([E::InProgress, E::FingerprintMismatch, E::OutcomeUnknown]);
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Returns the names of the path parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// An operation with the types of its request and its response.
pub trait Typed {
    /// The fields of the query or of the JSON body.
    type Request: Request;
    /// The JSON response.
    type Response: Serialize + DeserializeOwned;
    /// The row of the table.
    const ROW: &'static Operation;
}
