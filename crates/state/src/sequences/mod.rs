//! Sequences: commands, rules, definitions, and what is stored.

mod apply;
pub(crate) mod commands;
pub(crate) mod definition;
pub(crate) mod record;
