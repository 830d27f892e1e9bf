//! The fields in which an existing object differs from the requested one.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// The fields that make two definitions of a sequence different. A description does not.
pub(super) const OF_SEQUENCES: &[&str] = &[
    "mode",
    "start",
    "increment",
    "min",
    "max",
    "cycle",
    "segment",
];

/// The fields that make two layouts different.
pub(super) const OF_LAYOUTS: &[&str] = &[
    "epoch",
    "tick_ms",
    "time_bits",
    "datacenter_bits",
    "worker_bits",
    "sequence_bits",
    "order",
    "first_sequence",
];

/// An object that exists with another definition.
#[derive(Debug)]
pub(crate) struct Differs {
    /// `sequence` or `layout`.
    pub(crate) what: &'static str,
    pub(crate) name: String,
    /// True if the object was deleted and only its definition is kept.
    pub(crate) is_deleted: bool,
    pub(crate) fields: Vec<Difference>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) field: String,
    pub(crate) have: String,
    pub(crate) asked: String,
}

impl Differs {
    /// The differences for programs.
    pub(crate) fn to_json(&self) -> Value {
        let fields = self.fields.iter();
        let fields = fields.map(|Difference { field, have, asked }| {
            json!({ "field": field, "have": have, "asked": asked })
        });
        fields.collect()
    }
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, .. } = self;
        if self.is_deleted {
            write!(
                f,
                "the {what} {name} was deleted; it can be created again only with its former \
                 definition: "
            )?;
        } else {
            write!(f, "the {what} {name} exists with another definition: ")?;
        }
        for (at, Difference { field, have, asked }) in self.fields.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{field} is {have}, not {asked}")?;
        }
        Ok(())
    }
}

/// Compares the named fields of two objects of the API. The fields of an inner object are compared
/// one by one.
pub(super) fn between<T: Serialize>(have: &T, asked: &T, fields: &[&str]) -> Vec<Difference> {
    let [have, asked] = [have, asked].map(|of| serde_json::to_value(of).unwrap_or_default());
    let mut found = Vec::new();
    for field in fields {
        compare(field, &have[*field], &asked[*field], &mut found);
    }
    found
}

fn compare(field: &str, have: &Value, asked: &Value, found: &mut Vec<Difference>) {
    if have == asked {
        return;
    }
    if let (Value::Object(have), Value::Object(asked)) = (have, asked) {
        for (inner, value) in have {
            let other = asked.get(inner).unwrap_or(&Value::Null);
            compare(&format!("{field}.{inner}"), value, other, found);
        }
        return;
    }
    let shown = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(_) => "set".to_owned(),
        other => other.to_string(),
    };
    found.push(Difference {
        field: field.to_owned(),
        have: shown(have),
        asked: shown(asked),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_differing_field_is_named_with_both_values() {
        let have =
            json!({"mode": "segment", "max": "9", "segment": {"min": 1, "max": 5}, "note": 1});
        let asked =
            json!({"mode": "segment", "max": "8", "segment": {"min": 1, "max": 7}, "note": 2});
        let mut differs = Differs {
            what: "sequence",
            name: "order".to_owned(),
            is_deleted: false,
            fields: between(&have, &asked, &["mode", "max", "segment"]),
        };
        let expected = "the sequence order exists with another definition: max is 9, not 8, \
            segment.max is 5, not 7";
        assert_eq!(differs.to_string(), expected);
        assert_eq!(
            differs.to_json()[0],
            json!({"field": "max", "have": "9", "asked": "8"})
        );
        differs.is_deleted = true;
        assert!(differs.to_string().contains("was deleted"));
        let none = json!({"mode": "strict", "segment": null});
        let some = between(&none, &have, &["segment"]);
        assert_eq!((&*some[0].have, &*some[0].asked), ("none", "set"));
    }
}
