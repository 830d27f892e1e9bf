//! The state as a file, by a linearizable read.

use seqd_api::SnapshotHead;
use seqd_raft::{Export, Raft, SnapshotError};
use seqd_state::Digest;
use tokio::time::Instant;

use super::error::ServiceError;
use crate::replica::name_missing;

pub(crate) struct SnapshotService {
    pub(crate) raft: Raft,
}

impl SnapshotService {
    /// Takes a snapshot of the cluster; with `stale`, of the state that this node has applied.
    ///
    /// The deadline applies to the linearizable read. Writing and sending the snapshot are not
    /// limited.
    pub(crate) async fn take(
        &self,
        stale: bool,
        deadline: Instant,
    ) -> Result<(SnapshotHead, Export), ServiceError> {
        let export = self.raft.snapshot(stale, deadline).await;
        let export = export.map_err(|error| match error {
            SnapshotError::Propose(error) => name_missing(error, &self.raft).into(),
            error => error,
        })?;
        let described = &export.described;
        let head = SnapshotHead {
            index: described.index,
            term: described.term,
            cluster_id: described.cluster_id.clone(),
            rows: described.rows,
            digest: Digest(described.digest).to_string(),
            bytes: described.len,
        };
        Ok((head, export))
    }
}
