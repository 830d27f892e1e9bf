//! The table of guards, read from the document: the test that fails without each guard, and the
//! words of the failure.
//!
//! Only the document names the tests. The command `guards` removes each guard in turn and runs its
//! test. It fails if the test does not fail, or fails with other words.

use seqd_guards::Guard;

use crate::binary::workspace;

/// The document, relative to the workspace's root.
pub const DOCUMENT: &str = "docs/internals/GUARDS.md";

/// A guard and the test that must fail without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub guard: Guard,
    /// The property that the guard protects, according to the document.
    pub holds: String,
    /// The name of the test function.
    pub test: String,
    pub place: Place,
    /// The name of the violation that the test prints without the guard.
    pub violation: String,
}

/// The place where a test is compiled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The folder of the crate, relative to the workspace's root.
    pub folder: String,
    /// The integration test target. `None` for tests within the library.
    pub target: Option<String>,
}

impl Place {
    /// The place of a source file, from the document's link.
    fn of(link: &str) -> Option<Self> {
        if link.starts_with("../../tests/src/") {
            return Some(Self {
                folder: "tests".to_owned(),
                target: None,
            });
        }
        let (name, inside) = link.strip_prefix("../../crates/")?.split_once('/')?;
        let target = match inside.strip_prefix("tests/") {
            Some(file) => Some(file.split(['/', '.']).next()?.to_owned()),
            None => inside.strip_prefix("src/").map(|_| None)?,
        };
        Some(Self {
            folder: format!("crates/{name}"),
            target,
        })
    }

    /// The name of the crate.
    pub fn package(&self) -> String {
        format!("seqd-{}", self.folder.trim_start_matches("crates/"))
    }
}

pub fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(workspace().join(DOCUMENT)).expect("the table of guards");
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines.map(parse).collect()
}

fn parse(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [guard, holds, test, violation] = cells[..] else {
        panic!("{DOCUMENT}: not four cells: {line}");
    };
    let plain = |text: &str| text.trim_matches('`').to_owned();
    let named = Guard::named(&plain(guard));
    let link = test
        .strip_prefix("[`")
        .and_then(|rest| rest.strip_suffix(')'));
    let (test, place) = link
        .and_then(|link| link.split_once("`]("))
        .and_then(|(test, link)| Some((test.to_owned(), Place::of(link)?)))
        .unwrap_or_else(|| panic!("{DOCUMENT}: no link to a test of a crate: {line}"));
    Row {
        guard: named.unwrap_or_else(|| panic!("{DOCUMENT}: there is no guard {guard}")),
        holds: holds.to_owned(),
        test,
        place,
        violation: plain(violation),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_row_names_the_crate_and_the_file_of_its_test() {
        let line =
            "| `PreVote` | It asks. | [`t_t`](../../crates/raft/src/tests/a.rs) | `raised` |";
        let row = parse(line);
        assert_eq!(
            (row.guard, row.holds.as_str()),
            (Guard::PreVote, "It asks.")
        );
        assert_eq!(
            (row.test.as_str(), row.violation.as_str()),
            ("t_t", "raised")
        );
        assert_eq!(row.place.package(), "seqd-raft");
        assert_eq!(row.place.target, None);
        for file in [
            "../../crates/wal/tests/cuts/main.rs",
            "../../crates/wal/tests/cuts.rs",
        ] {
            let target = Place::of(file).expect("a place").target;
            assert_eq!(target.as_deref(), Some("cuts"));
        }
        let place = Place::of("../../tests/src/model/tests.rs").expect("a place");
        assert_eq!(place.package(), "seqd-tests");
        assert_eq!(place.target, None);
        assert_eq!(Place::of("../../tests/tests/stories/main.rs"), None);
    }

    #[test]
    fn every_guard_has_a_row_one_a_test_with_the_words_of_the_list() {
        let rows = rows();
        for guard in Guard::ALL {
            let of_guard: Vec<&Row> = rows.iter().filter(|row| row.guard == *guard).collect();
            let tests: BTreeSet<&String> = of_guard.iter().map(|row| &row.test).collect();
            assert!(!tests.is_empty(), "{DOCUMENT} has no row of {guard:?}");
            assert_eq!(of_guard.len(), tests.len(), "a test twice: {guard:?}");
            for row in of_guard {
                assert_eq!(row.holds, guard.holds().trim(), "{guard:?}");
                assert!(row.violation.len() > 8, "{guard:?} names no violation");
            }
        }
    }
}
