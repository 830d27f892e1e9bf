//! The files that are generated from the table of operations: `docs/openapi.json`, and the list of
//! operations in `docs/HTTP.md`. `SEQD_WRITE_GOLDEN=1` writes both.

use std::fmt::Write as _;
use std::path::PathBuf;

use seqd_api::{OPERATIONS, Operation, openapi};
use seqd_tests::binary::workspace;
use serde_json::Value;

const BEGIN: &str = "<!-- The list of operations is generated from the table of operations. -->\n";
const END: &str = "<!-- End of the list of operations. -->\n";

/// Query parameters of many operations, which the rules of the page describe.
const COMMON: [&str; 3] = ["timeout_ms", "dry_run", "cursor"];

/// Compares a generated text with a file, or writes it.
fn assert_is(path: PathBuf, expected: &str) {
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, expected).expect("the file");
        return;
    }
    let found = std::fs::read_to_string(&path).expect("the file");
    let path = path.display();
    assert!(
        found == expected,
        "{path} is not what the table of operations gives: SEQD_WRITE_GOLDEN=1 cargo test -p \
         seqd-tests --test tidy -- contract writes it"
    );
}

#[test]
fn the_description_of_the_api_is_that_of_the_table() {
    let document = serde_json::to_string_pretty(&openapi::document()).expect("JSON");
    assert_is(workspace().join("docs/openapi.json"), &(document + "\n"));
}

#[test]
fn the_list_of_operations_is_that_of_the_table() {
    let path = workspace().join("docs/HTTP.md");
    let page = std::fs::read_to_string(&path).expect("docs/HTTP.md");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the list");
    let (_, after) = rest.split_once(END).expect("the end of the list");
    let list = list(&openapi::document());
    assert_is(path, &format!("{before}{BEGIN}{list}{END}{after}"));
}

fn list(document: &Value) -> String {
    let mut out = String::new();
    for row in OPERATIONS {
        let described = &document["paths"][row.path][row.method.as_str().to_lowercase()];
        let also = if row.allocates { " or POST" } else { "" };
        let (method, path) = (row.method.as_str(), row.path);
        let _ = write!(out, "\n#### {method}{also} `{path}`\n\n");
        let mut about = row.about.trim().to_owned();
        if let Some(scope) = described["description"].as_str() {
            let _ = write!(about, " {scope}");
        }
        if row.has_dry_run {
            about.push_str(" Has a dry run.");
        }
        push_wrapped(&mut out, "", &about);
        out.push('\n');
        for (name, about) in fields(described) {
            push_wrapped(&mut out, "- ", &format!("`{name}`: {about}"));
        }
        let answer = names(document, answer(described));
        if !answer.is_empty() {
            push_wrapped(&mut out, "- ", &format!("Answer: {}.", answer.join(", ")));
        }
        let codes = codes(row);
        if !codes.is_empty() {
            push_wrapped(&mut out, "- ", &format!("Errors: {}.", codes.join(", ")));
        }
    }
    out.push('\n');
    out
}

/// Appends a paragraph, or an item of a list, in lines of at most 120 characters.
fn push_wrapped(out: &mut String, mark: &str, text: &str) {
    let indent = " ".repeat(mark.len());
    let mut line = mark.to_owned();
    for word in text.split_whitespace() {
        let is_first = line.len() == mark.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > 120 {
            let _ = writeln!(out, "{line}");
            line = format!("{indent}{word}");
        } else {
            line.push_str(if is_first { "" } else { " " });
            line.push_str(word);
        }
    }
    let _ = writeln!(out, "{line}");
}

fn codes(row: &Operation) -> Vec<String> {
    let codes = row.own_codes.iter();
    codes.map(|code| format!("`{}`", code.as_str())).collect()
}

/// The fields of a request with their descriptions, from its body or its query, except the fields
/// that the rules of the page describe.
fn fields(described: &Value) -> Vec<(String, String)> {
    let about = |field: &Value| {
        let about = field["description"].as_str().unwrap_or_default();
        about.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let body = &described["requestBody"]["content"]["application/json"]["schema"]["properties"];
    let of_body = body.as_object().into_iter().flatten();
    let of_body = of_body.map(|(name, field)| (name.clone(), about(field)));
    let of_query = described["parameters"].as_array().into_iter().flatten();
    let of_query = of_query
        .filter(|parameter| {
            let is_common = COMMON.iter().any(|name| parameter["name"] == *name);
            parameter["in"] == "query" && !is_common
        })
        .map(|field| {
            (
                field["name"].as_str().unwrap_or_default().to_owned(),
                about(field),
            )
        });
    of_body.chain(of_query).collect()
}

fn answer(described: &Value) -> &Value {
    // If both exist, 200 may be the plan of a dry run.
    let responses = ["201", "200"].map(|status| &described["responses"][status]);
    let success = responses.into_iter().find(|response| !response.is_null());
    let schema = success.map(|response| &response["content"]["application/json"]["schema"]);
    let schema = schema.unwrap_or(&Value::Null);
    // The first of two is the response, the other one the plan of a dry run.
    schema.get("anyOf").map_or(schema, |both| &both[0])
}

/// The names of an object's members.
fn names(document: &Value, schema: &Value) -> Vec<String> {
    let target = schema["$ref"]
        .as_str()
        .and_then(|path| document.pointer(path.strip_prefix('#')?));
    let members = target.unwrap_or(schema)["properties"].as_object();
    members
        .into_iter()
        .flatten()
        .map(|(name, _)| format!("`{name}`"))
        .collect()
}
