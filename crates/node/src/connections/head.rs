//! Reads hot requests from the bytes of a connection.
//!
//! hyper is the parser of every other request. Therefore each deviation from the plain form of a
//! request is `Other`. hyper then receives the same bytes, and decides whether they are a request.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{HeaderMap, Method, Request, Uri};
use memchr::memmem;
use seqd_guards::is_out;

/// Returns whether requests with this method and path are hot.
pub(crate) type IsHot = fn(&Method, &str) -> bool;

/// The most headers of a hot request: several times those of an HTTP library.
const HEADERS: usize = 24;

/// The beginning of a connection's bytes.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned, and a box is an allocation per request"
)]
pub(super) enum Next {
    /// A hot request with its body, and the number of bytes of the body that are missing. Its bytes
    /// are removed.
    Request(Request<Bytes>, usize),
    /// There are no bytes.
    Nothing,
    /// Anything else, also a part of a hot request's head. Its bytes remain.
    Other,
}

/// Takes a hot request from the beginning of the bytes.
pub(super) fn next(bytes: &mut BytesMut, is_hot: IsHot) -> Next {
    if bytes.is_empty() {
        return Next::Nothing;
    }
    let Some((head, begin, length)) = head(bytes, is_hot) else {
        return Next::Other;
    };
    let end = bytes.len().min(begin + length);
    let missing = begin + length - end;
    // Copied, so that one buffer serves all requests of the connection.
    let body = Bytes::copy_from_slice(&bytes[begin..end]);
    bytes.advance(end);
    Next::Request(head.map(|()| body), missing)
}

/// The head of a hot request, its length, and the length of its body.
fn head(bytes: &[u8], is_hot: IsHot) -> Option<(Request<()>, usize, usize)> {
    let method = match bytes {
        [b'G', b'E', b'T', b' ', b'/', ..] => Method::GET,
        [b'P', b'O', b'S', b'T', b' ', b'/', ..] => Method::POST,
        _ => return None,
    };
    let len = memmem::find(bytes, b"\r\n\r\n")? + 4;
    // The values of the headers are parts of this copy.
    let copy = Bytes::copy_from_slice(&bytes[..len]);
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
    let mut found = httparse::Request::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut found,
        &copy,
        &mut headers,
    );
    let is_whole = matches!(parsed, Ok(httparse::Status::Complete(end)) if end == len);
    let (path, headers) = (found.path?, found.headers);
    if !is_whole || found.version != Some(1) {
        return None;
    }
    let uri = Uri::from_maybe_shared(copy.slice_ref(path.as_bytes())).ok()?;
    if !is_hot(&method, uri.path()) {
        return None;
    }
    let mut map = HeaderMap::with_capacity(headers.len());
    let mut length = None;
    for header in headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            let given = digits(header.value)?;
            if length.replace(given).is_some() {
                return None;
            }
        }
        if !is_plain(&name, header.value) {
            return None;
        }
        // An empty value need not be a slice of the copy.
        let value = match header.value {
            [] => HeaderValue::from_static(""),
            value => HeaderValue::from_maybe_shared(copy.slice_ref(value)).ok()?,
        };
        map.append(name, value);
    }
    let length = length.unwrap_or(0);
    if length > 0 && method != Method::POST {
        return None;
    }
    let mut head = Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = uri;
    *head.headers_mut() = map;
    Some((head, len, length))
}

/// Returns whether the header changes neither where a message ends nor what follows it.
fn is_plain(name: &HeaderName, value: &[u8]) -> bool {
    if name == CONNECTION {
        return value.eq_ignore_ascii_case(b"keep-alive");
    }
    ![EXPECT, TRANSFER_ENCODING, UPGRADE].contains(name) || is_out!(HotFramingPlain)
}

/// A length in up to seven digits, which is more than any body may have.
fn digits(text: &[u8]) -> Option<usize> {
    if !(1..=7).contains(&text.len()) {
        return None;
    }
    text.iter().try_fold(0, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        Some(number * 10 + digit)
    })
}
