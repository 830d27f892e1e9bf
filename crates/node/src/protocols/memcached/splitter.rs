//! Splits the bytes of a connection into requests.
//!
//! The data of a storage command is discarded as it arrives. A request whose end cannot be found
//! is the last one of its connection.

use bytes::{Buf as _, BytesMut};

use super::request::{Form, Request};
use super::{binary, text};

/// Splits the bytes of one connection. Its first byte decides the form of all requests.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    is_binary: Option<bool>,
    /// The number of bytes that are still to be discarded.
    data_bytes: u64,
    /// The number of bytes of an incomplete line that were searched for a line end.
    searched: usize,
}

impl Splitter {
    /// Takes the next complete request.
    pub(super) fn next(&mut self, bytes: &mut BytesMut) -> Option<Request> {
        let present = usize::try_from(self.data_bytes).unwrap_or(usize::MAX);
        let discarded = present.min(bytes.len());
        bytes.advance(discarded);
        self.data_bytes -= discarded as u64;
        let first = *bytes.first()?;
        let is_binary = *self.is_binary.get_or_insert(first == binary::REQUEST);
        let request = if is_binary {
            binary::next(bytes)
        } else {
            text::next(bytes, &mut self.searched)
        };
        let request = request?;
        self.data_bytes = request.data_bytes;
        Some(request)
    }

    /// The form of a response that belongs to no request.
    pub(super) fn form(&self) -> Form {
        match self.is_binary {
            Some(true) => binary::NO_REQUEST,
            _ => Form::Text { with_cas: false },
        }
    }
}
