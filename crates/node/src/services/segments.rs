//! Segments for client-side allocators: a range to a client, and its unused end back.

use std::sync::Arc;

use seqd_api::{Grant, GrantRequest, ReturnRequest, Returned};
use seqd_state::{Outcome, SequenceCommand, SequenceName, SequenceOutcome};
use tokio::time::Instant;

use super::error::{RequestError, SequenceError, ServiceError, unexpected, within};
use super::seals::secret;
use super::sequences::SequenceService;

pub(crate) struct SegmentService {
    pub(crate) sequences: Arc<SequenceService>,
}

impl SegmentService {
    pub(crate) async fn grant(
        &self,
        name: SequenceName,
        request: &GrantRequest,
        deadline: Instant,
    ) -> Result<Grant, ServiceError> {
        let size = request.size.unwrap_or(GrantRequest::DEFAULT_SIZE);
        let size = within("size", size, GrantRequest::MAX_SIZE)?;
        let after = match request.after {
            Some(grant) => Some(self.sequences.opened(&name, grant, deadline).await?),
            None => None,
        };
        // Before anything is granted: a grant that cannot be named would be lost.
        secret(&*self.sequences.replica, deadline).await?;
        let command = SequenceCommand::GrantSegment {
            name: name.clone(),
            size,
            after,
        };
        match self.sequences.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Ok(Grant {
                grant: self.sequences.sealed(&name, grant.token, deadline).await?,
                first: grant.first,
                last: grant.last,
                count: grant.count,
                increment: grant.increment,
            }),
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
        let unused = request.unused.filter(|unused| *unused > 0);
        let unused = unused.ok_or_else(|| {
            RequestError::invalid("unused says how many of the last values come back")
        })?;
        let token = self.sequences.opened(&name, grant, deadline).await?;
        let record = self.sequences.current(&name, deadline).await?;
        // The run ends at the mark; if it moves meanwhile, the token is no longer the latest.
        let Some(first_unused) = record.next_index.checked_sub(unused) else {
            return Err(SequenceError::MoreThanGranted { unused, name }.into());
        };
        let command = SequenceCommand::ReturnTail {
            name,
            token,
            first_unused,
        };
        match self.sequences.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::TailReturned { returned, .. }) => {
                Ok(Returned { returned })
            }
            other => Err(unexpected(&other)),
        }
    }
}
