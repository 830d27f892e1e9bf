//! Segments for client-side allocators: grants a range to a client, and takes back its unused end.

use seqd_api::{Grant, GrantRequest, ReturnRequest, Returned};
use seqd_guards::is_out;
use seqd_state::{GrantToken, Outcome, SecretKey, SequenceCommand, SequenceName, SequenceOutcome};
use tokio::time::Instant;

use super::error::{RequestError, SequenceError, ServiceError, unexpected, within};
use super::seals::{Seal, secret};
use super::sequences::SequenceService;

impl SequenceService {
    /// Grants a segment. With a key (`has_key`), later requests with the same key get the same
    /// values.
    pub(crate) async fn grant_segment(
        &self,
        name: SequenceName,
        request: &GrantRequest,
        has_key: bool,
        deadline: Instant,
    ) -> Result<Grant, ServiceError> {
        let size = request.size.unwrap_or(GrantRequest::DEFAULT_SIZE);
        let size = within("size", size, GrantRequest::MAX_SIZE)?;
        // The secret is read before anything is granted: a grant that cannot be named would be
        // lost.
        let key = secret(&*self.replica, deadline).await?;
        let after = match request.after {
            Some(grant) => opened(&key, &name, grant)?,
            None => None,
        };
        let seal = if has_key && !is_out!(GrantOfKeyKept) {
            SEAL_OF_KEY
        } else {
            SEAL
        };
        let command = SequenceCommand::GrantSegment {
            name: name.clone(),
            size,
            after,
        };
        match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => {
                self.metrics.allocated(name.as_str(), grant.count);
                Ok(Grant {
                    grant: seal.close(&key, &[name.as_str().as_bytes()], grant.token.0),
                    first: grant.first,
                    last: grant.last,
                    count: grant.count,
                    increment: grant.increment,
                })
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn give_back(
        &self,
        name: SequenceName,
        grant: u128,
        request: &ReturnRequest,
        deadline: Instant,
    ) -> Result<Returned, ServiceError> {
        let unused = request.unused.ok_or_else(|| {
            RequestError::invalid("unused is missing: the number of values to return")
        })?;
        if unused == 0 {
            return Err(RequestError::invalid("unused is at least 1, not 0").into());
        }
        let key = secret(&*self.replica, deadline).await?;
        let token = opened(&key, &name, grant)?
            .ok_or_else(|| SequenceError::GrantOfKey { name: name.clone() })?;
        let record = self.current(&name, deadline).await?;
        // The run ends at the high-water mark. If the mark moves meanwhile, the token is no longer
        // the latest.
        let Some(first_unused) = record.next_index.checked_sub(unused) else {
            return Err(SequenceError::MoreThanGranted { unused, name }.into());
        };
        let command = SequenceCommand::ReturnTail {
            name,
            token,
            first_unused,
        };
        match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::TailReturned { returned, .. }) => {
                Ok(Returned { returned })
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// The name is the last part, since its length is variable.
const SEAL: Seal = Seal(b"seqd segment grant\0");

/// The seal of a grant whose request had an `Idempotency-Key`. Its values are never returned, and
/// no later segment extends its run: another request with the key gets the same values.
const SEAL_OF_KEY: Seal = Seal(b"seqd segment grant of a key\0");

/// The token of a grant that a client names; `None` for a grant of a key, whose values are never
/// returned.
fn opened(
    key: &SecretKey,
    name: &SequenceName,
    grant: u128,
) -> Result<Option<GrantToken>, SequenceError> {
    let parts = &[name.as_str().as_bytes()];
    if let Some(token) = SEAL.open(key, parts, grant) {
        return Ok(Some(GrantToken(token)));
    }
    match SEAL_OF_KEY.open(key, parts, grant) {
        Some(_) => Ok(None),
        None => Err(SequenceError::UnknownGrant {
            name: name.clone(),
            grant,
        }),
    }
}
