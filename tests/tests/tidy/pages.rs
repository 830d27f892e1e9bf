//! The scripts of the pages: they call operations of the table only, insert data as text only, and
//! keep nothing in the browser.

use seqd_api::OPERATIONS;

use crate::sources::{Source, assert_none, below};

const PAGES: &str = "crates/node/pages";

/// The largest number of lines in a script.
const MOST_LINES: usize = 400;

/// The largest number of columns.
const MOST_COLUMNS: usize = 120;

/// Calls that interpret data, or that outlive the page.
const BANNED: [&str; 12] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "localStorage",
    "sessionStorage",
    "indexedDB",
    "document.cookie",
    "://",
    "import(",
];

fn scripts() -> Vec<Source> {
    below(&[PAGES], ".js")
}

/// The quoted paths of a script that are not those of a page.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text
        .split('"')
        .filter(|part| part.starts_with('/') && !part.ends_with('/'));
    let is_plain = |found: char| found.is_ascii_alphanumeric() || "/{}._-".contains(found);
    quoted.filter(move |part| part.chars().all(is_plain) && !part.starts_with("/ui/"))
}

/// The values of `key: "value"`, in order.
fn given<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let parts = text.split(key).skip(1);
    parts
        .filter_map(|part| part.strip_prefix(": \"")?.split('"').next())
        .collect()
}

#[test]
fn the_scripts_call_operations_of_the_table() {
    let mut complaints = Vec::new();
    for script in scripts() {
        for literal in paths_in(&script.text) {
            if !OPERATIONS.iter().any(|row| row.path == literal) {
                complaints.push(format!("{}: there is no path {literal}", script.path));
            }
        }
        let (methods, paths) = (given(&script.text, "method"), given(&script.text, " path"));
        for (method, path) in methods.iter().zip(&paths) {
            let is_row = |row: &&&seqd_api::Operation| {
                row.path == *path && row.method.as_str() == *method && row.has_dry_run
            };
            if OPERATIONS.iter().find(is_row).is_none() {
                complaints.push(format!("{}: no dry run of {method} {path}", script.path));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn data_reaches_a_page_as_text_and_stays_in_it() {
    let mut complaints = Vec::new();
    for file in below(&[PAGES], "") {
        for (at, line) in file.text.lines().enumerate() {
            // The SVG namespace is a name and not an address.
            let line = line.replace("http://www.w3.org/2000/svg", "");
            for word in BANNED.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}:{} holds {word}", file.path, at + 1));
            }
            if file.path.ends_with(".html") && (line.contains("style=") || line.contains(" on")) {
                complaints.push(format!("{}:{} is refused by the policy", file.path, at + 1));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn scripts_are_as_short_as_other_files() {
    let mut complaints = Vec::new();
    for script in scripts() {
        let lines = script.text.lines().count();
        let columns = script.text.lines().map(|line| line.chars().count()).max();
        if lines > MOST_LINES || columns > Some(MOST_COLUMNS) {
            complaints.push(format!(
                "{} has {lines} lines, {columns:?} columns",
                script.path
            ));
        }
        if !script.text.starts_with("// ") {
            complaints.push(format!("{} does not open with its purpose", script.path));
        }
    }
    assert_none(&complaints);
}
