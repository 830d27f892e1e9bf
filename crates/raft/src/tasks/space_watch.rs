//! Checks the free space of the disk. While it is low, a leader transfers leadership to a voter
//! with room, and snapshots are taken so that the log can be purged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::next_beat;
use crate::blocking;
use crate::context::NodeContext;
use crate::membership::leader;
use crate::membership::majority::MembershipInForce;
use crate::replica::Replica;
use crate::space::DiskSpace;

/// Time between two checks. A fast disk fills a small part of the reserve meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time between two reads of the free space while more is free than the fastest disk writes in this
/// time.
const LOOK_SELDOM: Duration = Duration::from_secs(1);
const WRITTEN_MEANWHILE: u64 = 16 << 30;

/// Minimum time between two snapshots that are taken to make room, and its increase per MiB of the
/// largest kept snapshot. A disk that stays full is therefore not worn out by snapshots of a large
/// state.
const RELIEVE_EVERY: Duration = Duration::from_secs(2);
const RELIEVE_EVERY_PER_MIB: Duration = Duration::from_millis(50);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let (mut relieved, mut next_look) = (Instant::now(), Instant::now());
    while !context.is_stopped() {
        if Instant::now() >= next_look {
            look(&context, &replica).await;
            next_look = Instant::now() + pause(&context.disk.space);
        }
        let lacks_voters = !has_voters_with_room(&context, &replica);
        context.disk.space.set_lacks_voters(lacks_voters);
        if context.disk.space.is_low() && replica.is_leader() {
            // The next leader has room, and serves the writes that this node refuses.
            leader::transfer_to_best(&context, &replica).await;
        }
        if context.disk.space.is_low() && relieved.elapsed() >= relieve_every(&replica) {
            relieved = Instant::now();
            let _ = replica.raft.trigger().snapshot().await;
        }
        next_beat(&context, LOOK_EVERY).await;
    }
}

/// Reads the free bytes of the disk.
async fn look(context: &NodeContext, replica: &Replica) {
    let folder = Arc::clone(&context.folder);
    let space = blocking::run(move || folder.disk().space(&folder.snapshots()));
    if let Ok(space) = space.await {
        let snapshot_bytes = replica.largest_snapshot_bytes.load(Ordering::Relaxed);
        if context.disk.space.record(space, snapshot_bytes) {
            log_change(context);
        }
    }
}

/// The time until the next look.
fn pause(space: &DiskSpace) -> Duration {
    let (free, reserve) = space.bytes();
    match free.saturating_sub(reserve) {
        WRITTEN_MEANWHILE.. => LOOK_SELDOM,
        _ => Duration::ZERO,
    }
}

fn relieve_every(replica: &Replica) -> Duration {
    let mib = replica.largest_snapshot_bytes.load(Ordering::Relaxed) >> 20;
    // A snapshot never reaches 4 PiB.
    let mib = u32::try_from(mib).unwrap_or(u32::MAX);
    RELIEVE_EVERY + RELIEVE_EVERY_PER_MIB.saturating_mul(mib)
}

/// Returns whether the voters whose disks are not low make a majority of each configuration in
/// force.
fn has_voters_with_room(context: &NodeContext, replica: &Replica) -> bool {
    MembershipInForce::of(replica).has_majorities(|voter| {
        let is_low = if voter == replica.node {
            context.disk.space.is_low()
        } else {
            context.peer(voter).is_disk_low()
        };
        !is_low
    })
}

fn log_change(context: &NodeContext) {
    let (free, reserve) = context.disk.space.bytes();
    if context.disk.space.is_low() {
        tracing::error!(
            free,
            reserve,
            "the disk is nearly full: writes of clients are refused until there is room; IDs stay \
             available"
        );
    } else {
        tracing::info!(free, reserve, "the disk has room again: writes are served");
    }
}
