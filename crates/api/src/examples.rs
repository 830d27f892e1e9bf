//! The examples in the description of the API: requests and responses.
//!
//! `examples.json` contains the values of fields, by name. A name has the same meaning in all
//! responses, so one value per name is enough. `Type.name` is for a type in which the name has
//! another meaning. A field that is not in the file gets the empty value of its type.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::operation::{Media, Method, Operation};

static EXAMPLES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// The deepest nesting of an example. The types of the responses are not recursive.
const MOST_DEPTH: u32 = 8;

/// The fields of an example request, or null if the request needs none. On a path that allocates,
/// POST has the fields of GET.
pub(crate) fn request(operation: &Operation) -> &'static Value {
    &EXAMPLES["requests"][operation.id]
}

/// The value of a parameter of a path in this family.
pub(crate) fn parameter(tag: &str, name: &str) -> &'static Value {
    &EXAMPLES["paths"][tag][name]
}

/// Adds an example to the default form of each successful response.
pub(crate) fn add_answers(document: &mut Value, operations: &[&Operation]) {
    let schemas = document["components"]["schemas"].take();
    for operation in operations {
        let also = operation.allocates.then_some(Method::Post);
        for method in [Some(operation.method), also].into_iter().flatten() {
            let method = method.as_str().to_lowercase();
            let described = &mut document["paths"][operation.path][method];
            let statuses = described["responses"].as_object_mut().into_iter().flatten();
            for (_, response) in statuses.filter(|(status, _)| status.starts_with('2')) {
                add_answer(response, operation, &schemas);
            }
        }
    }
    document["components"]["schemas"] = schemas;
}

fn add_answer(response: &mut Value, operation: &Operation, schemas: &Value) {
    let Some(form) = operation.media.first() else {
        return;
    };
    let Some(content) = response["content"].get_mut(form.name()) else {
        return;
    };
    let example = match EXAMPLES["answers"].get(operation.id) {
        Some(whole) => whole.clone(),
        None if *form == Media::Json => of(&content["schema"], ("", ""), schemas, 0),
        None => Value::Null,
    };
    if !example.is_null() {
        content["example"] = example;
    }
}

/// The example of a field with this schema, in this type.
fn of(schema: &Value, (owner, name): (&str, &str), schemas: &Value, depth: u32) -> Value {
    let (kind, schema) = resolved(schema, owner, schemas);
    let fields = &EXAMPLES["fields"];
    let named = [
        fields.get(format!("{owner}.{name}")),
        fields.get(name).filter(|value| fits(schema, value)),
    ];
    if let Some(value) = named.into_iter().flatten().next() {
        return value.clone();
    }
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    if depth == MOST_DEPTH || is_nullable(schema) {
        return Value::Null;
    }
    if let Some(properties) = schema["properties"].as_object() {
        let member = |(name, schema): (&String, &Value)| {
            (name.clone(), of(schema, (kind, name), schemas, depth + 1))
        };
        return properties.iter().map(member).collect::<Map<_, _>>().into();
    }
    match schema["type"].as_str() {
        Some("array") => json!([of(&schema["items"], (kind, ""), schemas, depth + 1)]),
        Some("object") => json!({}),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        Some("string") => json!(""),
        _ => Value::Null,
    }
}

/// Follows references, and takes the first of several forms. Also returns the name of the type.
fn resolved<'a>(schema: &'a Value, owner: &'a str, schemas: &'a Value) -> (&'a str, &'a Value) {
    let first = |key: &str| schema[key].as_array().and_then(|forms| forms.first());
    if let Some(form) = first("anyOf").or_else(|| first("oneOf")) {
        return resolved(form, owner, schemas);
    }
    match schema["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        Some(kind) => resolved(&schemas[kind], kind, schemas),
        None => (owner, schema),
    }
}

fn is_nullable(schema: &Value) -> bool {
    (schema["type"].as_array()).is_some_and(|types| types.iter().any(|one| one == "null"))
}

/// Returns whether a value has the type of a schema.
fn fits(schema: &Value, value: &Value) -> bool {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        // Any value, or one of several forms.
        Value::Null => true,
        Value::Array(types) => types.iter().any(|one| one == kind),
        one => one == kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Typed;
    use crate::request::decode;
    use crate::{OPERATIONS, for_each_operation, op};

    macro_rules! all_decode {
        ($(
            $(#[doc = $about:literal])+
            [$($kind:ident)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
                $method:ident $path:literal, $Request:ty => $Response:ty, $row:expr;
        )+) => {
            fn decode_all() {
                $(
                    let given = request(op::$Op::ROW);
                    let body = if given.is_null() { String::new() } else { given.to_string() };
                    let read = decode::<<op::$Op as Typed>::Request>(&[], body.as_bytes());
                    let is_read = given.is_null() || read.is_ok();
                    assert!(is_read, "{}: {:?}", stringify!($id), read.err());
                )+
            }
        };
    }

    for_each_operation!(all_decode);

    #[test]
    fn the_examples_of_requests_are_requests() {
        decode_all();
    }

    #[test]
    fn every_example_belongs_to_an_operation() {
        for part in ["requests", "answers"] {
            for id in EXAMPLES[part].as_object().unwrap().keys() {
                assert!(OPERATIONS.iter().any(|row| row.id == id), "{part}: {id}");
            }
        }
    }

    #[test]
    fn every_answer_has_an_example_except_files() {
        let document = crate::openapi::document();
        for row in OPERATIONS {
            let form = row.media[0];
            let method = row.method.as_str().to_lowercase();
            let responses = &document["paths"][row.path][method]["responses"];
            let content = &responses[row.statuses[0].to_string()]["content"][form.name()];
            let is_file = matches!(form, Media::Bytes);
            assert_eq!(content.get("example").is_none(), is_file, "{}", row.id);
        }
    }
}
