//! Worker leases: commands and records. The rules are in `apply`.

pub(crate) mod commands;
pub(crate) mod past;
pub(crate) mod record;
pub(crate) mod room;
