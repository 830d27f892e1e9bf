//! A grant of a segment over HTTP, as clients name it.

use seqd_state::{GrantToken, SequenceName};
use tokio::time::Instant;

use super::error::{SequenceError, ServiceError};
use super::seals::{Seal, secret};
use super::sequences::SequenceService;

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
    ) -> Result<u128, ServiceError> {
        let key = secret(&*self.replica, deadline).await?;
        Ok(seal(&[name.as_str().as_bytes()]).close(&key, token.0))
    }

    /// The token of a grant that a client names.
    pub(super) async fn opened(
        &self,
        name: &SequenceName,
        grant: u128,
        deadline: Instant,
    ) -> Result<GrantToken, ServiceError> {
        let key = secret(&*self.replica, deadline).await?;
        let unknown = || SequenceError::UnknownGrant {
            name: name.clone(),
            grant,
        };
        let token = seal(&[name.as_str().as_bytes()]).open(&key, grant);
        Ok(token.map(GrantToken).ok_or_else(unknown)?)
    }
}
