//! The description of the API in OpenAPI 3.1, generated from the table of operations and their
//! types.
//!
//! A test compares it with `docs/openapi.json`, which servers return.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::code::ErrorCode;
use crate::examples;
use crate::for_each_operation;
use crate::operation::{Media, Method, Operation, Typed};
use crate::operations::{OPERATIONS, op};
use crate::problem::{PROBLEM_JSON, Problem};
use crate::scope::{Need, Scope};
use crate::wire::{IDEMPOTENCY_KEY_HEADER, Plan};

/// The schemas of one operation.
struct Schemas {
    operation: &'static Operation,
    request: Value,
    response: Value,
}

fn schemas_of<O>(generator: &mut SchemaGenerator) -> Schemas
where
    O: Typed<Request: JsonSchema, Response: JsonSchema>,
{
    // The fields of a request are also query parameters, so their schema is needed inline.
    let mut request = <O::Request as JsonSchema>::json_schema(generator).to_value();
    if let Some(refused) = O::ROW.refused_field
        && let Some(Value::Object(fields)) = request.get_mut("properties")
    {
        fields.remove(refused);
    }
    Schemas {
        operation: O::ROW,
        request,
        response: generator.subschema_for::<O::Response>().to_value(),
    }
}

macro_rules! all_schemas {
    ($(
        $(#[doc = $about:literal])+
        [$($kind:ident)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
            $method:ident $path:literal, $Request:ty => $Response:ty, $row:expr;
    )+) => {
        fn all_schemas(generator: &mut SchemaGenerator) -> Vec<Schemas> {
            vec![$(schemas_of::<op::$Op>(generator)),+]
        }
    };
}

for_each_operation!(all_schemas);

/// Returns the whole description.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    let plan = generator.subschema_for::<Plan>().to_value();
    let (mut paths, mut refusals) = (Map::new(), Map::new());
    for schemas in all_schemas(&mut generator) {
        let row = schemas.operation;
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        let mut described = Described {
            schemas: &schemas,
            problem: &problem,
            plan: &plan,
            refusals: &mut refusals,
        };
        path[row.method.as_str().to_lowercase()] = described.operation(row.method);
        if row.allocates {
            path["post"] = described.operation(Method::Post);
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "seqd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A clustered sequencer: IDs, sequences, worker leases, locks and \
                            idempotency keys.",
            "license": { "name": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": refusals,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token with a scope: read, allocate or admin. Required where \
                                    auth.enabled is set.",
                },
            },
        },
    });
    examples::add_answers(&mut document, OPERATIONS);
    document
}

/// An operation with the schemas that its description refers to.
struct Described<'a> {
    schemas: &'a Schemas,
    problem: &'a Value,
    plan: &'a Value,
    /// The error responses, by name.
    refusals: &'a mut Map<String, Value>,
}

