//! The damage reference, read from the document, and functions that damage a folder.
//!
//! Only the document describes how a node reacts to each kind of damage. A story damages a folder,
//! starts the node, and compares the result with the entry: words, exit code, `code=`. The document
//! therefore cannot claim behaviour that the program does not have.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::binary::workspace;
use crate::cluster::READY;
use crate::node::Node;

/// The document, relative to the workspace's root.
pub const DOCUMENT: &str = "docs/DISASTER.md";

/// The beginning of an entry, followed by the name of the damage.
const HEAD: &str = "\n### ";

/// The placeholder for a part of the message that differs from case to case.
const ANYTHING: char = '…';

/// One kind of damage and the reaction of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub damage: String,
    /// The fixed parts of the node's message, split at the parts that differ from case to case.
    pub words: Vec<String>,
    /// The exit code. `None` if the node serves.
    pub exit: Option<i32>,
    /// The word after `code=`.
    pub code: Option<String>,
    pub test: String,
    /// The file of the test, as the document links it.
    pub file: String,
}

pub fn rows() -> Vec<Row> {
    let path = workspace().join(DOCUMENT);
    let text = std::fs::read_to_string(path).expect("the reference of damage");
    let rows: Vec<Row> = text.split(HEAD).skip(1).map(parse).collect();
    assert!(!rows.is_empty(), "{DOCUMENT} has no entries");
    rows
}

pub fn row(damage: &str) -> Row {
    let mut rows = rows().into_iter();
    rows.find(|row| row.damage == damage)
        .unwrap_or_else(|| panic!("{DOCUMENT} has no entry {damage:?}"))
}

/// A field of an entry, with its lines joined.
fn field(entry: &str, name: &str) -> Option<String> {
    let head = format!("- {name}: ");
    let mut lines = entry.lines().skip_while(|line| !line.starts_with(&head));
    let first = lines.next()?.strip_prefix(&head)?;
    let more = lines.take_while(|line| line.starts_with("  "));
    let lines: Vec<&str> = std::iter::once(first).chain(more).map(str::trim).collect();
    Some(lines.join(" "))
}

fn parse(entry: &str) -> Row {
    let damage = entry.lines().next().unwrap_or_default();
    let plain = |text: &str| text.trim().trim_matches('`').trim().to_owned();
    let needed =
        |name: &str| field(entry, name).unwrap_or_else(|| panic!("{damage}: no field {name:?}"));
    for name in ["node", "do"] {
        needed(name);
    }
    let test = needed("test");
    let (name, file) = test
        .strip_prefix("[`")
        .and_then(|link| link.strip_suffix(')'))
        .and_then(|link| link.split_once("`]("))
        .unwrap_or_else(|| panic!("{damage}: no link to a test: {test}"));
    let words = plain(&needed("words"));
    assert!(!words.is_empty(), "{damage}: no words");
    let ends = field(entry, "exit").map(|ends| {
        let (exit, code) = ends
            .split_once(',')
            .unwrap_or_else(|| panic!("{damage}: no exit code and code: {ends}"));
        (plain(exit).parse().expect("an exit code"), plain(code))
    });
    Row {
        damage: damage.to_owned(),
        words: words
            .split(ANYTHING)
            .map(|part| part.trim().to_owned())
            .collect(),
        exit: ends.as_ref().map(|(exit, _)| *exit),
        code: ends.map(|(_, code)| code),
        test: name.to_owned(),
        file: file.to_owned(),
    }
}

impl Row {
    /// Returns whether a text contains the words in this order.
    pub fn matches(&self, text: &str) -> bool {
        let mut rest = text;
        self.words.iter().all(|part| {
            let Some((_, after)) = rest.split_once(part.as_str()) else {
                return false;
            };
            rest = after;
            true
        })
    }

    /// Asserts that the node exits by itself and that its last line contains the words of the
    /// entry.
    #[track_caller]
    pub fn ends(&self, node: &mut Node) {
        let status = node.exit_within(READY);
        let last = node.last_line();
        println!("{}: {status}\n    {last}", self.damage);
        assert_eq!(status.code(), self.exit, "{self:?}\n{}", node.tail());
        let code = self.code.as_deref().expect("a row with a code");
        assert!(last.ends_with(&format!("code={code}")), "{self:?}\n{last}");
        assert!(self.matches(&last), "{self:?}\n{last}");
    }

    /// Asserts that the node serves in spite of the damage and that one of its lines contains the
    /// words of the entry.
    #[track_caller]
    pub fn assert_repaired(&self, stderr: &str) {
        assert_eq!((self.exit, self.code.as_ref()), (None, None), "{self:?}");
        let line = stderr.lines().find(|line| self.matches(line));
        let line = line.unwrap_or_else(|| panic!("{self:?}\nhas no line in\n{stderr}"));
        println!("{}: serves\n    {line}", self.damage);
    }
}

pub fn flip_bit(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path);
    let file = file.expect("the file to damage");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte to damage");
    file.write_all_at(&[byte[0] ^ 0x10], at)
        .expect("the damage");
}

/// Flips a bit in the first byte of each occurrence of `text` in a file. Returns the number of
/// occurrences.
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

/// The files of a folder whose names end with `end`, sorted by name.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    found
}

/// Copies a folder recursively in the order of the names. The log is therefore copied last, and the
/// copy of a running node's folder is a state that a crash could have left. Files that disappear in
/// the meantime are omitted.
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
        let entry = "x\n\n- node: refuses\n- words: `log: …/a at byte …:\n  bad`\n- exit: 10, \
                     `corrupt`\n- do: y\n- test: [`t_t`](f.rs)\n";
        let row = parse(entry);
        assert_eq!((row.exit, row.code.as_deref()), (Some(10), Some("corrupt")));
        assert_eq!((row.test.as_str(), row.file.as_str()), ("t_t", "f.rs"));
        assert!(row.matches("seqd stopped: log: /data/a at byte 7: bad code=corrupt"));
        assert!(!row.matches("log: /data/a: bad at byte 7"));
    }
}
