//! Cluster IDs: drawn once, by the node that bootstraps or restores a cluster.

use seqd_state::idgen::WallMs;

use crate::handle::Stop;

/// The digits of a cluster's ID.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The time in a cluster's ID, Unix milliseconds; `None` if it is none that was drawn here.
pub(crate) fn time_of_id(id: &str) -> Option<u64> {
    let digits = id.as_bytes().get(..10).filter(|_| id.len() == 26)?;
    digits.iter().try_fold(0, |time: u64, digit| {
        let value = ALPHABET.iter().position(|one| one == digit)?;
        Some((time << 5) | u64::try_from(value).ok()?)
    })
}

/// A new cluster's ID: 48 bits of time and 80 random bits, as 26 characters of Crockford's
/// base 32 (the form of a ULID).
pub(crate) fn cluster_id_at(wall: WallMs) -> Result<String, Stop> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    let time = u128::from(wall.0) & ((1 << 48) - 1);
    let number = (u128::from_be_bytes(random) & ((1 << 80) - 1)) | (time << 80);
    let digit = |place: u32| {
        let at = (number >> (5 * place)) & 31;
        char::from(ALPHABET[usize::try_from(at).unwrap_or_default()])
    };
    Ok((0..26).rev().map(digit).collect())
}

/// Random bytes from the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Stop> {
    getrandom::fill(bytes).map_err(|e| Stop {
        exit: 10,
        code: "invariant",
        message: format!("the operating system gives no random bytes: {e}"),
    })
}
