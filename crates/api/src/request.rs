//! Decodes requests from the query and the body into one object. Unknown and duplicate keys are
//! rejected by name.
//!
//! Numbers and booleans in a query are strings, so request types accept both.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::code::ErrorCode;
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::unique::Unique;
use crate::words;

/// The largest body, in bytes. The largest legitimate request is a definition of a few hundred
/// bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// A request type and the names of its fields.
pub trait Request: DeserializeOwned {
    /// Every field, for messages about an unknown field.
    const FIELDS: &'static [&'static str];
}

/// Decodes a request from the decoded pairs of a query and a JSON body. Either may be empty.
///
/// # Errors
/// `unknown-field` with the nearest name, or `invalid-argument`.
pub fn decode<T: Request>(query: &[(String, String)], body: &[u8]) -> Result<T, Problem> {
    decode_known(query, body, T::FIELDS)
}

/// Like [`decode`], for an operation that accepts only the `known` fields of the request type.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_known<T: Request>(
    query: &[(String, String)],
    body: &[u8],
    known: &[&str],
) -> Result<T, Problem> {
    let mut fields = body_object(body)?;
    each_once(query)?;
    for key in fields.keys() {
        check_known(key, "field", known)?;
    }
    for (key, _) in query {
        check_known(key, "query key", known)?;
        if fields.contains_key(key) {
            return Err(invalid(format!(
                "{key} is given both in the query and in the body"
            )));
        }
    }
    for (key, value) in query {
        fields.insert(key.clone(), Value::String(value.clone()));
    }
    field_by_field::<T>(fields)
}

/// Checks that no key occurs twice in a query.
///
/// # Errors
/// `invalid-argument` with the key.
pub fn each_once(query: &[(String, String)]) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    match query.iter().find(|(key, _)| !seen.insert(key)) {
        None => Ok(()),
        Some((key, _)) => {
            let key: String = key.chars().take(80).collect();
            Err(invalid(format!("{key} is given twice in the query")))
        }
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(ErrorCode::InvalidArgument, shortened(detail))
}

/// The number of characters kept at each end of a detail. A detail quotes a value, which may be as
/// long as a body, between words that explain the error.
const KEPT_OF_DETAIL: usize = 120;

/// Removes the middle of a long detail.
fn shortened(detail: String) -> String {
    let places: Vec<usize> = detail.char_indices().map(|(at, _)| at).collect();
    if places.len() <= 3 * KEPT_OF_DETAIL {
        return detail;
    }
    let (head, tail) = (
        places[KEPT_OF_DETAIL],
        places[places.len() - KEPT_OF_DETAIL],
    );
    format!("{} ... {}", &detail[..head], &detail[tail..])
}

/// Decodes a request and names the invalid field: the messages of serde contain the value, but not
/// the field.
fn field_by_field<T: Request>(fields: Map<String, Value>) -> Result<T, Problem> {
    let whole = serde_json::from_value::<T>(Value::Object(fields.clone()));
    whole.map_err(|error| {
        let culprit = fields.iter().find(|(key, value)| {
            let alone = Map::from_iter([((*key).clone(), (*value).clone())]);
            let message = serde_json::from_value::<T>(Value::Object(alone)).err();
            message.is_some_and(|message| message.to_string() == error.to_string())
        });
        let error = error.to_string();
        match culprit {
            Some((key, _)) if !error.starts_with("missing field") => {
                let inner = words::of_inner_field(key, &error);
                inner.unwrap_or_else(|| invalid(format!("{key}: {}", words::of_value(&error))))
            }
            _ => invalid(words::of_value(&error)),
        }
    })
}

fn body_object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Unique(Value::Object(fields))) => Ok(fields),
        Ok(_) => Err(invalid("the body is not a JSON object".to_owned())),
        Err(error) => Err(invalid(words::of_body(&error))),
    }
}

fn check_known(key: &str, what: &str, known: &[&str]) -> Result<(), Problem> {
    if known.contains(&key) {
        return Ok(());
    }
    Err(unknown(key, what, known))
}

