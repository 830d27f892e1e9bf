//! A disk that hangs: neither an error nor an answer.
//!
//! A leader whose own disk hangs can go on for a while, since the others make a quorum; but it
//! cannot store a vote, it answers for nothing, and one more lost node stops the cluster. So it
//! transfers leadership to a voter whose disk answers, and if that does not come about, it falls
//! silent, and the others elect. While its disk hangs a node sends nothing as a leader or a
//! candidate; it goes on as a follower when the disk works again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::context::NodeContext;
use crate::membership::leader;
use crate::replica::Replica;

/// A disk hangs when one write with its sync takes this many election timeouts: by then a silent
/// leader would have been replaced, so a leader on such a disk is worse than none.
const ELECTIONS: u32 = 2;

/// And no less than this: disks that are only busy take half a second now and then.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Time between two checks: a fifth of the shortest time after which a disk hangs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let limit = AT_LEAST.max(context.settings.election.1 * ELECTIONS);
    let disk = &context.disk;
    while !context.is_stopped() {
        tokio::time::sleep(LOOK_EVERY).await;
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
                 lead meanwhile"
            );
            step_back(&context, &replica).await;
        } else {
            disk.set_silent(false);
            tracing::info!("the disk works again");
        }
    }
}

/// Transfers leadership, if this node has it, and sends nothing as a leader any more. A lone voter
/// has no other to transfer it to.
async fn step_back(context: &NodeContext, replica: &Replica) {
    let is_alone = {
        let core = replica.applied.read();
        core.membership.voter_ids().eq([replica.node])
    };
    if is_alone {
        return;
    }
    if replica.is_leader()
        && let Some(target) = leader::best_transfer_target(context, replica)
    {
        let patience = context.settings.election.1;
        let _ = timeout(patience, leader::transfer_leadership(replica, target)).await;
    }
    if replica.wal.stalled_for().is_some() {
        context.disk.set_silent(true);
    }
}
