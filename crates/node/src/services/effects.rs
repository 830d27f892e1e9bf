//! Describes the effects of membership changes, for a dry run and for the confirmation of a
//! destructive command.

use seqd_api::{Cluster, Member, MemberState};
use seqd_raft::ChangeOfMembers;

/// The effect of a change that the leader accepts, for people. `leader` is the leader after a
/// transfer.
pub(super) fn effect(cluster: &Cluster, change: ChangeOfMembers, leader: Option<String>) -> String {
    let quorum = |joins, leaves| {
        let after = cluster.quorum_with(joins, leaves);
        cluster.quorum.change_to(after)
    };
    let leads = |name: &String| {
        let is_leader = cluster.leader.as_ref() == Some(name);
        let leads = is_leader.then_some("; it leads and transfers leadership first");
        leads.unwrap_or_default()
    };
    match change {
        ChangeOfMembers::Add { name, peer, .. } => {
            format!("adds {name} at {peer} as a learner; the quorum stays as it is")
        }
        ChangeOfMembers::Update { name, peer, http } => {
            let member = cluster.member(&name);
            let before = member.map(|member| (Some(&member.peer), member.http.as_ref()));
            let (old_peer, old_http) = before.unwrap_or_default();
            let parts = [("peer", old_peer, peer), ("http", old_http, http)];
            let parts = parts.into_iter().filter_map(|(part, before, after)| {
                let after = after.filter(|after| Some(after) != before)?;
                let before = before.map_or("none", String::as_str);
                Some(format!("{part} {before} -> {after}"))
            });
            let parts: Vec<String> = parts.collect();
            if parts.is_empty() {
                return format!("{name} has these addresses already; nothing changes");
            }
            let parts = parts.join(", ");
            format!("changes the addresses of {name}: {parts}; the quorum stays as it is")
        }
        ChangeOfMembers::Promote { name } => {
            format!("makes {name} a voter: {}", quorum(Some(&name), None))
        }
        ChangeOfMembers::Demote { name } => {
            let (leads, quorum) = (leads(&name), quorum(None, Some(&name)));
            format!("makes {name} a learner{leads}: {quorum}")
        }
        ChangeOfMembers::Remove { name } => {
            let (leads, quorum) = (leads(&name), quorum(None, Some(&name)));
            format!("permanently removes {name}{leads}: {quorum}")
        }
        ChangeOfMembers::Drain { name, drains } => drain(cluster, &name, drains, leader.as_deref()),
        ChangeOfMembers::MoveLeader { .. } => {
            let now = cluster.leader.as_deref().unwrap_or("nobody");
            let then = leader.unwrap_or_default();
            if now == then {
                format!("nothing: {now} is the leader already")
            } else {
                format!("moves leadership from {now} to {then}")
            }
        }
    }
}

/// The effect of the beginning or the end of a drain. `heir` is the voter that would take over
/// leadership.
fn drain(cluster: &Cluster, name: &str, drains: bool, heir: Option<&str>) -> String {
    if !drains {
        return format!("{name} is ready again as soon as its other checks pass");
    }
    let mut parts = vec![format!(
        "/readyz of {name} fails, and {name} serves requests until it stops"
    )];
    match heir {
        Some(heir) => parts.push(format!("leadership moves to {heir}")),
        None if cluster.leader.as_deref() == Some(name) => {
            parts.push(format!(
                "{name} continues to lead, because no other voter can"
            ));
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
