//! Writes data to stdout in the requested format: table, JSON, JSON lines, CSV or plain.

use std::borrow::Cow;
use std::io::{self, Write as _};

use comfy_table::{ContentArrangement, Table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::Value;

use crate::display;
use crate::failure::Failure;
use crate::format::Format;

/// The result of a command, which can be written in every format.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    json: Value,
    items: Vec<Value>,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    people: Option<String>,
}

impl Report {
    /// Data that `-o json` writes as it is, and `-o jsonl` as one line.
    pub(crate) fn new(json: &impl Serialize) -> Result<Self, Failure> {
        let json = value(json)?;
        Ok(Self {
            items: vec![json.clone()],
            json,
            ..Self::default()
        })
    }

    /// Items that `-o json` writes as one array, and `-o jsonl` as one line each.
    pub(crate) fn list<T: Serialize>(items: &[T]) -> Result<Self, Failure> {
        let items = items.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            json: Value::Array(items.clone()),
            items,
            ..Self::default()
        })
    }

    /// Names and values, one pair per line.
    pub(crate) fn facts(
        json: &impl Serialize,
        facts: Vec<(&'static str, String)>,
    ) -> Result<Self, Failure> {
        let mut report = Self::new(json)?.with_columns("what value");
        let rows = facts
            .into_iter()
            .map(|(what, value)| vec![what.to_owned(), value]);
        report.rows = rows.collect();
        report.people = Some(table(report.rows.iter().cloned()));
        Ok(report)
    }

    /// Sets the lines of `-o jsonl` if they differ from the document of `-o json`.
    pub(crate) fn with_items(
        mut self,
        items: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Self, Failure> {
        let items = items.into_iter().map(|item| value(&item));
        self.items = items.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Sets a single column, which `-o table` prints without its name.
    pub(crate) fn with_values(mut self, column: &'static str, values: Vec<String>) -> Self {
        self.people = Some(values.iter().map(|value| format!("{value}\n")).collect());
        self.rows = values.into_iter().map(|value| vec![value]).collect();
        self.with_columns(column)
    }

    /// Sets the names of the columns, which are separated by spaces.
    pub(crate) fn with_columns(mut self, names: &'static str) -> Self {
        self.columns = names.split(' ').collect();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Sets the text that `-o table` prints instead of the table.
    pub(crate) fn with_people(mut self, text: String) -> Self {
        self.people = Some(text);
        self
    }

    /// The table of `-o table`.
    pub(crate) fn table(&self) -> String {
        let header = self.columns.iter().map(|name| heading(name)).collect();
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().enumerate();
            cells
                .map(|(at, cell)| match self.columns.get(at) {
                    Some(column) if is_duration(column) => display::duration(cell),
                    _ => cell.clone(),
                })
                .collect()
        });
        table(std::iter::once(header).chain(rows))
    }

    /// The complete text in this format.
    pub(crate) fn text(&self, format: Format) -> String {
        match format {
            Format::Table => self.people.clone().unwrap_or_else(|| self.table()),
            Format::Json => format!("{:#}\n", self.json),
            Format::Jsonl => self.items.iter().map(|item| format!("{item}\n")).collect(),
            Format::Csv => {
                let header = csv_line(&self.columns);
                let rows = self.rows.iter().map(|row| csv_line(row));
                std::iter::once(header).chain(rows).collect()
            }
            Format::Plain => self
                .rows
                .iter()
                .map(|row| {
                    let cells: Vec<String> = row.iter().map(|cell| one_line(cell)).collect();
                    format!("{}\n", cells.join("\t"))
                })
                .collect(),
        }
    }

    /// Writes the report to stdout. A reader that has closed the pipe is not an error.
    pub(crate) fn print(&self, format: Format) -> Result<(), Failure> {
        write_stdout(&self.text(format)).map(|_| ())
    }
}

/// Returns whether a column contains milliseconds. The table prints them with a unit, CSV and JSON
/// as numbers.
fn is_duration(column: &str) -> bool {
    column == "ms" || column.ends_with("_ms")
}

fn heading(column: &str) -> String {
    let name = match column {
        "ms" => "time",
        other => other.strip_suffix("_ms").unwrap_or(other),
    };
    name.to_uppercase().replace('_', " ")
}

fn value(data: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(data).map_err(|error| Failure::failed(format!("cannot write it: {error}")))
}

/// Aligned columns, separated by two spaces, without borders.
pub(crate) fn table(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(rows.map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>()));
    for at in 0..table.column_count() {
        if let Some(column) = table.column_mut(at) {
            column.set_padding((0, 2));
        }
    }
    let text = table.trim_fmt();
    if text.is_empty() {
        text
    } else {
        format!("{text}\n")
    }
}

