//! The configuration: typed, checked, and each value with its origin.
//!
//! Flag over environment over file over default, for every key. [`keys`] is the one table of keys,
//! [`Layers`] merges what was given and makes the typed [`Config`]. Nothing here reads a file or a
//! variable: the caller passes their texts.

mod exposed;
pub mod keys;
mod layers;
mod rules;
#[cfg(test)]
mod tests;
mod values;
mod write;

pub use exposed::check_exposed;
pub use keys::{Config, Entry, LogSection};
pub use layers::{Layers, Resolved};
pub use rules::LogFormat;
pub use values::{ConfigError, Origin};
pub use write::{bootstrap_file, given, show};
