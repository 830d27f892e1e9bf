//! Sequences: commands, definitions, and grants.

pub(crate) mod commands;
pub(crate) mod definition;
pub(crate) mod grants;
