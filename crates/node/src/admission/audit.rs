//! Logs each request that changes the cluster or reads all of it: the caller, its address, the
//! request and the status of the response.
//!
//! Invariant: each request has exactly one line, also if its caller disconnects before the
//! response.

use std::borrow::Cow;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use seqd_api::{Operation, without_secret};

use super::sender::Sender;
use crate::access::Caller;
use crate::connections::ClientConnection;

/// The most bytes of a target that are logged, several times those of a usual request. Escaping
/// makes up to five bytes of one.
const MOST_TARGET: usize = 512;

/// A part of a query is cut after this many bytes, so that no part pushes the next one out of
/// the line.
const MOST_PART: usize = 128;

/// The query keys that are read at every path.
const OF_EVERY_PATH: [&str; 2] = ["dry_run", "timeout_ms"];

/// The logged details of a request, recorded before the request is read. Dropping it writes the
/// line.
pub(crate) struct Audit {
    /// The HTTP method, or the name of another protocol and the command.
    method: String,
    target: String,
    caller: Caller,
    from: Option<IpAddr>,
    request_id: String,
    /// The IDs of the caller's trace and span, if the request had any.
    trace: Option<(String, String)>,
    /// 0 until there is a response.
    status: u16,
}

impl Audit {
    pub(crate) fn of(method: &str, target: &str, sender: &Sender, request_id: &str) -> Self {
        let connection = sender.connection.as_ref();
        Self {
            method: method.to_owned(),
            target: plain(&cut(without_secret(target), MOST_TARGET)),
            caller: sender.caller,
            from: connection.and_then(ClientConnection::address),
            request_id: request_id.to_owned(),
            trace: None,
            status: 0,
        }
    }

    /// Adds the IDs of the caller's trace and span.
    pub(crate) fn with_trace(mut self, trace: &str, parent: &str) -> Self {
        self.trace = Some((trace.to_owned(), parent.to_owned()));
        self
    }

    /// Records the status; for another protocol, the status that HTTP would have returned.
    pub(crate) fn answered(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let from = self
            .from
            .map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        // The log passes this target at every level.
        tracing::info!(
            target: "seqd_audit",
            who = %self.caller,
            from = %from,
            status = self.status,
            request_id = %self.request_id,
            trace_id = self.trace.as_ref().map(|(trace, _)| trace),
            parent_id = self.trace.as_ref().map(|(_, parent)| parent),
            "audit: {}{}{}",
            self.method,
            if self.target.is_empty() { "" } else { " " },
            self.target,
        );
    }
}

/// The target without the parts of the query that the operation does not declare: its caller may
/// have given a lease, a claim or a one-time token there. Empty parts are left out, because they
/// could fill the line.
pub(crate) fn declared(target: &str, operation: &Operation) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target.to_owned();
    };
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let key = part.split('=').next().unwrap_or_default();
        let key = &*percent_decode_str(key).decode_utf8_lossy();
        if OF_EVERY_PATH.contains(&key) || operation.fields.contains(&key) {
            parts.push(cut(part.into(), MOST_PART));
        } else if parts.last().is_none_or(|last| last != "...") {
            parts.push("...".into());
        }
    }
    format!("{path}?{}", parts.join("&"))
}

/// The beginning of a long text.
fn cut(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text;
    }
    let mut ends = (0..=most).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..end]))
}

/// Escapes everything except printable ASCII, because a target may contain any bytes above ASCII.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_graphic() {
            plain.push(character);
        } else {
            plain.extend(character.escape_unicode());
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use seqd_api::{Typed as _, op};

    use super::*;

    #[test]
    fn only_declared_parts_of_a_query_are_logged() {
        let shown = |target| declared(target, op::BreakLock::ROW);
        assert_eq!(shown("/v1/locks/a/break"), "/v1/locks/a/break");
        assert_eq!(
            shown("/v1/locks/a/break?lease=7.1f2e&dry_run=1"),
            "/v1/locks/a/break?...&dry_run=1"
        );
        assert_eq!(shown("/v1/locks/a/break?7.1f2e"), "/v1/locks/a/break?...");
        let encoded = "/v1/locks/a/break?dry%5Frun=1";
        assert_eq!(shown(encoded), encoded, "it is a dry run");
        let padded = format!("/v1/locks/a/break?{}token=7", "&".repeat(200));
        assert_eq!(shown(&padded), "/v1/locks/a/break?token=7");
        let padded = format!("/v1/locks/a/break?dry_run={}1&token=7", "0".repeat(600));
        assert!(shown(&padded).ends_with("0...&token=7"));
        let tokens = "/v1/tokens?tenant=operator&token=1A2b3C4d5E6secret&timeout_ms=9";
        let expected = "/v1/tokens?tenant=operator&...&timeout_ms=9";
        assert_eq!(declared(tokens, op::DeleteOneTimeTokens::ROW), expected);
    }

    #[test]
    fn a_long_target_is_cut() {
        let sender = Sender::default();
        let target = |text: &str| Audit::of("GET", text, &sender, "-").target.clone();
        let short = "a".repeat(MOST_TARGET);
        assert_eq!(target(&short), short);
        assert_eq!(target(&format!("{short}b")), format!("{short}..."));
        // No character is divided.
        let accents = target(&format!("/{}", "\u{e9}".repeat(7000)));
        let kept = "\\u{e9}".repeat((MOST_TARGET - 1) / 2);
        assert_eq!(accents, format!("/{kept}..."));
    }

    #[test]
    fn a_target_has_no_line_end_of_any_kind() {
        assert_eq!(plain("/v1/a%0a?b=c"), "/v1/a%0a?b=c");
        assert_eq!(
            plain("/\u{85}\u{2028}\u{202e}\n"),
            "/\\u{85}\\u{2028}\\u{202e}\\u{a}"
        );
    }
}
