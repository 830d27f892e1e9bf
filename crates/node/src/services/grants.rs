//! What a grant over HTTP is called outside of the cluster: its token, and a code that only the
//! cluster can make. So a client gives back what it was granted itself, and neither what a node
//! holds nor what another client does: their tokens are numbers in a row.

use hmac::{Hmac, Mac};
use seqd_guards::is_out;
use seqd_state::{ClusterCommand, Command, GrantToken, SecretKey, SequenceName};
use sha2::Sha256;
use tokio::time::Instant;

use super::sequences::{SequenceError, SequenceService};
use crate::replica::{peek, propose_at_level};

/// Bytes of the code: whoever guesses needs 2^63 requests on average.
const CODE_BYTES: usize = 8;

/// A grant as clients name it: the token, and below it the code.
fn join(token: GrantToken, code: [u8; CODE_BYTES]) -> u128 {
    u128::from(token.0) << 64 | u128::from(u64::from_be_bytes(code))
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn mac(key: &SecretKey, name: &SequenceName, token: GrantToken) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("a key of any length");
    mac.update(b"seqd segment grant\0");
    mac.update(&token.0.to_be_bytes());
    mac.update(name.as_str().as_bytes());
    mac
}

fn seal(key: &SecretKey, name: &SequenceName, token: GrantToken) -> u128 {
    let code = mac(key, name, token).finalize().into_bytes();
    let mut first = [0; CODE_BYTES];
    first.copy_from_slice(&code[..CODE_BYTES]);
    join(token, first)
}

/// The token, if the cluster made the code for it. Compared in constant time.
fn open(key: &SecretKey, name: &SequenceName, grant: u128) -> Option<GrantToken> {
    let token = GrantToken((grant >> 64) as u64);
    let code = (grant as u64).to_be_bytes();
    let is_own = mac(key, name, token).verify_truncated_left(&code);
    (is_own.is_ok() || is_out!(GrantSealed)).then_some(token)
}

impl SequenceService {
    /// The name that a client gets for a grant.
    pub(super) async fn sealed(
        &self,
        name: &SequenceName,
        token: GrantToken,
        deadline: Instant,
    ) -> Result<u128, SequenceError> {
        let key = self.secret(deadline).await?;
        Ok(seal(&key, name, token))
    }

    /// The token of a grant that a client names.
    pub(super) async fn opened(
        &self,
        name: &SequenceName,
        grant: u128,
        deadline: Instant,
    ) -> Result<GrantToken, SequenceError> {
        let key = self.secret(deadline).await?;
        let unknown = || SequenceError::UnknownGrant {
            name: name.clone(),
            grant,
        };
        open(&key, name, grant).ok_or_else(unknown)
    }

    /// The cluster's secret; the first that asks for it has it drawn.
    pub(super) async fn secret(&self, deadline: Instant) -> Result<SecretKey, SequenceError> {
        let known = || peek(&*self.replica, seqd_state::State::secret).flatten();
        loop {
            if let Some(key) = known() {
                return Ok(key);
            }
            // Perhaps drawn a moment ago through another node.
            let read = self.replica.read(deadline).await;
            read.map_err(SequenceError::Unread)?;
            if let Some(key) = known() {
                return Ok(key);
            }
            let mut key = [0; 32];
            getrandom::fill(&mut key)
                .map_err(|error| SequenceError::NoRandom(error.to_string()))?;
            let key = SecretKey(key);
            let keep = Command::Cluster(ClusterCommand::KeepSecret { key });
            let kept = propose_at_level(&*self.replica, keep, deadline).await;
            kept.map_err(SequenceError::Propose)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_known_by_its_code_alone() {
        let key = SecretKey([7; 32]);
        let (order, bill) = ("order", "bill");
        let [order, bill] = [order, bill].map(|name| SequenceName::new(name).unwrap());
        let grant = seal(&key, &order, GrantToken(7));
        assert_eq!(open(&key, &order, grant), Some(GrantToken(7)));
        let of_others = [(&key, &bill), (&SecretKey([8; 32]), &order)];
        for (key, name) in of_others {
            let opened = open(key, name, grant);
            assert_eq!(opened, None, "a forged grant was taken: of another");
        }
        for forged in [7, 7 << 64, grant + 1, grant ^ (1 << 63), grant + (1 << 64)] {
            let opened = open(&key, &order, forged);
            assert_eq!(opened, None, "a forged grant was taken: {forged}");
        }
    }
}
