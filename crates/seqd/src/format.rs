//! The forms that data is written in.

use clap::ValueEnum;

/// How data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// One JSON document a line
    Jsonl,
    /// Comma-separated, with a header
    Csv,
    /// Tab-separated, without a header
    Plain,
}

impl Format {
    /// Whether programs read it as JSON.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }
}
