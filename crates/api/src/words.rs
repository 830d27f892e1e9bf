//! Converts errors of serde about a request into messages for people, without type names and parser
//! syntax.

use serde_json::error::{Category, Error};

use crate::problem::Problem;
use crate::request::unknown;

/// Returns the names between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the JSON term for a type name of serde.
fn kind(text: &str) -> &'static str {
    match text
        .split(['`', '"', ','])
        .next()
        .unwrap_or_default()
        .trim()
    {
        "integer" | "floating point" => "a number",
        "boolean" => "true or false",
        "string" => "a string",
        "sequence" => "a list",
        "map" => "an object",
        "null" | "unit value" => "null",
        _ => "something else",
    }
}

/// Returns the message for a value that does not fit, without the name of its field.
pub(crate) fn of_value(error: &str) -> String {
    if let Some((found, expected)) = error
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.rsplit_once(", expected "))
    {
        let expected = match expected {
            "a map" => "an object",
            "string or map" => "a string",
            other => other,
        };
        return format!("expected {expected}, not {}", kind(found));
    }
    if let Some(rest) = error.strip_prefix("unknown variant ")
        && let [found, known @ ..] = quoted(rest).as_slice()
    {
        let found: String = found.chars().take(80).collect();
        return format!("{found:?} is not one of {}", known.join(", "));
    }
    if error.starts_with("missing field ")
        && let [field] = quoted(error).as_slice()
    {
        return format!("{field} is missing");
    }
    error.to_owned()
}

/// Returns the problem if the error concerns an unknown field of a nested object.
pub(crate) fn of_inner_field(outer: &str, error: &str) -> Option<Problem> {
    let names = quoted(error.strip_prefix("unknown field ")?);
    let (field, known) = names.split_first()?;
    let known: Vec<String> = known.iter().map(|name| format!("{outer}.{name}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Some(unknown(&format!("{outer}.{field}"), "field", &known))
}

/// Returns the message for a body that is not JSON or has a duplicate key.
pub(crate) fn of_body(error: &Error) -> String {
    let text = error.to_string();
    let place = format!("line {}, column {}", error.line(), error.column());
    let what = text.split(" at line ").next().unwrap_or_default();
    match error.classify() {
        Category::Data => format!("{what} in the body ({place})"),
        Category::Eof => "the body is not JSON: it ends too early".to_owned(),
        Category::Syntax if what == "recursion limit exceeded" => {
            "the body is nested too deeply".to_owned()
        }
        Category::Syntax | Category::Io => format!("the body is not JSON: {what} ({place})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_json() {
        for (error, words) in [
            (
                "invalid type: integer `7`, expected a string",
                "expected a string, not a number",
            ),
            (
                "invalid type: string \"a, b\", expected a map",
                "expected an object, not a string",
            ),
            (
                "invalid type: sequence, expected string or map",
                "expected a string, not a list",
            ),
            (
                "unknown variant `both`, expected `segment` or `strict`",
                "\"both\" is not one of segment, strict",
            ),
            ("missing field `to`", "to is missing"),
            ("count is odd", "count is odd"),
        ] {
            assert_eq!(of_value(error), words);
        }
    }

    #[test]
    fn a_field_inside_of_another_is_named_with_it_and_the_nearest_offered() {
        let error = "unknown field `tarket`, expected one of `target`, `min`, `max`";
        let problem = of_inner_field("segment", error).unwrap();
        assert_eq!(&*problem.code, "unknown-field");
        assert_eq!(&*problem.detail, "unknown field \"segment.tarket\"");
        let hint = problem.hint.unwrap();
        assert_eq!(&*hint, "did you mean \"segment.target\"?");
    }
}