/// Creates the problem for an unknown field or query key, with the nearest known name as a hint.
#[must_use]
pub fn unknown(key: &str, what: &str, known: &[&str]) -> Problem {
    let key: String = key.chars().take(80).collect();
    let problem = Problem::new(ErrorCode::UnknownField, format!("unknown {what} {key:?}"));
    match nearest(&key, known) {
        Some(near) => problem.with_hint(format!("did you mean {near:?}?")),
        None if known.is_empty() => problem.with_hint("this request takes no fields"),
        None => problem.with_hint(format!("known: {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NextRequest, SequenceSpec};

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused_at_any_depth() {
        for body in [
            r#"{"mode":"strict","mode":"segment"}"#,
            r#"{"segment":{"min":"1","min":"2"}}"#,
        ] {
            let problem = decode::<SequenceSpec>(&[], body.as_bytes()).unwrap_err();
            assert_eq!(&*problem.code, "invalid-argument");
            assert!(problem.detail.contains("is given twice"), "{problem:?}");
        }
    }

    #[test]
    fn a_list_is_not_an_object() {
        for (body, word) in [("[]", "object"), (r#"{"segment":[]}"#, "segment: ")] {
            let problem = decode::<SequenceSpec>(&[], body.as_bytes()).unwrap_err();
            assert_eq!(&*problem.code, "invalid-argument", "{body}");
            assert!(problem.detail.contains(word), "{problem:?}");
        }
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let long = "7".repeat(MAX_BODY_BYTES / 2) + "x";
        let query = pairs(&[("count", &long)]);
        let body = format!("{{\"count\":\"{long}\"}}");
        for (query, body) in [(&query[..], ""), (&[], body.as_str())] {
            let problem = decode::<NextRequest>(query, body.as_bytes()).unwrap_err();
            assert!(problem.detail.len() < 500, "{}", problem.detail.len());
            assert!(problem.detail.starts_with("count: \"777"), "{problem:?}");
            assert!(
                problem.detail.ends_with("7x\" is not an integer"),
                "{problem:?}"
            );
        }
    }

    #[test]
    fn query_and_body_make_one_request() {
        let request: NextRequest = decode(
            &pairs(&[("expand", "1")]),
            br#"{"count":"100","contiguous":false}"#,
        )
        .unwrap();
        assert_eq!(request.count, Some(100));
        assert_eq!(
            (request.expand, request.contiguous),
            (Some(true), Some(false))
        );
        let nothing: NextRequest = decode(&[], b" ").unwrap();
        assert_eq!(nothing.count, None);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        let problem = decode::<NextRequest>(&pairs(&[("cuont", "1")]), b"").unwrap_err();
        assert_eq!(&*problem.code, "unknown-field");
        assert_eq!(problem.hint.as_deref(), Some("did you mean \"count\"?"));
        let problem = decode::<SequenceSpec>(&[], br#"{"incremnt":2}"#).unwrap_err();
        assert_eq!(problem.hint.as_deref(), Some("did you mean \"increment\"?"));
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        let both = decode::<NextRequest>(&pairs(&[("count", "1")]), br#"{"count":1}"#).unwrap_err();
        assert_eq!(
            &*both.detail,
            "count is given both in the query and in the body"
        );
        let twice = pairs(&[("count", "1"), ("count", "1")]);
        let problem = decode::<NextRequest>(&twice, b"").unwrap_err();
        assert_eq!(&*problem.code, "invalid-argument");
    }

    #[test]
    fn a_wrong_value_is_named() {
        let problem = decode::<NextRequest>(&pairs(&[("count", "-1")]), b"").unwrap_err();
        assert_eq!(
            &*problem.detail,
            "count: -1 is outside the range of this field, 0 to 18446744073709551615"
        );
        let problem = decode::<NextRequest>(&[], b"[1]").unwrap_err();
        assert_eq!(&*problem.detail, "the body is not a JSON object");
    }
}
