//! Random steps for the locks of the model.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::lock_rules::NAMES;

/// The longest time that a step requests.
pub(crate) const LONGEST_MS: u64 = 900;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire {
        nonce: u8,
        attempt: u64,
        ttl_ms: u64,
        wait_ms: u64,
        permits: u32,
        shared: bool,
        lock_delay_ms: u64,
        /// Uses the terms of the claim with this nonce, if there is one: the request is a retry.
        as_before: bool,
    },
    /// Renews a hold with a token that was granted before.
    Renew(Index, u64),
    Release(Index),
    /// Breaks one hold, or all.
    Break(Option<Index>),
    Withdraw {
        nonce: u8,
        attempt: u64,
    },
    Restart,
}

/// Steps with the lock to which they apply, and the times that pass before them.
pub(crate) fn steps() -> impl Strategy<Value = Vec<(usize, i64, u64, Step)>> {
    let ttl = 100u64..600;
    let acquire = (
        0u8..7,
        1u64..4,
        ttl.clone(),
        prop_oneof![1 => Just(0u64), 3 => 1u64..LONGEST_MS],
        prop_oneof![7 => Just(1u32), 1 => Just(2u32)],
        prop_oneof![3 => Just(false), 1 => Just(true)],
        prop_oneof![4 => Just(0u64), 1 => 1u64..200],
        prop_oneof![5 => Just(true), 1 => Just(false)],
    );
    let step = prop_oneof![
        12 => acquire.prop_map(
            |(nonce, attempt, ttl_ms, wait_ms, permits, shared, lock_delay_ms, as_before)| {
                Step::Acquire {
                    nonce,
                    attempt,
                    ttl_ms,
                    wait_ms,
                    permits: if shared { 1 } else { permits },
                    shared,
                    lock_delay_ms,
                    as_before,
                }
            }
        ),
        5 => (any::<Index>(), ttl).prop_map(|(which, ttl)| Step::Renew(which, ttl)),
        3 => any::<Index>().prop_map(Step::Release),
        1 => proptest::option::of(any::<Index>()).prop_map(Step::Break),
        3 => (0u8..7, 1u64..4).prop_map(|(nonce, attempt)| Step::Withdraw { nonce, attempt }),
        1 => Just(Step::Restart),
    ];
    vec((0..NAMES.len(), -5_000i64..5_000, 0u64..150, step), 1..120)
}
