//! An operation of the HTTP API: what a row of [`crate::operations`] declares.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::code::ErrorCode as E;
use crate::request::Request;
use crate::scope::{Need, Scope};

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads. On a path that allocates, takes values.
    Get,
    /// Does something.
    Post,
    /// Creates or replaces.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// The method as it is written in a request.
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

/// A form that an answer is sent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `text/plain`, one value a line.
    Text,
    /// `application/json`.
    Json,
    /// Prometheus's text form, `text/plain`.
    Metrics,
    /// The same metrics in the form of OpenMetrics.
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

/// Whether a request may be sent again after its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// A repetition does no harm.
    Harmless,
    /// A repetition with the same `nonce` returns the same answer.
    WithNonce,
    /// The outcome of the first request matters and is unknown.
    Never,
}

/// One method of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The name: the method of the client, and the `operationId` of OpenAPI.
    pub id: &'static str,
    /// The method.
    pub method: Method,
    /// The template of the path, such as `/v1/sequences/{name}`.
    pub path: &'static str,
    /// One sentence of documentation.
    pub about: &'static str,
    /// What it requires of the caller's token, where callers need one.
    pub need: Need,
    /// The forms of its answer. The first applies if the caller asks for none.
    pub media: &'static [Media],
    /// The status of a success, and another one if there are two.
    pub statuses: &'static [u16],
    /// Whether a request takes a value. POST is then the same operation, and HEAD is refused, as it
    /// would take a value and show nothing.
    pub allocates: bool,
    /// Whether `?dry_run=1` returns the effect of a request without causing it.
    pub has_dry_run: bool,
    /// Whether a request with an `Idempotency-Key` is served once.
    pub takes_key: bool,
    /// Whether `wait_ms` delays the answer beyond the deadline.
    pub waits: bool,
    /// Whether it may be repeated after a lost answer.
    pub repeat: Repeat,
    /// The codes that only some operations return. [`Operation::codes`] has all.
    pub own_codes: &'static [E],
    /// Whether the leader is involved.
    pub needs_quorum: bool,
}

/// The codes that each operation of `/v1/` can return.
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

/// JSON alone.
const JSON: &[Media] = &[Media::Json];
/// Text where nothing is asked for.
pub(crate) const TEXT_FIRST: &[Media] = &[Media::Text, Media::Json];
/// JSON where nothing is asked for.
pub(crate) const JSON_FIRST: &[Media] = &[Media::Json, Media::Text];

impl Operation {
    /// An operation that the answering node serves by itself and that changes nothing.
    #[must_use]
    pub const fn local(need: Need) -> Self {
        Self {
            id: "",
            method: Method::Get,
            path: "",
            about: "",
            need,
            media: JSON,
            statuses: &[200],
            allocates: false,
            has_dry_run: false,
            takes_key: false,
            waits: false,
            repeat: Repeat::Harmless,
            own_codes: &[],
            needs_quorum: false,
        }
    }

    /// An operation that reads what the leader confirms.
    #[must_use]
    pub const fn read(need: Need) -> Self {
        let mut read = Self::local(need);
        read.needs_quorum = true;
        read
    }

    /// An operation that changes the replicated state. It must not be repeated.
    #[must_use]
    pub const fn change(need: Need) -> Self {
        let mut change = Self::read(need);
        change.repeat = Repeat::Never;
        change
    }

    /// An operation that returns numbers that nobody else receives.
    #[must_use]
    pub const fn allocate() -> Self {
        let mut allocate = Self::local(Need::Anywhere(Scope::Allocate));
        allocate.allocates = true;
        allocate
    }

    /// The same with other forms of the answer.
    #[must_use]
    pub const fn media(mut self, media: &'static [Media]) -> Self {
        self.media = media;
        self
    }

    /// The same with other statuses of a success, the usual one first.
    #[must_use]
    pub const fn statuses(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// The same with a dry run.
    #[must_use]
    pub const fn dry_run(mut self) -> Self {
        self.has_dry_run = true;
        self
    }

    /// The same with `Idempotency-Key`.
    #[must_use]
    pub const fn keyed(mut self) -> Self {
        self.takes_key = true;
        self
    }

    /// The same with an answer that `wait_ms` delays.
    #[must_use]
    pub const fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// The same with another rule for repetitions.
    #[must_use]
    pub const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// The same with error codes of its own.
    #[must_use]
    pub const fn codes_of(mut self, codes: &'static [E]) -> Self {
        self.own_codes = codes;
        self
    }

    /// Whether it is served without a token.
    #[must_use]
    pub const fn is_public(&self) -> bool {
        matches!(self.need, Need::Nothing)
    }

    /// Every error code that it can return, in the order of the table of codes.
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

    /// The names of the path's parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// An operation with the types of its request and its answer.
pub trait Typed {
    /// The fields of the query or of the JSON body.
    type Request: Request;
    /// The JSON answer.
    type Response: Serialize + DeserializeOwned;
    /// The row of the table.
    const ROW: &'static Operation;
}
