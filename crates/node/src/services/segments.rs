//! Segments for client-side allocators: a range to a client, and its unused end back.

use std::sync::Arc;

use seqd_api::{Grant, GrantRequest, ReturnRequest, Returned};
use seqd_state::{Command, GrantToken, Outcome, SequenceCommand, SequenceName, SequenceOutcome};
use tokio::time::Instant;

use super::error::{RequestError, count_within};
use super::sequences::{SequenceError, SequenceService, unexpected};

pub(crate) struct SegmentService {
    pub(crate) sequences: Arc<SequenceService>,
}

impl SegmentService {
    pub(crate) async fn grant(
        &self,
        name: SequenceName,
        request: &GrantRequest,
        deadline: Instant,
    ) -> Result<Grant, SequenceError> {
        let size = request.size.unwrap_or(GrantRequest::DEFAULT_SIZE);
        let size = count_within(Some(size), GrantRequest::MAX_SIZE)?;
        let command = Command::Sequences(SequenceCommand::GrantSegment {
            name,
            size,
            after: request.after.map(GrantToken),
        });
        match self.sequences.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Ok(Grant {
                grant: grant.token.0,
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
        grant: u64,
        request: &ReturnRequest,
        deadline: Instant,
    ) -> Result<Returned, SequenceError> {
        let unused = request.unused.filter(|unused| *unused > 0);
        let unused = unused.ok_or_else(|| {
            RequestError::invalid("unused says how many of the last values come back")
        })?;
        let record = self.sequences.current(&name, deadline).await?;
        // The run ends at the mark; if it moves meanwhile, the token is no longer the latest.
        let Some(first_unused) = record.next_index.checked_sub(unused) else {
            return Err(SequenceError::MoreThanGranted { unused, name });
        };
        let command = Command::Sequences(SequenceCommand::ReturnTail {
            name,
            token: GrantToken(grant),
            first_unused,
        });
        match self.sequences.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::TailReturned { returned, .. }) => {
                Ok(Returned { returned })
            }
            other => Err(unexpected(&other)),
        }
    }
}
