//! Worker leases.

pub(crate) mod leases;
