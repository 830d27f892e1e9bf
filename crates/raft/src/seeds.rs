//! Seeds of random tests: fresh ones, and what the environment asks for.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A seed that no run before has had; it is printed whole, and leaves room to count up from.
pub(crate) fn fresh() -> u64 {
    RandomState::new().build_hasher().finish() >> 1
}

/// The number in a variable of the environment, if it is set.
pub(crate) fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a decimal number"))
}
