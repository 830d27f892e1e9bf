//! Golden files. Each line consists of a label and bytes in hexadecimal.
//!
//! A line never changes. `SEQD_WRITE_GOLDEN=1` writes missing files and no others.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The lines of a file: a label and the bytes in hexadecimal.
pub(crate) type Lines = Vec<(String, Vec<u8>)>;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

pub(crate) fn path_of(file: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(file)
}

pub(crate) fn check(file: &str, lines: &Lines) {
    let path = path_of(file);
    let written: String = lines
        .iter()
        .map(|(label, bytes)| format!("{label} {}\n", hex(bytes)))
        .collect();
    let exists = std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() && !exists {
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (written, golden) in written.lines().zip(golden.lines()) {
        assert_eq!(
            written, golden,
            "{file}: written bytes stay as they are; new lines go to the end"
        );
    }
    let (now, kept) = (written.lines().count(), golden.lines().count());
    assert_eq!(now, kept, "{file}: samples and golden lines");
}

pub(crate) fn lines_of(golden: &str) -> Vec<(&str, Vec<u8>)> {
    let lines = golden.lines().map(|line| line.rsplit_once(' ').unwrap());
    lines.map(|(label, hex)| (label, unhex(hex))).collect()
}
