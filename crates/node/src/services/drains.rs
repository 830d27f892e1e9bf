//! Drains of members: an operator takes a node out of a balancer before maintenance.

use std::time::Duration;

use seqd_api::{MemberDrain, Role};
use seqd_raft::{ChangeOfMembers, wait_until};
use tokio::time::{Instant, sleep, timeout_at};

use super::cluster::{ClusterService, check_name, role};
use super::error::ServiceError;

/// Time limit of the wait for the next leader's first message, which follows its election at once.
const NEXT_LEADER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ClusterService {
    /// Begins or ends the drain of a member. A repetition changes nothing.
    pub(crate) async fn drain(
        &self,
        name: &str,
        drains: bool,
        deadline: Instant,
    ) -> Result<MemberDrain, ServiceError> {
        check_name(name)?;
        let name = name.to_owned();
        let change = ChangeOfMembers::Drain { name, drains };
        let drained = self.raft.change_member(change, deadline).await;
        let member = drained.map_err(self.error_of(false))?;
        let role = role(member.role);
        Ok(MemberDrain {
            draining: member.report.is_some_and(|report| report.draining),
            leader: self.leader_besides(&member.name, role, deadline).await,
            role,
            name: member.name,
        })
    }

    /// The leader after the member had this role. Waits for this node to record the next leader,
    /// which may happen later than on the member that gave up the leadership.
    async fn leader_besides(&self, name: &str, role: Role, deadline: Instant) -> Option<String> {
        let until = wait_until(deadline, NEXT_LEADER);
        let other = async {
            loop {
                let status = self.raft.status();
                let leader = status.leader_member().map(|leader| leader.name.clone());
                let leader = leader_after(name, role, leader);
                if leader.is_some() {
                    return leader;
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout_at(until, other).await.ok().flatten()
    }
}

/// The recorded leader, unless it is a member that no longer leads.
fn leader_after(name: &str, role: Role, recorded: Option<String>) -> Option<String> {
    recorded.filter(|leader| leader != name || role == Role::Leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_gave_up_the_leadership_is_not_named_as_leader() {
        let after = |role, recorded: &str| leader_after("n1", role, Some(recorded.to_owned()));
        assert_eq!(after(Role::Follower, "n1"), None);
        assert_eq!(after(Role::Follower, "n2").as_deref(), Some("n2"));
        // No other voter can lead.
        assert_eq!(after(Role::Leader, "n1").as_deref(), Some("n1"));
        assert_eq!(leader_after("n1", Role::Follower, None), None);
    }
}
