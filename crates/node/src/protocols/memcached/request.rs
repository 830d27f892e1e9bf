//! A request of either form of the protocol.

use bytes::Bytes;
use seqd_api::{ErrorCode, Problem};

/// The longest key, as in the memcached server.
pub(super) const MAX_KEY_BYTES: usize = 250;

/// The most keys of a get: ten times as many as clients request together, and a tenth of the IDs of
/// an HTTP request.
pub(super) const MAX_KEYS: usize = 1000;

/// The longest data that is discarded: the largest item of a memcached server with its defaults.
pub(super) const MAX_DATA_BYTES: u64 = 1 << 20;

/// The content of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// A fresh ID for each key.
    Ids(Vec<Bytes>),
    /// A get that exceeds a limit.
    Refused(Problem),
    Version,
    Stats,
    /// A no-op: the response only marks that all earlier requests were answered.
    Nothing,
    /// A command that is not supported.
    Unknown,
    Quit,
}

/// The form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text { with_cas: bool },
    Binary { opcode: u8, opaque: [u8; 4] },
}

#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) asked: Asked,
    pub(super) form: Form,
    /// True if the client does not expect a response.
    pub(super) is_silent: bool,
    /// True if the connection ends after this request.
    pub(super) is_last: bool,
    /// The number of bytes after the request to discard.
    pub(super) data_bytes: u64,
}

impl Request {
    pub(super) fn new(asked: Asked, form: Form) -> Request {
        Request {
            is_last: asked == Asked::Quit,
            asked,
            form,
            is_silent: false,
            data_bytes: 0,
        }
    }

    /// Discards this much data after the request, or ends the connection if that is too much.
    pub(super) fn with_data(mut self, bytes: u64) -> Request {
        if bytes > MAX_DATA_BYTES {
            self.is_last = true;
        } else {
            self.data_bytes = bytes;
        }
        self
    }

    /// The label of the command.
    pub(super) fn command(&self) -> &'static str {
        match self.asked {
            Asked::Ids(_) | Asked::Refused(_) => "get",
            Asked::Version => "version",
            Asked::Stats => "stats",
            Asked::Nothing | Asked::Unknown | Asked::Quit => "other",
        }
    }
}

/// A get of these keys, or its refusal if a limit is exceeded.
pub(super) fn ids(keys: Vec<Bytes>) -> Asked {
    if keys.len() > MAX_KEYS {
        let detail = format!("a get takes at most {MAX_KEYS} keys");
        return Asked::Refused(Problem::new(ErrorCode::CountTooLarge, detail));
    }
    if keys
        .iter()
        .any(|key| !(1..=MAX_KEY_BYTES).contains(&key.len()))
    {
        let detail = format!("a key has 1 to {MAX_KEY_BYTES} bytes");
        return Asked::Refused(Problem::new(ErrorCode::InvalidArgument, detail));
    }
    Asked::Ids(keys)
}
