//! Sends a snapshot, resuming an interrupted transfer, and has it verified if it may be damaged.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::raft::SnapshotResponse;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed::{self, Sealed};
use seqd_peers::wire::transport::{CallError, Limit, RejectionCode};

use super::client::PeerClient;
use super::snapshot_stream;
use crate::conversation;
use crate::messages::{AskSnapshotKept, SnapshotHead, SnapshotKept, SnapshotReply, SnapshotRest};
use crate::records::{Restore, ToRecord};
use crate::storage::applied::Snapshot;
use crate::types::{TypeConfig, Vote};

/// Longest time without progress in the transfer of a snapshot. The receiver writes to its disk
/// meanwhile.
const STALLED: Duration = Duration::from_secs(30);

impl PeerClient {
    /// The number of bytes that the target kept of an interrupted transfer, and their CRC-32C.
    async fn ask_kept(&self) -> Result<(u64, u32), CallError> {
        self.look_up_addr();
        let addr = self.addr();
        let (to, route) = ((self.target, &*addr), Route::SnapshotKept);
        let context = &self.network.context;
        let asked = conversation::call(context, self.link, to, route, AskSnapshotKept, STALLED);
        match asked.await {
            Ok(SnapshotKept { bytes, crc }) => Ok((bytes, crc)),
            // The target's program does not support this request.
            Err(error) if error.is_newer() => Ok((0, 0)),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: Snapshot,
        answer: Duration,
    ) -> Result<SnapshotResponse<TypeConfig>, CallError> {
        let index = snapshot.meta.last_log_id.map_or(0, |id| id.index());
        self.network.transfers.begin(self.target, index);
        let head = SnapshotHead {
            vote: vote.record(),
            last: snapshot.meta.last_log_id.record(),
            membership: snapshot.meta.last_membership.record(),
            len: snapshot.snapshot.len(),
        };
        let Some(envelope) = self.network.context.envelope(self.target) else {
            return Err(CallError::Unsent(
                "this node has no identity yet".to_owned(),
            ));
        };
        let unsent = |e: io::Error| CallError::Unsent(format!("cannot read the snapshot: {e}"));
        let verify = |why: &str| {
            self.network
                .scrubber
                .verify_after_failed_send(&snapshot.snapshot, self.target, why)
        };
        let kept = self.ask_kept().await?;
        let unread = Arc::<OnceLock<String>>::default();
        let body = async {
            let disk = || Arc::clone(self.network.context.folder.disk());
            let file = &snapshot.snapshot;
            let goes_on = snapshot_stream::begins_with(disk(), file, kept).await?;
            let from = if goes_on { kept.0 } else { 0 };
            let level = self.network.context.level();
            let (route, head) = if from > 0 {
                let rest = SnapshotRest { head, from };
                (Route::SnapshotRest, sealed::seal(&envelope, &rest, level)?)
            } else {
                (Route::Snapshot, sealed::seal(&envelope, &head, level)?)
            };
            let unread = Arc::clone(&unread);
            let body = snapshot_stream::open(head, disk(), (file, from), unread).await?;
            io::Result::Ok((route, body))
        };
        let (route, body) = body
            .await
            .map_err(unsent)
            .inspect_err(|e| verify(&e.to_string()))?;
        if self.may_send().is_err() {
            return Err(CallError::Unsent("this node's disk hangs".to_owned()));
        }
        let transport = &self.network.context.transport;
        let limit = Limit::Progress {
            moving: STALLED,
            answer,
        };
        let answer = transport
            .post(self.link, &self.addr(), route, body, limit)
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
        let addr = self.addr();
        let to = (self.link, self.target, &*addr);
        let reply: Sealed<SnapshotReply> =
            conversation::open(&self.network.context, to, answer).await?;
        self.network.transfers.arrived(self.target);
        let their_vote = reply.message.vote.restore();
        if their_vote == vote {
            // Only the vote is recorded. The reply lacks the log ID of a snapshot that the peer did
            // not need, and the peer acknowledges the entry with the next message.
            self.record(&reply, &vote, None);
        }
        Ok(SnapshotResponse::new(their_vote))
    }
}
