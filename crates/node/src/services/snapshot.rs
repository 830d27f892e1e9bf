//! The state as a file, by a linearizable read.

use seqd_api::SnapshotHead;
use seqd_raft::{Export, Raft, SnapshotError};
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
        let head = SnapshotHead {
            index: export.index,
            term: export.term,
            cluster_id: export.cluster_id.clone(),
            rows: export.rows,
            digest: export.digest.to_string(),
            bytes: export.len,
        };
        Ok((head, export))
    }
}
