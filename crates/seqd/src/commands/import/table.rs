//! The rows of a file to import, and the reason why a file is refused. Pure.

/// The most rows of a file: a cluster has at most 100,000 sequences by default.
pub(super) const MAX_ROWS: usize = 100_000;

/// A reason to refuse a file, with the line on which it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) line: u64,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(line: u64, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { line, reason }
    }
}

/// One cell. `None` is the NULL of a dump.
pub(super) type Cell = Option<String>;

/// A row and its columns, which may differ between the statements of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) cells: Vec<Cell>,
}

/// Rows with the same columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// The line on which the columns are named.
    pub(super) line: u64,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// The columns of an old system's table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema {
    /// The table's name in a dump. `None` accepts every table.
    pub(super) table: Option<&'static str>,
    /// All columns, in the table's original order.
    pub(super) columns: &'static [&'static str],
    /// The columns without which nothing can be imported.
    pub(super) required: &'static [&'static str],
}

/// Adds a row, after checks of its width and of the number of rows so far.
pub(super) fn push(table: &mut Table, row: Row, before: usize) -> Result<(), Refusal> {
    if row.cells.len() != table.columns.len() {
        let (found, wanted) = (row.cells.len(), table.columns.len());
        let reason = format!("the row has {found} values; expected {wanted}, one per column");
        return Err(Refusal::new(row.line, reason));
    }
    if before + table.rows.len() >= MAX_ROWS {
        let reason = format!("more than {MAX_ROWS} rows; split the file");
        return Err(Refusal::new(row.line, reason));
    }
    table.rows.push(row);
    Ok(())
}
