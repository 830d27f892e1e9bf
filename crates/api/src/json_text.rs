//! A JSON value that keeps its original text: its numbers and the order of its members do not
//! change.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value in its original text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Creates a value from a text.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn new(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Self)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "JsonText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }

    fn inline_schema() -> bool {
        true
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl fmt::Debug for JsonText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_as_it_was_written() {
        for text in [
            "null",
            "1.50",
            "{\"b\": 1, \"a\":[12345678901234567890123]}",
        ] {
            let value = JsonText::new(text.to_owned()).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            let list: Vec<JsonText> = serde_json::from_str(&format!("[ {text} ]")).unwrap();
            assert_eq!(list, [value]);
        }
        for text in ["", "{", "paid", "1 2"] {
            assert!(JsonText::new(text.to_owned()).is_err(), "{text}");
        }
    }
}
