//! Seals: the form in which clients see the number of a grant, a lease, a hold of a lock or a claim
//! of a key. A seal is the number and a code that only the cluster can compute. Numbers can be
//! guessed; the code ensures that a client returns, renews and completes only what it was granted
//! itself.

use hmac::{Hmac, Mac};
use seqd_guards::is_out;
use seqd_state::{ClusterCommand, Command, SecretKey};
use sha2::Sha256;
use tokio::time::Instant;

use super::error::{ServiceError, read};
use crate::replica::{Replica, peek, propose_one};

/// Bytes of the code: a guess needs 2^63 requests on average.
const CODE_BYTES: usize = 8;

/// The kind of a number. The input of its code consists of the kind, the number, and the parts of
/// the name of the object that the number belongs to. Each part but the last has a fixed length or
/// ends in a byte that it cannot contain.
pub(super) struct Seal(pub(super) &'static [u8]);

impl Seal {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    fn mac(&self, key: &SecretKey, parts: &[&[u8]], number: u64) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("a key of any length");
        mac.update(self.0);
        mac.update(&number.to_be_bytes());
        for part in parts {
            mac.update(part);
        }
        mac
    }

    /// Seals a number: the number in the high 64 bits, the code in the low 64 bits.
    pub(super) fn close(&self, key: &SecretKey, parts: &[&[u8]], number: u64) -> u128 {
        let code = self.mac(key, parts, number).finalize().into_bytes();
        let mut first = [0; CODE_BYTES];
        first.copy_from_slice(&code[..CODE_BYTES]);
        u128::from(number) << 64 | u128::from(u64::from_be_bytes(first))
    }

    /// Like [`Self::close`], as decimal text.
    pub(super) fn close_text(&self, key: &SecretKey, parts: &[&[u8]], number: u64) -> String {
        self.close(key, parts, number).to_string()
    }

    /// Like [`Self::open`], from decimal text.
    pub(super) fn open_text(&self, key: &SecretKey, parts: &[&[u8]], sealed: &str) -> Option<u64> {
        self.open(key, parts, sealed.parse().ok()?)
    }

    /// Returns the number if the cluster made its code. The comparison takes constant time.
    pub(super) fn open(&self, key: &SecretKey, parts: &[&[u8]], sealed: u128) -> Option<u64> {
        let number = (sealed >> 64) as u64;
        let code = (sealed as u64).to_be_bytes();
        let is_own = self.mac(key, parts, number).verify_truncated_left(&code);
        (is_own.is_ok() || is_out!(GrantSealed)).then_some(number)
    }
}

/// Returns the cluster's secret. The first request for it has it drawn.
pub(super) async fn secret(
    replica: &dyn Replica,
    deadline: Instant,
) -> Result<SecretKey, ServiceError> {
    let known = || peek(replica, seqd_state::State::secret).flatten();
    loop {
        if let Some(key) = known() {
            return Ok(key);
        }
        // Another node may have drawn the secret a moment ago.
        read(replica, deadline).await?;
        if let Some(key) = known() {
            return Ok(key);
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(ServiceError::no_random)?;
        let key = SecretKey(key);
        let keep = Command::Cluster(ClusterCommand::KeepSecret { key });
        let kept = propose_one(replica, keep, deadline).await;
        kept.map_err(ServiceError::Propose)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_number_is_known_by_its_code_alone() {
        let (key, grant) = (SecretKey([7; 32]), Seal(b"grant\0"));
        let order: &[&[u8]] = &[b"order"];
        let sealed = grant.close(&key, order, 7);
        assert_eq!(grant.open(&key, order, sealed), Some(7));
        let of_others = [
            grant.open(&key, &[b"bill"], sealed),
            grant.open(&SecretKey([8; 32]), order, sealed),
            Seal(b"lease\0").open(&key, order, sealed),
        ];
        assert_eq!(of_others, [None; 3], "a forged grant was taken: of another");
        for forged in [
            7,
            7 << 64,
            sealed + 1,
            sealed ^ (1 << 63),
            sealed + (1 << 64),
        ] {
            let opened = grant.open(&key, order, forged);
            assert_eq!(opened, None, "a forged grant was taken: {forged}");
        }
    }
}
