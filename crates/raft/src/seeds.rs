//! Seeds of random tests: fresh ones, and numbers from the environment.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A fresh seed. It is short enough that a test can count up from it.
pub(crate) fn fresh() -> u64 {
    RandomState::new().build_hasher().finish() >> 1
}

/// The number in an environment variable, if it is set.
pub(crate) fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a decimal number"))
}
