//! A disk that hangs: neither an error nor an answer.
//!
//! A leader whose own disk hangs can go on for a while, since the others make a quorum; but it
//! cannot store a vote, it answers for nothing, and one more lost node stops the cluster. So it
//! hands over to a voter whose disk answers, and if that does not come about, it falls silent, and
//! the others elect. While its disk hangs a node says nothing as a leader or a candidate; it goes
//! on as a follower when the disk works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use crate::local::Local;
use crate::members;
use crate::replica::Replica;

/// A disk hangs when one write with its sync takes this many election timeouts: by then a silent
/// leader would have been replaced, so a leader on such a disk is worse than none.
const ELECTIONS: u32 = 2;

/// And no less than this: disks that are only busy take half a second now and then.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How the log's disk is.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    hangs: AtomicBool,
    silent: AtomicBool,
}

impl DiskWatch {
    /// Whether a write has been under way for too long.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    /// Whether this node must say nothing as a leader or a candidate.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }
}

/// Watches the log's disk for as long as the node lives.
pub(crate) async fn watch(local: Arc<Local>) {
    let limit = AT_LEAST.max(local.settings.election.1 * ELECTIONS);
    let disk = &local.disk;
    while !local.is_stopped() {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(replica) = local.replica.get() else {
            continue;
        };
        let stalled = replica.wal.stalled_for();
        let hangs = stalled.is_some_and(|since| since >= limit);
        if hangs == disk.hangs() {
            continue;
        }
        disk.hangs.store(hangs, Ordering::Release);
        if hangs {
            let stalled_ms = stalled.unwrap_or_default().as_millis();
            tracing::error!(
                stalled_ms,
                "the disk hangs: a write or sync of the log has not returned; this node does not \
                 lead meanwhile"
            );
            step_back(&local, replica).await;
        } else {
            disk.silent.store(false, Ordering::Release);
            tracing::info!("the disk works again");
        }
    }
}

/// Hands leadership over, if this node has it, and falls silent. Where nobody else votes, there is
/// nobody to make room for.
async fn step_back(local: &Local, replica: &Replica) {
    let is_alone = {
        let core = replica.applied.read();
        core.membership.voter_ids().eq([replica.node])
    };
    if is_alone {
        return;
    }
    if replica.raft.as_leader().is_ok()
        && let Some(heir) = members::best_heir(local, replica)
    {
        let patience = local.settings.election.1;
        let _ = timeout(patience, members::hand_over(replica, heir)).await;
    }
    if replica.wal.stalled_for().is_some() {
        local.disk.silent.store(true, Ordering::Release);
    }
}
