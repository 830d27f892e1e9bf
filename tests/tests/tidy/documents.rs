//! The documents match the code: link targets exist, invariants and threats name existing tests,
//! the README's test command is the command that CI runs, and every error code is explained.

use std::collections::BTreeSet;
use std::path::Path;

use seqd_api::ErrorCode;
use seqd_tests::binary::workspace;

use crate::sources::{Source, assert_none, documents, one, rust};

struct Link {
    text: String,
    target: String,
}

/// The links of a document, except those in code blocks.
fn links(document: &Source) -> Vec<Link> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in document.text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some(middle) = rest.find("](") {
            let text = rest[..middle].rsplit_once('[').map_or("", |(_, text)| text);
            let after = &rest[middle + 2..];
            let Some(end) = after.find(')') else { break };
            links.push(Link {
                text: text.to_owned(),
                target: after[..end].to_owned(),
            });
            rest = &after[end + 1..];
        }
    }
    links
}

/// The file of the workspace to which a link of a document leads. `None` for an external link.
fn target(document: &Source, link: &Link) -> Option<std::path::PathBuf> {
    let path = link.target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return None;
    }
    let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
    Some(workspace().join(folder).join(path))
}

#[test]
fn links_lead_to_files_that_exist() {
    let mut complaints = Vec::new();
    for document in documents() {
        for link in links(&document) {
            if target(&document, &link).is_some_and(|file| !file.exists()) {
                complaints.push(format!("{}: {} is not there", document.path, link.target));
            }
        }
    }
    assert_none(&complaints);
}

/// The names of all test functions.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in rust() {
        let mut is_test = source.text.contains("proptest!");
        let whole_file = is_test;
        for line in source.text.lines().map(str::trim_start) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            }
            let name = ["fn ", "async fn "]
                .iter()
                .find_map(|head| line.strip_prefix(head));
            if let Some(name) = name.filter(|_| is_test) {
                let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                names.insert(name[..end.unwrap_or(name.len())].to_owned());
                is_test = whole_file;
            }
        }
    }
    names
}

/// The test that a link's text names: `` `module::test` `` or `` `test` ``.
fn named_test(link: &Link) -> Option<String> {
    let name = link.text.strip_prefix('`')?.strip_suffix('`')?;
    let name = name.rsplit("::").next()?;
    let is_name = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_name && name.contains('_')).then(|| name.to_owned())
}

#[test]
fn invariants_name_tests_that_exist() {
    assert_names_tests("docs/internals/INVARIANTS.md", 10);
}

#[test]
fn guards_name_tests_that_exist() {
    assert_names_tests("docs/internals/GUARDS.md", 140);
}

#[test]
fn threats_name_tests_that_exist() {
    assert_names_tests("docs/internals/THREATS.md", 40);
}

/// Asserts that the document names at least this many tests, each in the file to which its link
/// leads.
#[track_caller]
fn assert_names_tests(path: &str, least: usize) {
    let document = one(path).expect(path);
    let tests = tests();
    let mut complaints = Vec::new();
    let mut found = 0;
    for link in links(&document)
        .iter()
        .filter(|link| link.target.contains(".rs"))
    {
        let Some(name) = named_test(link) else {
            continue;
        };
        found += 1;
        let text = target(&document, link).and_then(|file| std::fs::read_to_string(file).ok());
        let there = text.is_some_and(|text| text.contains(&format!("fn {name}(")));
        if !tests.contains(&name) || !there {
            complaints.push(format!("{} has no test {name}", link.target));
        }
    }
    assert!(found >= least, "{path} names only {found} tests");
    assert_none(&complaints);
}

/// The commands in a document's code blocks that begin with `head`.
fn commands(document: &Source, head: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_code = false;
    for line in document.text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.starts_with(head) {
                commands.push(line.to_owned());
            }
        }
    }
    commands
}

#[test]
fn ci_runs_the_test_command_that_the_readme_gives() {
    let readme = one("README.md").expect("README.md");
    let script = one(".ci/run").expect(".ci/run");
    let tests = commands(&readme, "cargo test");
    assert!(!tests.is_empty(), "the README gives no test command");
    assert!(
        !commands(&readme, "cargo run").is_empty(),
        "the README does not start a cluster"
    );
    for command in tests {
        assert!(
            script.text.contains(&command),
            ".ci/run does not run `{command}`"
        );
    }
}

#[test]
fn the_page_of_error_codes_has_the_words_that_nodes_answer() {
    let page = one("docs/PROBLEMS.md").expect("the page").text;
    let is_row = |line: &&str| line.starts_with("| `");
    let shown: BTreeSet<String> = page.lines().filter(is_row).map(str::to_owned).collect();
    let row = |code: &ErrorCode| {
        let row = code.row();
        let retryable = if row.retryable { "yes" } else { "no" };
        format!(
            "| `{code}` | {} | {} | {retryable} | {} | {} |",
            row.status, row.exit, row.when, row.what_to_do
        )
    };
    assert_eq!(shown, ErrorCode::ALL.iter().map(row).collect());
}

/// The code blocks of a document that name a file after `rust`: the file's path and the lines.
fn quoted(document: &Source) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let mut block: Option<(String, Vec<String>)> = None;
    for line in document.text.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(head)) => {
                let path = head.strip_prefix("rust ").unwrap_or_default();
                block = Some((path.to_owned(), Vec::new()));
            }
            (Some(_), Some(_)) => blocks.extend(block.take().filter(|(path, _)| !path.is_empty())),
            (Some((_, lines)), None) => lines.push(line.trim().to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

/// Returns whether the text contains these lines consecutively, with any indentation. Lines that
/// keep an example out of the product (`#[cfg(...)]`) are ignored.
fn stands_in(lines: &[String], text: &str) -> bool {
    let text: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("#[cfg("))
        .collect();
    text.windows(lines.len()).any(|window| window == lines)
}

#[test]
fn worked_examples_are_the_code_that_is_compiled() {
    let mut blocks = Vec::new();
    for (path, least) in [
        ("docs/internals/EXTENDING.md", 5),
        ("docs/GENERATORS.md", 3),
        ("docs/ALLOCATORS.md", 2),
    ] {
        let quoted = quoted(&one(path).expect(path));
        assert!(quoted.len() >= least, "only {} in {path}", quoted.len());
        blocks.extend(quoted);
    }
    let mut complaints = Vec::new();
    for (path, lines) in blocks {
        let is_there = one(&path).is_some_and(|file| stands_in(&lines, &file.text));
        if !is_there {
            complaints.push(format!("{path} does not hold\n{}", lines.join("\n")));
        }
    }
    assert_none(&complaints);
}
