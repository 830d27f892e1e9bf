//! A name has the same form in all responses: an integer that may exceed 2^53 is always a string.

use serde_json::Value;

/// Integers that may exceed 2^53, and times.
const TEXTS: &[&str] = &[
    "first",
    "last",
    "next",
    "start",
    "increment",
    "min",
    "max",
    "allocated",
    "remaining",
    "lease",
    "from_tick",
    "fence_tick",
    "tick",
    "grant",
    "largest",
    "ids_per_second_of_all",
    "origin",
    "time",
    "exhausted_at",
    "fence_time",
    "created",
    "expires",
    "token",
];

const NUMBERS: &[&str] = &[
    "count",
    "term",
    "applied",
    "unix_ms",
    "epoch_ms",
    "worker",
    "workers",
    "status",
    "ids_per_second",
    "lag_entries",
    "voters",
    "tick_ms",
    "level",
    "per_second",
    "expires_in_ms",
    "held",
    "waiting",
];

/// Returns an error with the first name in a response that has another form.
pub(crate) fn check(answer: &Value) -> Result<(), String> {
    named("", answer)
}

fn named(name: &str, value: &Value) -> Result<(), String> {
    let fits = match value {
        // Sizes of ranges, not values. They have the names of bounds.
        Value::Object(_) if name == "segment" => true,
        Value::Object(fields) => {
            return fields
                .iter()
                .try_for_each(|(name, value)| named(name, value));
        }
        Value::Array(items) => return items.iter().try_for_each(|item| named(name, item)),
        Value::String(_) => !NUMBERS.contains(&name),
        Value::Number(_) => !TEXTS.contains(&name),
        Value::Null | Value::Bool(_) => true,
    };
    fits.then_some(())
        .ok_or_else(|| format!("{name} has another form: {value}"))
}

#[test]
fn a_value_that_may_pass_2_to_the_53_must_be_a_text() {
    let answer = |text: &str| check(&serde_json::from_str(text).expect("JSON"));
    assert!(answer(r#"{"ranges": [{"first": "4", "count": 2}]}"#).is_ok());
    assert!(answer(r#"{"ranges": [{"first": 4}]}"#).is_err());
    assert!(answer(r#"{"count": "2"}"#).is_err());
}
