//! Worker leases: what can be asked of them, and who may mint with which worker.

pub(crate) mod commands;
pub(crate) mod leases;
