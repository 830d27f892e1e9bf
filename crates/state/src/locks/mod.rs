//! Locks: records, commands, and what they leave to others.

pub(crate) mod commands;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod tally;
pub(crate) mod view;
