//! The names and numbers of locks, each with its own type.

use serde::{Deserialize, Serialize};

use crate::newtypes::{name, numbers};

/// The maximum length of a lock's name, in bytes: fits a URL and a table column.
pub const MAX_LOCK_NAME_BYTES: usize = 255;

/// The maximum length of an owner, in bytes: the name of a host, a pod or a service with a suffix.
pub const MAX_LOCK_OWNER_BYTES: usize = 128;

numbers! {
    /// Identifies one grant of a lock. Every grant has a greater token than all earlier grants of
    /// any lock.
    FencingToken;
}

/// The high half of the nonces of claims whose owner is a secret. It is part of the nonce, so that
/// such a claim has the form that every member can read.
const SECRET_OWNER: u128 = 0x7365_6372_6574_0001;

/// Identifies an operation of a client. Repeated requests with the same nonce are one claim of a
/// lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub u128);

impl Nonce {
    /// Derives the nonce from an owner and the owner's name for the request, so that requests of
    /// two owners are distinct.
    #[must_use]
    pub fn of(owner: &str, request: &str) -> Self {
        let length = owner.len() as u64;
        let bytes = [&length.to_le_bytes(), owner.as_bytes(), request.as_bytes()].concat();
        Self::of_bits(xxhash_rust::xxh3::xxh3_128(&bytes))
    }

    /// The nonce of a claim with a public owner, from random bits.
    #[must_use]
    pub fn of_bits(bits: u128) -> Self {
        let is_taken = Self(bits).has_secret_owner();
        Self(bits ^ u128::from(is_taken) << 127)
    }

    /// The nonce of a claim whose owner is a secret of its holder, from random bits.
    #[must_use]
    pub fn with_secret_owner(bits: u64) -> Self {
        Self(SECRET_OWNER << 64 | u128::from(bits))
    }

    /// Returns whether the owner of the claim is a secret of its holder.
    #[must_use]
    pub fn has_secret_owner(self) -> bool {
        self.0 >> 64 == SECRET_OWNER
    }
}

/// Identifies one request for a claim. The node that serves the request draws it at random, but
/// never draws 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u64);

impl Attempt {
    /// An attempt that belongs to no request. No withdrawal ends a claim with it.
    pub(crate) const NOBODY: Self = Self(0);
}

name! {
    /// The name of a lock: 1 to 255 printable ASCII characters.
    LockName, LockNameError, |text| is_printable(text, MAX_LOCK_NAME_BYTES)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a lock name has 1 to {MAX_LOCK_NAME_BYTES} printable ASCII characters")]
pub struct LockNameError;

/// Returns whether a text has 1 to `limit` printable ASCII characters, spaces included.
pub(crate) fn is_printable(text: &str, limit: usize) -> bool {
    (1..=limit).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_nonce_of_a_public_owner_marks_a_secret_one() {
        let secret = Nonce::with_secret_owner(7);
        assert!(secret.has_secret_owner());
        for bits in [0, 1, u128::MAX, secret.0, secret.0 ^ 1 << 127] {
            assert!(!Nonce::of_bits(bits).has_secret_owner(), "{bits:x}");
        }
    }

    #[test]
    fn names_of_printable_characters_are_taken_and_no_others() {
        for text in ["a", "jobs/nightly", "a b", "%2F", "~", &"x".repeat(255)] {
            assert_eq!(LockName::new(text).unwrap().as_str(), text);
        }
        for text in ["", "é", "a\n", "\u{7f}", &"x".repeat(256)] {
            assert_eq!(LockName::new(text), Err(LockNameError), "{text:?}");
        }
    }
}
