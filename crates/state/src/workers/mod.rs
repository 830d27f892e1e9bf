//! Worker leases: commands, and the leases themselves.

pub(crate) mod commands;
pub(crate) mod leases;
