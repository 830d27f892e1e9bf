//! Drains of members: an operator takes a node out of a balancer before maintenance.

use seqd_api::MemberDrain;
use tokio::time::Instant;

use super::cluster::{ClusterService, check_name, role};
use super::error::ServiceError;
use crate::codes::Change;

impl ClusterService {
    /// Begins or ends the drain of a member. A repetition changes nothing.
    pub(crate) async fn drain(
        &self,
        name: &str,
        drains: bool,
        deadline: Instant,
    ) -> Result<MemberDrain, ServiceError> {
        check_name(name)?;
        let drained = self.raft.member_drain(name.to_owned(), drains, deadline);
        let member = drained.await.map_err(self.of(Change::Drain))?;
        Ok(MemberDrain {
            name: member.name,
            draining: member.report.is_some_and(|report| report.draining),
            role: role(member.role),
            leader: self.show().leader,
        })
    }
}
