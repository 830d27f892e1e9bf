//! Sequences: commands, definitions and records. The rules are in `apply`.

pub(crate) mod commands;
pub(crate) mod definition;
pub(crate) mod record;
