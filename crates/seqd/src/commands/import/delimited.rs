//! CSV as RFC 4180 defines it, and the TSV that `mysql --batch` prints. Pure.
//!
//! The parser is strict: a parser that repaired broken quotes would import rows that the file does
//! not contain.

use super::table::{Cell, Refusal, Row, Table, push};

/// Reads a header and its rows. A header with a tab begins TSV, any other CSV.
pub(super) fn read(text: &str) -> Result<Table, Refusal> {
    let header = text.lines().next().unwrap_or_default();
    let is_tsv = header.contains('\t');
    let mut records = if is_tsv { tsv(text)? } else { csv(text)? }.into_iter();
    let Some(header) = records.next() else {
        return Err(Refusal::new(
            1,
            "the header with the column names is missing",
        ));
    };
    let columns = header.cells.into_iter();
    let columns = columns.map(|cell| cell.unwrap_or_default().trim().to_ascii_lowercase());
    let mut table = Table {
        line: header.line,
        columns: columns.collect(),
        rows: Vec::new(),
    };
    for row in records {
        push(&mut table, row, 0)?;
    }
    Ok(table)
}

fn tsv(text: &str) -> Result<Vec<Row>, Refusal> {
    let lines = text.lines().zip(1..);
    let rows = lines.filter(|(line, _)| !line.is_empty());
    rows.map(|(text, line)| {
        let cells: Result<_, Refusal> = text.split('\t').map(|cell| unescape(cell, line)).collect();
        Ok(Row {
            line,
            cells: cells?,
        })
    })
    .collect()
}

/// Undoes the escapes of `mysql --batch`.
fn unescape(cell: &str, line: u64) -> Result<Cell, Refusal> {
    if matches!(cell, "NULL" | "\\N") {
        return Ok(None);
    }
    let mut out = String::with_capacity(cell.len());
    let mut characters = cell.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('\\') => '\\',
            Some('0') => '\0',
            _ => {
                let reason = "an unknown escape; allowed are \\n, \\t, \\\\, \\0 and \\N";
                return Err(Refusal::new(line, reason));
            }
        });
    }
    Ok(Some(out))
}

/// The next character that ends a cell.
#[derive(PartialEq, Eq)]
enum End {
    Cell,
    Row,
}

fn csv(text: &str) -> Result<Vec<Row>, Refusal> {
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    let (mut rest, mut line, mut begun) = (text, 1, 1);
    while !rest.is_empty() {
        let (cell, end, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted, &mut line)?,
            None => bare_cell(rest, line)?,
        };
        rest = after;
        cells.push(Some(cell));
        if end == End::Cell && !rest.is_empty() {
            continue;
        }
        if end == End::Cell {
            cells.push(Some(String::new()));
        }
        let row = std::mem::take(&mut cells);
        let is_blank = row.len() == 1 && row[0].as_deref() == Some("");
        if !is_blank {
            rows.push(Row {
                line: begun,
                cells: row,
            });
        }
        line += 1;
        begun = line;
    }
    Ok(rows)
}

fn bare_cell(text: &str, line: u64) -> Result<(String, End, &str), Refusal> {
    let at = text.find([',', '\n']).unwrap_or(text.len());
    let is_cell = text[at..].starts_with(',');
    let cell = text[..at].trim_end_matches('\r');
    if cell.contains('"') {
        let reason = "a quote inside an unquoted value; quote the value and double the quote";
        return Err(Refusal::new(line, reason));
    }
    let end = if is_cell { End::Cell } else { End::Row };
    Ok((cell.to_owned(), end, text.get(at + 1..).unwrap_or_default()))
}

/// Reads a cell after its opening quote.
fn quoted_cell<'a>(text: &'a str, line: &mut u64) -> Result<(String, End, &'a str), Refusal> {
    let (begun, mut out, mut rest) = (*line, String::new(), text);
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err(Refusal::new(begun, "the closing quote is missing"));
        };
        *line += part.matches('\n').count() as u64;
        out.push_str(part);
        if let Some(doubled) = after.strip_prefix('"') {
            out.push('"');
            rest = doubled;
            continue;
        }
        let after_return = after.strip_prefix('\r').unwrap_or(after);
        return if let Some(next) = after.strip_prefix(',') {
            Ok((out, End::Cell, next))
        } else if let Some(next) = after_return.strip_prefix('\n') {
            Ok((out, End::Row, next))
        } else if after_return.is_empty() {
            Ok((out, End::Row, ""))
        } else {
            let reason = "text after a closing quote; expected a comma or the end of the line";
            Err(Refusal::new(*line, reason))
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(cell: &str) -> String {
        format!("\"{}\"", cell.replace('"', "\"\""))
    }

    proptest! {
        #[test]
        fn quoted_text_is_read_as_it_was_written(cells in prop::collection::vec(".*", 1..5)) {
            let header: Vec<String> = (0..cells.len()).map(|at| format!("c{at}")).collect();
            let row: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            let table = read(&format!("{}\n{}\n", header.join(","), row.join(","))).unwrap();
            if cells != [""] {
                let expected: Vec<Cell> = cells.into_iter().map(Some).collect();
                prop_assert_eq!(&table.rows[0].cells, &expected);
            }
        }

        #[test]
        fn no_text_panics(text in "[a,\"\r\n\t\\\\é]{0,40}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn tsv_of_mysql_is_unescaped() {
        let table = read("name\tvalue\r\na\\tb\t5\r\n\\N\t6\n").unwrap();
        assert_eq!(table.columns, ["name", "value"]);
        assert_eq!(table.rows[0].cells[0].as_deref(), Some("a\tb"));
        assert_eq!((table.rows[1].line, &table.rows[1].cells[0]), (3, &None));
    }

    #[test]
    fn lines_are_counted_across_quoted_line_ends() {
        let table = read("a,b\n\"x\ny\",1\n2,3").unwrap();
        assert_eq!([table.rows[0].line, table.rows[1].line], [2, 4]);
        assert_eq!(read("a,b\n\"x\"y,1\n").unwrap_err().line, 2);
        assert_eq!(read("a,b\nx\"y,1\n").unwrap_err().line, 2);
    }
}
