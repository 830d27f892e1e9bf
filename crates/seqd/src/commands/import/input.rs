//! The text of a file to import: its limits, and the table that it contains. Pure; the SQL of a
//! dump is read in `inserts`, CSV and TSV in `delimited`.

use super::table::{Refusal, Schema, Table};
use super::{delimited, inserts};

/// The largest file, in bytes: 100,000 rows of 600 bytes fit, and the file is held in memory.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;

/// The longest line of a dump, in bytes. mysqldump writes many rows into one line of about 1 MB.
const MAX_DUMP_LINE_BYTES: usize = 10 << 20;

/// The longest line of CSV and TSV, in bytes. It is one row: a name and numbers.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Reads all rows of a file.
pub(super) fn tables(bytes: &[u8], schema: &Schema) -> Result<Vec<Table>, Refusal> {
    let text = text(bytes)?;
    let tables = if is_sql(text) {
        inserts::read(text, schema)?
    } else {
        check_lines(text)?;
        vec![delimited::read(text)?]
    };
    for table in &tables {
        check_columns(table, schema)?;
    }
    if tables.iter().all(|table| table.rows.is_empty()) {
        let wanted = schema.columns.join(", ");
        let dump = schema.table.unwrap_or("a table");
        let reason = format!(
            "the file has no rows; expected a header with {wanted} and rows, or INSERT INTO {dump}"
        );
        return Err(Refusal::new(1, reason));
    }
    Ok(tables)
}

/// Checks the limits of a file that do not depend on its format.
fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        if line.len() > MAX_DUMP_LINE_BYTES {
            let reason = format!("the line has {} bytes; at most 10 MiB", line.len());
            return Err(Refusal::new(number, reason));
        }
        if line.contains(&0) {
            return Err(Refusal::new(number, "a NUL byte; expected text in UTF-8"));
        }
        if std::str::from_utf8(line).is_err() {
            return Err(Refusal::new(number, "not UTF-8; expected text in UTF-8"));
        }
    }
    std::str::from_utf8(bytes).map_err(|_| Refusal::new(1, "expected text in UTF-8"))
}

fn check_lines(text: &str) -> Result<(), Refusal> {
    let mut lines = text.lines().zip(1..);
    match lines.find(|(line, _)| line.len() > MAX_LINE_BYTES) {
        Some((line, number)) => {
            let reason = format!("the line has {} bytes; at most 64 KiB", line.len());
            Err(Refusal::new(number, reason))
        }
        None => Ok(()),
    }
}

/// Returns whether the text begins like a dump.
fn is_sql(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "INSERT", "REPLACE", "CREATE", "DROP", "SET", "LOCK", "USE", "BEGIN", "START",
    ];
    let text = text.trim_start();
    let word = text.split_whitespace().next().unwrap_or_default();
    ["--", "/*", "#"].iter().any(|mark| text.starts_with(mark))
        || WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn check_columns(table: &Table, schema: &Schema) -> Result<(), Refusal> {
    let allowed = schema.columns.join(", ");
    for (at, column) in table.columns.iter().enumerate() {
        if !schema.columns.contains(&column.as_str()) {
            let reason = format!("unknown column {column:?}; allowed are {allowed}");
            return Err(Refusal::new(table.line, reason));
        }
        if table.columns[..at].contains(column) {
            let reason = format!("column {column} occurs twice");
            return Err(Refusal::new(table.line, reason));
        }
    }
    for column in schema.required {
        if !table.columns.iter().any(|given| given == column) {
            let reason = format!("column {column} is missing; allowed are {allowed}");
            return Err(Refusal::new(table.line, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::MAX_ROWS;
    use super::*;

    const SCHEMA: Schema = Schema {
        table: None,
        columns: &["name", "value", "increment"],
        required: &["name", "value"],
    };

    fn refusal(bytes: &[u8]) -> (u64, String) {
        let refusal = tables(bytes, &SCHEMA).unwrap_err();
        (refusal.line, refusal.reason)
    }

    #[test]
    fn a_bad_file_is_refused_with_its_line() {
        let cases: &[(&[u8], u64, &str)] = &[
            (b"", 1, "missing"),
            (b"name,value\n", 1, "no rows"),
            (b"name,valeu\na,1\n", 1, "unknown column \"valeu\""),
            (b"name\na\n", 1, "value is missing"),
            (b"name,name,value\na,b,1\n", 1, "twice"),
            (b"name,value\na,1\nb,2,3\n", 3, "3 values"),
            (b"name,value\na,1\nb\x00,2\n", 3, "NUL"),
            (b"name,value\n\xff,1\n", 2, "UTF-8"),
            (b"name,value\n\"a,1\n", 2, "quote"),
            (b"SET NAMES utf8;\n", 1, "no rows"),
        ];
        for (bytes, line, part) in cases {
            let (found, reason) = refusal(bytes);
            assert!(found == *line && reason.contains(part), "{found}: {reason}");
        }
    }

    #[test]
    fn limits_of_lines_and_rows_are_enforced() {
        let mut long = b"name,value\n".to_vec();
        long.extend(vec![b'a'; MAX_LINE_BYTES + 1]);
        assert_eq!(refusal(&long).0, 2);
        let many = format!("name,value\n{}", "a,1\n".repeat(MAX_ROWS + 1));
        let (line, reason) = refusal(many.as_bytes());
        assert_eq!((line, reason.contains("100000")), (100_002, true));
    }
}
