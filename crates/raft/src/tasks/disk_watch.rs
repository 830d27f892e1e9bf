//! Detects a disk that hangs, that is, a disk that returns neither an error nor a result.
//!
//! A leader whose own disk hangs can continue for a while, because the other nodes form a quorum.
//! But it cannot store a vote, its own log does not count for a commit, and one more lost node
//! stops the cluster. It therefore transfers leadership to a voter whose disk responds. If the
//! transfer fails, it stops sending, and the others elect a leader. While its disk hangs, a node
//! sends nothing as a leader or a candidate. It continues as a follower once the disk responds
//! again.

use std::sync::Arc;
use std::time::Duration;

use super::next_beat;
use crate::context::NodeContext;
use crate::membership::leader;
use crate::replica::Replica;

/// A disk hangs if one write with its sync takes this many election timeouts. By then, a silent
/// leader would have been replaced, so a leader with such a disk is worse than none.
const ELECTIONS: u32 = 2;

/// Lower bound of this limit, because disks that are merely busy occasionally take half a second.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Time between two checks: a fifth of the shortest time after which a disk hangs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let limit = AT_LEAST.max(context.settings.election.1 * ELECTIONS);
    let disk = &context.disk;
    while !context.is_stopped() {
        next_beat(&context, LOOK_EVERY).await;
        let stalled = replica.wal.stalled_for();
        let hangs = stalled.is_some_and(|since| since >= limit);
        if hangs == disk.hangs() {
            continue;
        }
        disk.set_hangs(hangs);
        if hangs {
            let stalled_ms = stalled.unwrap_or_default().as_millis() as u64;
            tracing::error!(
                stalled_ms,
                "the disk hangs: a write or sync of the log has not returned; this node does not \
                 lead until it returns"
            );
            step_back(&context, &replica).await;
        } else {
            disk.set_silent(false);
            tracing::info!("the disk works again");
        }
    }
}

/// Transfers leadership, if this node has it, and stops sending as a leader. A lone voter has no
/// other voter to transfer it to.
async fn step_back(context: &NodeContext, replica: &Replica) {
    let is_alone = {
        let core = replica.applied.read();
        core.membership.voter_ids().eq([replica.node])
    };
    if is_alone {
        return;
    }
    if replica.is_leader() {
        leader::transfer_to_best(context, replica).await;
    }
    if replica.wal.stalled_for().is_some() {
        context.disk.set_silent(true);
    }
}
