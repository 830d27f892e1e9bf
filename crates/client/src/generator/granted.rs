//! Creates a generator from the response to a lease request. Every field is checked, and nothing is
//! guessed.

use seqd_api::Lease;
use seqd_idgen::{ClockPolicy, Generator, Tick, WorkerId};

use super::error::GenerateError;
use crate::definition::layout_of;

/// Creates the only generator of this lease.
pub(super) fn generator(lease: &Lease, policy: ClockPolicy) -> Result<Generator, GenerateError> {
    let layout = layout_of(&lease.layout)?;
    let worker = WorkerId(lease.id);
    let (from, fence) = (Tick(lease.from_tick), Tick(lease.fence_tick));
    // Both halves of the random lease number, so that each lease has its own seed.
    let seed = (lease.lease as u64) ^ ((lease.lease >> 64) as u64);
    let generator = Generator::new(layout, worker, from, fence, seed).map_err(unusable)?;
    Ok(generator.with_policy(policy))
}

fn unusable(error: impl std::fmt::Display) -> GenerateError {
    GenerateError::BadLease {
        detail: error.to_string(),
    }
}
