//! Worker leases: commands and records. The rules are in `apply`.

pub(crate) mod commands;
pub(crate) mod record;
