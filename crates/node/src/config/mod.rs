//! The configuration: typed, checked, and each value with its origin.
//!
//! For every key, a flag overrides the environment, which overrides the file, which overrides the
//! default. [`keys`] is the only table of keys. [`Layers`] merges the given values and builds the
//! typed [`Config`]. This module reads no files or variables: the caller passes their texts.

mod bootstrap;
mod exposed;
mod file;
pub mod keys;
mod layers;
mod relations;
mod rules;
#[cfg(test)]
mod tests;
mod values;
mod write;

pub use bootstrap::{Bootstrap, bootstrap_file};
pub use exposed::check_exposed;
pub(crate) use exposed::exposed;
pub use keys::{Config, Entry, LogSection};
pub use layers::{Layers, Resolved};
pub use rules::{CompatRoutes, LogFormat};
pub use values::{ConfigError, Origin};
pub use write::{given, show};
