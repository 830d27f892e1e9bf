//! The stop reason of a member whose folder or log is gone.

use crate::context::NodeContext;
use crate::handle::{Stop, StopReason};

pub(super) fn wiped(context: &NodeContext, cluster_id: &str, what: &str) -> Stop {
    let name = &context.settings.name;
    Stop::new(
        StopReason::WipedVoter,
        format!(
            "{name} is a member of cluster {cluster_id}, and {what}: a disk that lost its memory \
             must not vote. Put its folder back, or run `seqd member remove {name}` on another \
             node, start this one with an empty folder, and run `seqd member add {name} {} --wait`, \
             then `seqd member promote {name} --wait`. (If the cluster never came up, every node's \
             folder may be emptied instead.)",
            context.settings.peer_advertise
        ),
    )
}
