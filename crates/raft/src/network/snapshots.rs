//! Sends a snapshot, and has it verified where it may be damaged.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::raft::SnapshotResponse;

use super::{PeerClient, snapshot_stream};
use crate::conversation;
use crate::records::{Restore, ToRecord};
use crate::storage::applied::Snapshot;
use crate::types::{TypeConfig, Vote};
use crate::wire::messages::{SnapshotHead, SnapshotReply};
use crate::wire::route::Route;
use crate::wire::sealed::{self, Sealed};
use crate::wire::transport::{CallError, Limit, RejectionCode};

/// How long a snapshot's bytes may stand still: a receiver writes to its disk meanwhile.
const STALLED: Duration = Duration::from_secs(30);

impl PeerClient {
    pub(super) async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: Snapshot,
        answer: Duration,
    ) -> Result<SnapshotResponse<TypeConfig>, CallError> {
        let index = snapshot.meta.last_log_id.map_or(0, |id| id.index());
        self.transfers.begin(self.target, index);
        let head = SnapshotHead {
            vote: vote.record(),
            last: snapshot.meta.last_log_id.record(),
            membership: snapshot.meta.last_membership.record(),
            len: snapshot.snapshot.len(),
        };
        let Some(envelope) = self.context.envelope(self.target) else {
            return Err(CallError::Unsent(
                "this node has no identity yet".to_owned(),
            ));
        };
        let unsent = |e: io::Error| CallError::Unsent(format!("cannot read the snapshot: {e}"));
        let sealed = sealed::seal(&envelope, &head, self.context.level()).map_err(unsent)?;
        let verify = |why: &str| {
            self.scrubber
                .verify_after_failed_send(&snapshot.snapshot, self.target, why)
        };
        let unread = Arc::<OnceLock<String>>::default();
        let disk = Arc::clone(self.context.folder.disk());
        let body =
            snapshot_stream::open(sealed, disk, &snapshot.snapshot, Arc::clone(&unread)).await;
        let body = body
            .map_err(unsent)
            .inspect_err(|e| verify(&e.to_string()))?;
        if self.may_send().is_err() {
            return Err(CallError::Unsent("this node's disk hangs".to_owned()));
        }
        let transport = &self.context.transport;
        let limit = Limit::Progress {
            moving: STALLED,
            answer,
        };
        let answer = transport
            .post(self.link, &self.addr, Route::Snapshot, body, limit)
            .await;
        match (&answer, unread.get()) {
            (Err(_), Some(why)) => verify(why),
            (Err(CallError::Rejected(refused)), None)
                if refused.code == RejectionCode::Malformed =>
            {
                verify(&refused.to_string());
            }
            _ => {}
        }
        let to = (self.target, self.addr.as_str());
        let reply: Sealed<SnapshotReply> = conversation::open(&self.context, to, answer).await?;
        let their_vote = reply.message.vote.restore();
        if their_vote == vote {
            // The vote alone: the reply does not have the log ID of a snapshot that the peer did not
            // need, and the peer acknowledges the entry with the next message.
            self.record(&reply, &vote, None);
        }
        Ok(SnapshotResponse::new(their_vote))
    }
}
