//! A snapshot that a leader sends: written beside the kept ones, checked, and installed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::service::{Service, malformed, not_running, replica, seal, unreadable};
use crate::blocking;
use crate::conversation;
use crate::records::{Restore, ToRecord};
use crate::storage::applied::{Snapshot, SnapshotHandle};
use crate::types::SnapshotMeta;
use crate::wire::incoming::Body;
use crate::wire::messages::{SnapshotHead, SnapshotReply};
use crate::wire::sealed;
use crate::wire::transport::Rejection;
use seqd_store::faults::is_of_the_kernel;
use seqd_store::snapshot_file;

/// The longest pause within a snapshot's transfer: a leader reads its disk meanwhile, no more.
const CHUNK_LIMIT: Duration = Duration::from_secs(30);

/// The largest head of a snapshot's transfer, bytes: a membership of the largest cluster.
const HEAD_BYTES: usize = 64 << 10;

/// The next bytes of a snapshot; a sender that has gone silently must not hold the place.
async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Rejection> {
    match tokio::time::timeout(CHUNK_LIMIT, body.next()).await {
        Ok(chunk) => chunk,
        Err(_) => Err(malformed("no bytes of the snapshot for too long")),
    }
}

/// The head of a transfer, and the bytes of the snapshot that came with it.
async fn take_head(body: &mut Body) -> Result<(BytesMut, Bytes), Rejection> {
    let mut start = BytesMut::new();
    let head_len = loop {
        if let Some(length) = start.first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > HEAD_BYTES {
                return Err(malformed("the head of the snapshot is too long"));
            }
            if start.len() >= 4 + length {
                break length;
            }
        }
        match next_chunk(body).await? {
            Some(chunk) => start.extend_from_slice(&chunk),
            None => return Err(malformed("the snapshot ends within its head")),
        }
    };
    start.advance(4);
    let head = start.split_to(head_len);
    Ok((head, start.freeze()))
}

pub(super) async fn receive(service: &Service, mut body: Body) -> Result<Bytes, Rejection> {
    let replica = replica(service)?;
    let (head, rest) = take_head(&mut body).await?;
    let (envelope, message) = sealed::unseal(&head).map_err(|e| unreadable(&e))?;
    conversation::accept(&service.node.context, &envelope)?;
    body.admit_sender()?;
    let unread = |e: io::Error| service.unread::<SnapshotHead>(&e);
    let message: SnapshotHead = sealed::decode(message).map_err(unread)?;
    let _alone = service
        .receiving
        .try_acquire()
        .map_err(|_| not_running("another snapshot is being received"))?;
    let folder = Arc::clone(&service.node.context.folder);
    let len = message.len;
    let created = blocking::run(move || {
        snapshot_file::check_room(&folder.snapshots(), len)?;
        snapshot_file::Receiver::create(folder.disk(), &folder.snapshots())
    });
    // Only what is wrong with the bytes is `malformed`: then the leader verifies its snapshot.
    let mut receiver = created.await.map_err(not_running)?;
    let mut left = message.len;
    let mut next = Some(rest);
    while let Some(chunk) = next {
        left = left
            .checked_sub(chunk.len() as u64)
            .ok_or_else(|| malformed("the snapshot is longer than its head announces"))?;
        let written = blocking::run(move || receiver.write(&chunk).map(|()| receiver));
        receiver = written.await.map_err(not_running)?;
        next = next_chunk(&mut body).await?;
    }
    if left > 0 {
        return Err(malformed("the snapshot is shorter than its head announces"));
    }
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
    replica.heard_if_followed(&vote);
    seal(
        service,
        envelope.from,
        SnapshotReply {
            vote: reply.vote.record(),
        },
    )
}
