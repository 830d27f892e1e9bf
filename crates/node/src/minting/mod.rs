//! Mints from memory: leases, generators, the clock guard and its mark on disk, UUIDs.
//!
//! A request takes IDs from a generator and never waits for the cluster while the window lasts. One
//! [`keeper`] per worker takes the lease and moves the fence; a request only wakes it when
//! something is missing. Uniqueness depends on the fence alone (see `seqd_idgen`).

mod demand;
mod error;
mod fence;
mod keeper;
pub(crate) mod last_tick;
mod line;
mod minter;
mod minters;
mod resets;
mod seat;
#[cfg(test)]
mod tests;
mod tick_timer;
pub(crate) mod uuids;
mod watch;

pub(crate) use error::MintError;
pub(crate) use fence::fence_from;
pub(crate) use keeper::Keeper;
pub(crate) use minter::{Minted, Minter};
pub(crate) use minters::Minters;
pub(crate) use watch::ClockWatch;