impl Described<'_> {
    fn operation(&mut self, method: Method) -> Value {
        let row = self.schemas.operation;
        let id = if method == row.method {
            row.id.to_owned()
        } else {
            format!("post_{}", row.id)
        };
        let mut operation = json!({
            "operationId": id,
            "summary": row.about.trim(),
            "tags": [tag(row.path)],
            "parameters": self.parameters(method),
            "responses": self.responses(),
            "security": security(row.need),
        });
        if let Some(scope) = scope(row.need) {
            operation["description"] = format!("Scope: {scope}.").into();
        }
        if has_body(method) {
            operation["requestBody"] = json!({
                "required": false,
                "content": { Media::Json.name(): { "schema": self.schemas.request } },
            });
            let example = examples::request(row);
            if !example.is_null() {
                operation["requestBody"]["content"][Media::Json.name()]["example"] =
                    example.clone();
            }
        }
        operation
    }

    /// The parameters of the path, the query and the header. A request with a body has its fields
    /// in the body, but accepts them in the query too.
    fn parameters(&self, method: Method) -> Vec<Value> {
        let row = self.schemas.operation;
        let text = json!({ "type": "string", "minLength": 1 });
        let in_path = |name| {
            let parameter = json!({ "name": name, "in": "path", "required": true, "schema": text });
            with_example(parameter, examples::parameter(tag(row.path), name))
        };
        let mut parameters: Vec<Value> = row.parameters().map(in_path).collect();
        if !has_body(method) {
            let example = |name: &Value| &examples::request(row)[name.as_str().unwrap_or_default()];
            let fields = query(&self.schemas.request).into_iter();
            parameters.extend(fields.map(|field| {
                let example = example(&field["name"]);
                with_example(field, example)
            }));
        }
        parameters.push(json!({
            "name": "timeout_ms", "in": "query", "required": false,
            "description": "The deadline of the request in milliseconds.",
            "schema": { "type": "integer", "minimum": 1, "maximum": 30_000 },
        }));
        if row.has_dry_run {
            parameters.push(json!({
                "name": "dry_run", "in": "query", "required": false,
                "description": "Returns the effect of the request without causing it.",
                "schema": { "type": "boolean" },
            }));
        }
        if row.takes_key {
            parameters.push(json!({
                "name": IDEMPOTENCY_KEY_HEADER, "in": "header", "required": false,
                "description": "A request with the same key is served once.",
                "schema": { "type": "string", "pattern": "^[!-~]{1,255}$" },
            }));
        }
        parameters.extend(row.conditions.iter().map(|name| {
            let description = match *name {
                "If-Match" => "The ETag of a GET: only a sequence with its revision matches.",
                _ => "Only `*`: the sequence is created, or the request fails.",
            };
            let schema = json!({ "type": "string" });
            json!({ "name": name, "in": "header", "required": false, "description": description,
                "schema": schema })
        }));
        parameters
    }

    fn responses(&mut self) -> Value {
        let row = self.schemas.operation;
        let mut responses = Map::new();
        for status in row.statuses {
            let response = match status {
                304 => json!({ "description": "The caller has this state already." }),
                _ => json!({ "description": row.about.trim(), "content": self.content() }),
            };
            responses.insert(status.to_string(), response);
        }
        if row.has_dry_run && !row.statuses.contains(&200) {
            let content = json!({ Media::Json.name(): { "schema": self.plan } });
            let plan = json!({ "description": "The effect of a dry run.", "content": content });
            responses.insert("200".to_owned(), plan);
        }
        let mut refused: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
        for code in row.codes() {
            refused.entry(code.row().status).or_default().push(code);
        }
        for (status, codes) in refused {
            let name = self.refusal(&codes);
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            responses.insert(status.to_string(), reference);
        }
        Value::Object(responses)
    }

    /// Returns the name of the response for these codes, which all operations with the same codes
    /// share.
    fn refusal(&mut self, codes: &[ErrorCode]) -> String {
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let name = names.join(".");
        let lines = codes.iter().map(|code| code.row());
        let lines = lines.map(|row| format!("`{}`: {}.", row.code, row.when));
        let response = json!({
            "description": lines.collect::<Vec<_>>().join("\n\n"),
            "content": { PROBLEM_JSON: { "schema": self.problem } },
        });
        self.refusals.insert(name.clone(), response);
        name
    }

    fn content(&self) -> Value {
        let row = self.schemas.operation;
        let forms = row.media.iter().map(|form| {
            let schema = match form {
                Media::Json if row.has_dry_run => {
                    json!({ "anyOf": [self.schemas.response, self.plan] })
                }
                Media::Json => self.schemas.response.clone(),
                Media::Bytes => json!({ "type": "string", "format": "binary" }),
                Media::Text | Media::Metrics | Media::OpenMetrics => json!({ "type": "string" }),
            };
            (form.name().to_owned(), json!({ "schema": schema }))
        });
        Value::Object(forms.collect())
    }
}

fn has_body(method: Method) -> bool {
    matches!(method, Method::Post | Method::Put | Method::Patch)
}

/// Adds an example to a parameter, if there is one.
fn with_example(mut parameter: Value, example: &Value) -> Value {
    if !example.is_null() {
        parameter["example"] = example.clone();
    }
    parameter
}

/// Returns the fields of a request as query parameters.
fn query(request: &Value) -> Vec<Value> {
    let fields = request["properties"].as_object();
    let fields = fields.into_iter().flatten();
    fields
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            let about = schema
                .as_object_mut()
                .and_then(|schema| schema.remove("description"));
            without_null(&mut schema);
            json!({
                "name": name, "in": "query", "required": false,
                "description": about.unwrap_or_default(), "schema": schema,
            })
        })
        .collect()
}

/// Removes `null` from the types: a query cannot contain null, the key is omitted instead.
fn without_null(schema: &mut Value) {
    let Some(types) = schema.get_mut("type") else {
        return;
    };
    let Some(list) = types.as_array_mut() else {
        return;
    };
    list.retain(|one| one != "null");
    if let [only] = list.as_slice() {
        *types = only.clone();
    }
}

/// Returns the family of a path.
fn tag(path: &str) -> &str {
    let rest = path.strip_prefix("/v1/").unwrap_or("node");
    rest.split('/').next().unwrap_or(rest)
}

fn security(need: Need) -> Value {
    match need {
        Need::Nothing => json!([]),
        // Callers need a token only if `auth.enabled` is set.
        _ => json!([{ "token": [] }, {}]),
    }
}

fn scope(need: Need) -> Option<String> {
    let named = |scope: Scope, rule: &str| Some(format!("`{}`{rule}", scope.as_str()));
    match need {
        Need::Nothing | Need::AnyToken => None,
        Need::Anywhere(scope) => named(scope, ", with any prefix"),
        Need::Named(scope) => named(scope, " for the name in the path"),
        Need::Whole(scope) => named(scope, " without a prefix"),
    }
}