/// One CSV line, as RFC 4180 defines it.
fn csv_line(cells: &[impl AsRef<str>]) -> String {
    let quoted = cells.iter().map(|cell| {
        let cell: &str = cell.as_ref();
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    });
    format!("{}\n", quoted.collect::<Vec<_>>().join(","))
}

/// The state of the reading end of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// Writes text to stdout, with terminal control characters escaped.
pub(crate) fn write_stdout(text: &str) -> Result<Reader, Failure> {
    write_raw(&printable(text))
}

/// Checks, without writing, whether the reader of stdout has closed it.
pub(crate) fn reader_of_stdout() -> Reader {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    // If the poll fails, the next write detects a closed reader.
    let seen = poll(&mut polled, Some(&Timespec::default()));
    if seen.is_ok() && polled[0].revents().contains(PollFlags::ERR) {
        Reader::Gone
    } else {
        Reader::There
    }
}

/// Clears the terminal and moves the cursor to the upper left corner.
pub(crate) fn clear_screen() -> Result<Reader, Failure> {
    write_raw("\x1b[H\x1b[2J")
}

fn write_raw(text: &str) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes text to stderr, with terminal control characters escaped. An error is ignored: stderr is
/// closed, and there is no other place to write to.
pub(crate) fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(printable(text).as_bytes());
}

/// Escapes terminal control characters, since any client may have chosen the names and descriptions
/// in the text. The escapes are those of JSON, so a JSON document keeps its meaning.
fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\n' && character != '\t')
}

/// Escapes a cell so that it can start neither a new line nor a new column.
fn one_line(cell: &str) -> String {
    escaped(cell, |_| true).into_owned()
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let acts = |character: char| obeyed(character) && is_escaped(character);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) {
            safe.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a terminal interprets the character: a control character, or a character that
/// changes the direction of text.
fn obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Report {
        let items = [
            json!({"name": "a", "next": "1"}),
            json!({"name": "long, name", "next": null}),
        ];
        let mut report = Report::list(&items).unwrap().with_columns("name next");
        report.row(vec!["a".to_owned(), "1".to_owned()]);
        report.row(vec!["long, name".to_owned(), "-".to_owned()]);
        report
    }

    #[test]
    fn each_form_is_as_written_here() {
        let report = sample();
        let table = "NAME        NEXT\na           1\nlong, name  -\n";
        assert_eq!(report.text(Format::Table), table);
        assert_eq!(
            report.text(Format::Csv),
            "name,next\na,1\n\"long, name\",-\n"
        );
        assert_eq!(report.text(Format::Plain), "a\t1\nlong, name\t-\n");
        let lines = "{\"name\":\"a\",\"next\":\"1\"}\n{\"name\":\"long, name\",\"next\":null}\n";
        assert_eq!(report.text(Format::Jsonl), lines);
        let read: Value = serde_json::from_str(&report.text(Format::Json)).unwrap();
        assert_eq!(read[1]["name"], "long, name");
    }

    #[test]
    fn people_read_durations_with_a_unit() {
        let mut report = Report::default().with_columns("name expires_in_ms ms");
        report.row(["a", "12345", "-"].map(str::to_owned).into());
        let table = "NAME  EXPIRES IN  TIME\na     12.3s       -\n";
        assert_eq!(report.text(Format::Table), table);
        assert_eq!(
            report.text(Format::Csv),
            "name,expires_in_ms,ms\na,12345,-\n"
        );
    }

    #[test]
    fn people_may_read_something_else() {
        let report = sample().with_people("all is well\n".to_owned());
        assert_eq!(report.text(Format::Table), "all is well\n");
        assert_eq!(report.text(Format::Plain), sample().text(Format::Plain));
    }

    #[test]
    fn control_characters_are_escaped_and_json_stays_json() {
        let evil = "a\x1b[2Jb\u{9b}c\u{202e}d\re\nf\tg\u{7f}";
        let mut report = Report::new(&json!({ "description": evil }))
            .unwrap()
            .with_columns("description");
        report.row(vec![evil.to_owned()]);
        for format in [Format::Table, Format::Plain, Format::Csv, Format::Json] {
            let text = report.text(format);
            let text = printable(&text);
            let acts = |c: char| obeyed(c) && c != '\n' && c != '\t';
            assert!(!text.contains(acts), "{format:?}: {text:?}");
            if format == Format::Json {
                let read: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(read["description"], evil);
            }
        }
        let plain = report.text(Format::Plain);
        assert!(plain.contains("e\\u000af\\u0009g"), "{plain:?}");
        assert_eq!(report.text(Format::Table).lines().count(), 2);
    }

    #[test]
    fn csv_quotes_fields_that_need_quotes() {
        let line = csv_line(&["a\"b", "c\nd", ""]);
        assert_eq!(line, "\"a\"\"b\",\"c\nd\",\n");
    }
}
