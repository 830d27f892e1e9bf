//! The trace context of a request: the header `traceparent` of W3C Trace Context, for the log.

use axum::http::HeaderMap;
use axum::http::{HeaderName, HeaderValue};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The lengths of version, trace ID, parent ID and flags.
const PARTS: [usize; 4] = [2, 32, 16, 2];

/// A version that is never valid.
const INVALID_VERSION: &str = "ff";

/// The length of a header of version 00. Later versions may append parts.
const LENGTH: usize = 55;

/// The header as it arrived. It is read only for a request that is logged.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(Option<HeaderValue>);

/// The IDs of a trace and of the caller's span in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceIds<'a> {
    pub(super) trace: &'a str,
    pub(super) parent: &'a str,
}

impl Trace {
    /// The header of a request. Several headers count as none, because the valid one cannot be
    /// determined.
    pub(super) fn of(headers: &HeaderMap) -> Trace {
        let Some(first) = headers.get(TRACEPARENT) else {
            return Trace(None);
        };
        let is_only = headers.get_all(TRACEPARENT).iter().nth(1).is_none();
        Trace(is_only.then(|| first.clone()))
    }

    /// The IDs; `None` without a header or if it is malformed.
    pub(super) fn ids(&self) -> Option<TraceIds<'_>> {
        read(self.0.as_ref()?.to_str().ok()?)
    }
}

fn read(text: &str) -> Option<TraceIds<'_>> {
    let mut parts = text.splitn(5, '-');
    let mut part = |length: usize| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let part = parts.next()?;
        (part.len() == length && part.bytes().all(is_digit)).then_some(part)
    };
    let [version, trace, parent, flags] = PARTS.map(&mut part);
    let (version, trace, parent, _) = (version?, trace?, parent?, flags?);
    let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
    let is_valid = version != INVALID_VERSION
        && (version != "00" || text.len() == LENGTH)
        && !is_zero(trace)
        && !is_zero(parent);
    is_valid.then_some(TraceIds { trace, parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn a_valid_header_has_the_ids_of_its_trace_and_parent() {
        let ids = TraceIds {
            trace: TRACE,
            parent: PARENT,
        };
        for text in [
            format!("00-{TRACE}-{PARENT}-01"),
            format!("00-{TRACE}-{PARENT}-00"),
            format!("cc-{TRACE}-{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like"),
        ] {
            assert_eq!(read(&text), Some(ids), "{text}");
        }
    }

    #[test]
    fn a_malformed_header_is_ignored() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("00-{TRACE}-{PARENT}-01."),
            format!("cc-{TRACE}-{PARENT}-01.more"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{TRACE}-{PARENT}x-01"),
            format!("00-{TRACE}-{PARENT}-0g"),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }

    #[test]
    fn of_several_headers_none_counts() {
        let mut headers = HeaderMap::new();
        let value: HeaderValue = format!("00-{TRACE}-{PARENT}-01").parse().unwrap();
        headers.append(TRACEPARENT, value.clone());
        assert!(Trace::of(&headers).ids().is_some());
        headers.append(TRACEPARENT, value);
        assert!(Trace::of(&headers).ids().is_none());
        assert!(Trace::of(&HeaderMap::new()).ids().is_none());
    }
}
