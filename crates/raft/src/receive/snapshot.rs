//! Receives a snapshot from the leader: it is written next to the kept ones, checked, and
//! installed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::incoming::Body;
use seqd_peers::wire::sealed::decode;
use seqd_peers::wire::transport::Rejection;
use seqd_state::codec::Versioned;
use seqd_store::disk_errors::is_of_the_kernel;
use seqd_store::snapshot_file::Receiver;
use tokio::sync::OwnedSemaphorePermit;

use super::service::{
    AcceptedMessage, Service, admitted, malformed, not_running, replica, seal, sealed,
};
use crate::blocking;
use crate::messages::{AskSnapshotKept, SnapshotHead, SnapshotKept, SnapshotReply, SnapshotRest};
use crate::records::{Restore, ToRecord};
use crate::storage::applied::{Snapshot, SnapshotHandle};
use crate::types::SnapshotMeta;

/// The longest pause within a snapshot's transfer. The leader only reads its disk meanwhile.
const CHUNK_LIMIT: Duration = Duration::from_secs(30);

/// Size of the length before the head, bytes.
const LENGTH: usize = 4;

/// The largest head of a snapshot's transfer, bytes: the membership of the largest cluster.
const HEAD_BYTES: usize = 64 << 10;

/// The next bytes of a snapshot. The time limit keeps a silent sender from occupying the place.
async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Rejection> {
    match tokio::time::timeout(CHUNK_LIMIT, body.next()).await {
        Ok(chunk) => chunk,
        Err(_) => Err(malformed("no bytes of the snapshot arrived in time")),
    }
}

/// The head of a transfer from a member, and the bytes of the snapshot that arrived with it.
async fn take_head<M: Versioned>(
    service: &Service,
    body: &mut Body,
) -> Result<(Envelope, M, Bytes), Rejection> {
    // Until Raft runs, the content cannot be used.
    replica(service)?;
    let (envelope, message_at) = admitted(service, body, LENGTH).await?;
    let mut start = BytesMut::new();
    let head_len = loop {
        if let Some(length) = start.first_chunk::<LENGTH>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > HEAD_BYTES {
                return Err(malformed("the head of the snapshot is too long"));
            }
            if start.len() >= LENGTH + length {
                break length;
            }
        }
        match next_chunk(body).await? {
            Some(chunk) => start.extend_from_slice(&chunk),
            None => return Err(malformed("the snapshot ends within its head")),
        }
    };
    let head = start.split_to(LENGTH + head_len);
    let message = head
        .get(message_at..)
        .ok_or_else(|| malformed("the head of the snapshot ends in its envelope"))?;
    let message = decode(message).map_err(|e| service.unread::<M>(&e))?;
    Ok((envelope, message, start.freeze()))
}

/// Answers with the part that is kept of an incomplete snapshot.
pub(super) async fn kept(service: &Service, opened: AcceptedMessage) -> Result<Bytes, Rejection> {
    let unfinished = replica(service)?.unfinished.clone();
    let answer = |_: Envelope, AskSnapshotKept| async move {
        let kept = blocking::run(move || Ok(unfinished.kept())).await;
        let (bytes, crc) = kept.map_err(not_running)?;
        Ok(SnapshotKept { bytes, crc })
    };
    sealed(service, opened, answer).await
}

/// Receives a whole snapshot.
pub(super) async fn receive(service: &Service, mut body: Body) -> Result<Bytes, Rejection> {
    let (envelope, head, chunk) = take_head(service, &mut body).await?;
    take(service, body, (envelope, head, 0), chunk).await
}

/// Receives the rest of a snapshot whose first bytes are kept.
pub(super) async fn receive_rest(service: &Service, mut body: Body) -> Result<Bytes, Rejection> {
    let (envelope, rest, chunk) = take_head::<SnapshotRest>(service, &mut body).await?;
    take(service, body, (envelope, rest.head, rest.from), chunk).await
}

/// Performs one step of a receipt on the disk. A step continues when its caller is dropped. It
/// therefore holds the permit, so that no other receipt begins before it ends.
async fn step<T: Send + 'static>(
    alone: &Arc<OwnedSemaphorePermit>,
    step: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Rejection> {
    let alone = Arc::clone(alone);
    let done = blocking::run(move || {
        let _alone = alone;
        step()
    });
    // `malformed` is only for wrong bytes, because the leader then verifies its snapshot.
    done.await.map_err(not_running)
}

/// Receives the snapshot from byte `from` and installs it. The first bytes, `chunk`, arrived with
/// the head.
async fn take(
    service: &Service,
    mut body: Body,
    (envelope, message, from): (Envelope, SnapshotHead, u64),
    chunk: Bytes,
) -> Result<Bytes, Rejection> {
    let replica = replica(service)?;
    let unfinished = &replica.unfinished;
    let alone =
        (unfinished.alone()).ok_or_else(|| not_running("another snapshot is being received"))?;
    let alone = Arc::new(alone);
    let folder = Arc::clone(&service.node.context.folder);
    let index = message.last.map_or(0, |id| id.index);
    let (to, len) = (unfinished.clone(), message.len);
    let begin = move || match from {
        0 => to.begin(&folder, index, len),
        from => to.resume(from),
    };
    step(&alone, begin).await?;
    let mut left = len
        .checked_sub(from)
        .ok_or_else(|| malformed("more of the snapshot is kept than its head announces"))?;
    let mut next = Some(chunk);
    while let Some(chunk) = next {
        left = left
            .checked_sub(chunk.len() as u64)
            .ok_or_else(|| malformed("the snapshot is longer than its head announces"))?;
        let to = unfinished.clone();
        step(&alone, move || to.write(&chunk)).await?;
        next = next_chunk(&mut body).await?;
    }
    if left > 0 {
        return Err(malformed("the snapshot is shorter than its head announces"));
    }
    let to = unfinished.clone();
    let receiver = step(&alone, move || to.take()).await?;
    install(service, (envelope, message), receiver).await
}

/// Verifies a complete snapshot, installs it and answers.
async fn install(
    service: &Service,
    (envelope, message): (Envelope, SnapshotHead),
    receiver: Receiver,
) -> Result<Bytes, Rejection> {
    let replica = replica(service)?;
    let unread = |e: io::Error| service.unread::<SnapshotHead>(&e);
    let cluster_id = envelope.cluster_id.clone();
    let finished = blocking::run(move || receiver.finish(&cluster_id)).await;
    let received = finished.map_err(|error| {
        if is_of_the_kernel(&error) {
            not_running(error)
        } else {
            unread(error)
        }
    })?;
    let meta = SnapshotMeta {
        last_log_id: message.last.restore(),
        last_membership: message.membership.restore().map_err(malformed)?,
    };
    let snapshot = Snapshot {
        meta,
        snapshot: SnapshotHandle::Received(Box::new(received)),
    };
    let vote = message.vote.restore();
    let reply = replica
        .raft
        .install_full_snapshot(vote, snapshot)
        .await
        .map_err(not_running)?;
    replica.heard_if_followed(&vote, None);
    seal(
        service,
        envelope.from,
        SnapshotReply {
            vote: reply.vote.record(),
        },
    )
}
