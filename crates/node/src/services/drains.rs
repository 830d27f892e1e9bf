//! Drains of members: an operator takes a node out of a balancer before maintenance.

use seqd_api::{Cluster, Member, MemberDrain, MemberState};
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

/// The effect of the beginning or the end of a drain. `heir` is the voter that would take over
/// leadership.
pub(super) fn effect(cluster: &Cluster, name: &str, drains: bool, heir: Option<&str>) -> String {
    if !drains {
        return format!("{name} is ready again as soon as its other checks pass");
    }
    let mut parts = vec![format!(
        "/readyz of {name} fails, and {name} serves requests until it stops"
    )];
    match heir {
        Some(heir) => parts.push(format!("leadership moves to {heir}")),
        None if cluster.leader.as_deref() == Some(name) => {
            parts.push(format!("{name} leads on, because no other voter can lead"));
        }
        None => {}
    }
    parts.push("after its http.drain, unused workers and ranges of sequences are returned".into());
    let is_other = |member: &&Member| member.name != name && member.state == MemberState::Ready;
    if !cluster.members.iter().any(|member| is_other(&member)) {
        parts.push("no other member is ready: a balancer has no node left".to_owned());
    }
    parts.join("; ")
}
