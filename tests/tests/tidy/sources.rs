//! The workspace's files as text, for the other checks.

use seqd_tests::binary::{files_below, workspace};

/// A file with its path relative to the workspace's root.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The lines of code, without comment lines, numbered from 1.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self
            .text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Every Rust source of the workspace.
pub(crate) fn rust() -> Vec<Source> {
    below(&["crates", "tests"], ".rs")
}

/// Every Rust source of the product, without the test package and the crates' own tests and
/// benches.
pub(crate) fn product() -> Vec<Source> {
    let is_product = |source: &Source| {
        source.path.starts_with("crates/")
            && !["/tests/", "/benches/", "/examples/"]
                .iter()
                .any(|part| source.path.contains(part))
    };
    rust().into_iter().filter(is_product).collect()
}

/// Every Markdown document that belongs to the project.
pub(crate) fn documents() -> Vec<Source> {
    let mut all = below(&["docs", "deploy"], ".md");
    for name in ["README.md", "CHANGELOG.md"] {
        all.extend(one(name));
    }
    all
}

/// One file, if it exists.
pub(crate) fn one(path: &str) -> Option<Source> {
    let text = std::fs::read_to_string(workspace().join(path)).ok()?;
    Some(Source {
        path: path.to_owned(),
        text,
    })
}

/// The files in these folders and below whose names end with this, in the order of their paths.
pub(crate) fn below(folders: &[&str], end: &str) -> Vec<Source> {
    let root = workspace();
    let mut paths: Vec<_> = folders
        .iter()
        .flat_map(|folder| files_below(&root.join(folder)).unwrap())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| Source {
            path: path.strip_prefix(&root).unwrap().display().to_string(),
            text: std::fs::read_to_string(path).unwrap(),
        })
        .collect()
}

/// Panics with all complaints at once.
#[track_caller]
pub(crate) fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
