//! The nonce of a request that may be retried.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use crate::boot_clock::BootTime;

/// Returns 128 random bits: the keys of hashers are random in each process and differ between
/// hashers. A forked process differs by its process ID.
pub(crate) fn draw() -> String {
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u64(BootTime::now().as_millis());
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn nonces_differ() {
        let drawn: std::collections::BTreeSet<String> = (0..1000).map(|_| draw()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().all(|nonce| nonce.len() == 32));
    }
}
