//! Worker leases: commands, rules, and the leases themselves.

mod apply;
pub(crate) mod commands;
pub(crate) mod record;
