//! The damage table of the operator's manual, read from the document, and ways to damage a folder.
//!
//! The table is the one place that says what a node does with which damage. A story damages a
//! folder, starts the node, and compares what it sees with the row: words, exit code, `code=`. So
//! the document cannot say what the program does not do.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::binary::workspace;
use crate::cluster::READY;
use crate::node::Node;

/// The document, from the workspace's root.
pub const DOCUMENT: &str = "docs/OPERATIONS.md";

/// How the table's head begins.
const HEAD: &str = "| damage |";

/// What stands for a part of the words that differs from case to case.
const ANYTHING: char = '…';

/// One damage and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub damage: String,
    /// What the node says, cut at what differs from case to case.
    pub words: Vec<String>,
    /// The exit code; `None` where the node serves.
    pub exit: Option<i32>,
    /// The word behind `code=`.
    pub code: Option<String>,
    /// The test that shows it.
    pub test: String,
    /// The file of that test, as the document links it.
    pub file: String,
}

/// All rows.
///
/// # Panics
/// If the document has no such table, or one that is not understood.
pub fn rows() -> Vec<Row> {
    let path = workspace().join(DOCUMENT);
    let text = std::fs::read_to_string(path).expect("the operator's manual");
    let lines = text.lines().skip_while(|line| !line.starts_with(HEAD));
    let table = lines.skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Row> = table.map(parse).collect();
    assert!(!rows.is_empty(), "{DOCUMENT} has no table of damage");
    rows
}

/// The row of a damage.
///
/// # Panics
/// If the table has none.
pub fn row(damage: &str) -> Row {
    let mut rows = rows().into_iter();
    rows.find(|row| row.damage == damage)
        .unwrap_or_else(|| panic!("{DOCUMENT} has no row {damage:?}"))
}

fn parse(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [damage, _does, words, exit, code, _way_out, test] = cells[..] else {
        panic!("not seven cells: {line}");
    };
    let plain = |cell: &str| cell.trim_matches('`').trim().to_owned();
    let (name, file) = test
        .strip_prefix("[`")
        .and_then(|link| link.strip_suffix(')'))
        .and_then(|link| link.split_once("`]("))
        .unwrap_or_else(|| panic!("no link to a test: {line}"));
    let words = plain(words);
    assert!(!words.is_empty(), "no words: {line}");
    Row {
        damage: damage.to_owned(),
        words: words
            .split(ANYTHING)
            .map(|part| part.trim().to_owned())
            .collect(),
        exit: (!exit.is_empty()).then(|| plain(exit).parse().expect("an exit code")),
        code: (!code.is_empty()).then(|| plain(code)),
        test: name.to_owned(),
        file: file.to_owned(),
    }
}

impl Row {
    /// Whether a text holds the words, in their order.
    pub fn is_said_in(&self, text: &str) -> bool {
        let mut rest = text;
        self.words.iter().all(|part| {
            let Some((_, after)) = rest.split_once(part.as_str()) else {
                return false;
            };
            rest = after;
            true
        })
    }

    /// The node ends by itself, and its last line is what the table says.
    ///
    /// # Panics
    /// If anything differs.
    #[track_caller]
    pub fn ends(&self, node: &mut Node) {
        let status = node.exit_within(READY);
        let last = node.last_line();
        println!("{}: {status}\n    {last}", self.damage);
        assert_eq!(status.code(), self.exit, "{self:?}\n{}", node.tail());
        let code = self.code.as_deref().expect("a row with a code");
        assert!(last.ends_with(&format!("code={code}")), "{self:?}\n{last}");
        assert!(self.is_said_in(&last), "{self:?}\n{last}");
    }

    /// The node serves in spite of the damage, and one of its lines says of it what the table says.
    ///
    /// # Panics
    /// If it does not say it.
    #[track_caller]
    pub fn is_healed(&self, said: &str) {
        assert_eq!((self.exit, self.code.as_ref()), (None, None), "{self:?}");
        let line = said.lines().find(|line| self.is_said_in(line));
        let line = line.unwrap_or_else(|| panic!("{self:?}\nis not said in\n{said}"));
        println!("{}: serves\n    {line}", self.damage);
    }
}

/// Flips one bit of a byte.
///
/// # Panics
/// If the file is shorter.
pub fn flip_bit(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path);
    let file = file.expect("the file to damage");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte to damage");
    file.write_all_at(&[byte[0] ^ 0x10], at)
        .expect("the damage");
}

/// Flips a bit in the first byte of each place of a file that holds `text`; answers how many.
///
/// # Panics
/// If it cannot be read.
pub fn flip_text(path: &Path, text: &str) -> usize {
    let bytes = std::fs::read(path).expect("the file to damage");
    let places = bytes.windows(text.len()).enumerate();
    let places: Vec<usize> = places
        .filter(|(_, window)| *window == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    places.iter().for_each(|at| flip_bit(path, *at as u64));
    places.len()
}

/// The files of a folder whose names end like this, in order of their names.
///
/// # Panics
/// If the folder cannot be read.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    found
}

/// Copies a folder with all that is below it, in the order of the names: so the log comes last, and
/// a running node's copy is one that it might have left. Files that go meanwhile are left out.
///
/// # Panics
/// If that fails.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder for the copy");
    let entries = std::fs::read_dir(from).expect("a folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy_folder(&source, &target);
        } else if let Err(error) = std::fs::copy(&source, target) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{}", source.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_their_order_around_what_differs() {
        let line =
            "| x | refuses | `log: …/a at byte …: bad` | 10 | `corrupt` | y | [`t_t`](f.rs) |";
        let row = parse(line);
        assert_eq!((row.exit, row.code.as_deref()), (Some(10), Some("corrupt")));
        assert_eq!((row.test.as_str(), row.file.as_str()), ("t_t", "f.rs"));
        assert!(row.is_said_in("seqd stopped: log: /data/a at byte 7: bad code=corrupt"));
        assert!(!row.is_said_in("log: /data/a: bad at byte 7"));
    }
}
