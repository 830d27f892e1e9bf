//! The output formats.

use clap::ValueEnum;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
    /// Tab-separated values without a header line
    Plain,
}

impl Format {
    /// Returns whether the format is JSON.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }
}
