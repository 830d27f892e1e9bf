//! The existing cluster that a node without an identity has met. Such a node founds no cluster: it
//! is either a member whose folder was lost, or it waits to be added.

use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

/// Time for which a message counts: several intervals between pings.
const FRESH: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct OtherCluster(Lock<Met>);

#[derive(Default)]
struct Met {
    cluster_id: Option<String>,
    /// The last message of a member to this node as another member.
    as_member: Option<Instant>,
}

impl OtherCluster {
    /// Records a cluster that this node may be added to.
    pub(crate) fn meet(&self, cluster_id: &str) {
        self.0.lock().cluster_id = Some(cluster_id.to_owned());
    }

    /// Records a message that a member sent to this node as to another member. Members send such
    /// messages only to the addresses of members.
    pub(crate) fn addressed(&self, cluster_id: &str) {
        let mut met = self.0.lock();
        met.cluster_id = Some(cluster_id.to_owned());
        met.as_member = Some(Instant::now());
    }

    /// The cluster that was met last in this start.
    pub(crate) fn cluster_id(&self) -> Option<String> {
        self.0.lock().cluster_id.clone()
    }

    /// The cluster whose members now send messages to this node as to a member.
    pub(crate) fn addressing(&self) -> Option<String> {
        let met = self.0.lock();
        let is_fresh = met.as_member.is_some_and(|at| at.elapsed() < FRESH);
        met.cluster_id.clone().filter(|_| is_fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_message_to_a_member_counts_for_a_while_and_the_cluster_for_the_whole_start() {
        let other = OtherCluster::default();
        other.meet("A");
        assert_eq!(other.addressing(), None);
        other.addressed("B");
        assert_eq!(other.addressing().as_deref(), Some("B"));
        tokio::time::sleep(FRESH).await;
        assert_eq!(other.addressing(), None);
        assert_eq!(other.cluster_id().as_deref(), Some("B"));
    }
}
