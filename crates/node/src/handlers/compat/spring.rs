//! The responses of Spring Boot 2, which Leaf and TinyID are built with: a text in the type that
//! the client accepts, and the JSON of an error.

use axum::http::HeaderValue;
use serde_json::json;

use super::{JSON, response};
use crate::http::{Foreign, Response};
use crate::services::Services;
use crate::times::rfc3339;

/// The types that a text can have. The first is the default.
const TEXTS: [(&str, &str); 3] = [
    ("text/plain", "text/plain;charset=UTF-8"),
    ("application/json", "application/json;charset=UTF-8"),
    ("text/html", "text/html;charset=UTF-8"),
];

/// A text in the type that the client prefers.
pub(super) fn text(from: &Foreign, body: String) -> Response {
    response(200, kind(from.accept()), body)
}

fn kind(accept: &str) -> HeaderValue {
    let mut best = (0.0, TEXTS[0].1);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        let weight = weight.unwrap_or(1.0);
        let known = match name {
            "*/*" | "text/*" => Some(TEXTS[0]),
            "application/*" => Some(TEXTS[1]),
            _ => (TEXTS.into_iter()).find(|(text, _)| name.eq_ignore_ascii_case(text)),
        };
        if let Some((_, full)) = known.filter(|_| weight > best.0) {
            best = (weight, full);
        }
    }
    HeaderValue::from_static(best.1)
}

/// The JSON of an error, in the order of Spring's fields.
pub(super) fn error(
    node: &Services,
    from: &Foreign,
    (status, reason): (u16, &str),
    message: &str,
) -> Response {
    let time = rfc3339(node.ids.clock.wall());
    let time = time.trim_end_matches('Z');
    let body = format!(
        r#"{{"timestamp":"{time}+0000","status":{status},"error":"{reason}","message":{},"path":{}}}"#,
        json!(message),
        json!(from.path),
    );
    response(status, JSON, body)
}

/// The error of a parameter that is missing or has another type.
pub(super) fn bad_request(node: &Services, from: &Foreign, message: &str) -> Response {
    error(node, from, (400, "Bad Request"), message)
}

/// The error of a path that takes other methods.
pub(super) fn method_not_allowed(node: &Services, from: &Foreign) -> Response {
    let message = format!("Request method '{}' not supported", from.method);
    error(node, from, (405, "Method Not Allowed"), &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_type_that_the_client_prefers() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, expected) in [
            ("", TEXTS[0].1),
            ("*/*", TEXTS[0].1),
            ("image/png", TEXTS[0].1),
            ("application/json", TEXTS[1].1),
            ("text/plain, application/json, */*", TEXTS[0].1),
            ("text/plain;q=0.5, application/json", TEXTS[1].1),
            (browser, TEXTS[2].1),
        ] {
            assert_eq!(kind(accept), expected, "{accept}");
        }
    }
}
