//! Locks: records, commands, and the data derived from them.

pub(crate) mod commands;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod tally;
pub(crate) mod view;
