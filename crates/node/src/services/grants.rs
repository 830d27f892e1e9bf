//! A grant of a segment over HTTP, as clients name it.

use seqd_state::{GrantToken, SequenceName};
use tokio::time::Instant;

use super::seals::{Seal, SecretError, secret};
use super::sequences::{SequenceError, SequenceService};

impl From<SecretError> for SequenceError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Unread(error) => Self::Unread(error),
            SecretError::Propose(error) => Self::Propose(error),
            SecretError::NoRandom(error) => Self::NoRandom(error),
        }
    }
}

/// The name comes last: it has any length.
fn seal<'a>(parts: &'a [&'a [u8]]) -> Seal<'a> {
    Seal {
        kind: b"seqd segment grant\0",
        parts,
    }
}

impl SequenceService {
    /// The name that a client gets for a grant.
    pub(super) async fn sealed(
        &self,
        name: &SequenceName,
        token: GrantToken,
        deadline: Instant,
    ) -> Result<u128, SequenceError> {
        let key = secret(&*self.replica, deadline).await?;
        Ok(seal(&[name.as_str().as_bytes()]).close(&key, token.0))
    }

    /// The token of a grant that a client names.
    pub(super) async fn opened(
        &self,
        name: &SequenceName,
        grant: u128,
        deadline: Instant,
    ) -> Result<GrantToken, SequenceError> {
        let key = secret(&*self.replica, deadline).await?;
        let unknown = || SequenceError::UnknownGrant {
            name: name.clone(),
            grant,
        };
        let token = seal(&[name.as_str().as_bytes()]).open(&key, grant);
        token.map(GrantToken).ok_or_else(unknown)
    }
}
