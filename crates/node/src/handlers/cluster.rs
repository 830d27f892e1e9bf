//! The cluster as this node sees it, and changes of its membership.

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::{
    AddMember, Cluster, ErrorCode, LayoutLife, LeaderMove, LeaderMoved, ListQuery, Member,
    MemberChange, MemberState, NoFields, Problem, Quorum, Role, validate_name,
};
use std::sync::atomic::Ordering;

use seqd_raft::{MemberStatus, Status};

use super::{cursor, invalid};
use crate::app::App;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::http::refusals::{self, Change};
use crate::readiness::own_state;
use crate::times::rfc3339;

fn role(role: seqd_raft::Role) -> Role {
    match role {
        seqd_raft::Role::Leader => Role::Leader,
        seqd_raft::Role::Follower => Role::Follower,
        seqd_raft::Role::Learner => Role::Learner,
    }
}

/// A member's part. Where nobody is known to lead, nobody is shown as the leader: the two are read
/// one after the other.
fn role_in(status: &Status, member: &MemberStatus) -> Role {
    match role(member.role) {
        Role::Leader if status.leader != Some(member.id) => Role::Follower,
        role => role,
    }
}

fn quorum(status: &Status) -> Quorum {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Quorum::of(count(status.voters), count(status.reachable))
}

fn member_of(app: &App, status: &Status, member: &MemberStatus) -> Member {
    let is_self = member.name == status.name;
    let applied = if is_self {
        Some(status.applied)
    } else {
        member.applied
    };
    let newest = status
        .members
        .iter()
        .filter_map(|other| other.applied)
        .max()
        .unwrap_or_default();
    let newest = newest.max(status.applied);
    let workers = if is_self {
        crate::report::workers(app)
    } else {
        member
            .report
            .as_ref()
            .map(|report| report.workers.clone())
            .unwrap_or_default()
    };
    Member {
        name: member.name.clone(),
        id: member.id.0,
        role: role_in(status, member),
        state: if is_self {
            own_state(app)
        } else {
            state_of(member)
        },
        http: Some(member.http.clone()).filter(|http| !http.is_empty()),
        peer: member.peer.clone(),
        applied,
        lag_entries: applied.map(|applied| newest.saturating_sub(applied)),
        clock_offset_ms: member.clock_offset_ms.map(|offset| offset as f64),
        workers,
        version: if is_self {
            Some(env!("CARGO_PKG_VERSION").to_owned())
        } else {
            member.version.clone()
        },
        ids_per_second: is_self.then(|| app.ids_per_second.load(Ordering::Relaxed) as f64),
    }
}

fn state_of(member: &MemberStatus) -> MemberState {
    match &member.report {
        _ if !member.reachable => MemberState::Unreachable,
        Some(report) if report.draining => MemberState::Draining,
        Some(report) if report.ready => MemberState::Ready,
        _ => MemberState::Waiting,
    }
}

fn members_of(app: &App, status: &Status) -> Vec<Member> {
    let members = status
        .members
        .iter()
        .map(|member| member_of(app, status, member));
    let mut members: Vec<Member> = members.collect();
    members.sort_by(|left, right| left.name.cmp(&right.name));
    members
}

/// `GET /v1/cluster`: from this node's own knowledge; never asks the leader.
pub(crate) async fn show(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let status = app.raft.status();
    let leader = status
        .leader
        .and_then(|id| status.members.iter().find(|member| member.id == id));
    Answer::json(&Cluster {
        cluster_id: status.cluster_id.clone(),
        node: status.name.clone(),
        applied: status.applied,
        digest: status.digest.to_string(),
        leader: leader.map(|member| member.name.clone()),
        term: status.term,
        quorum: quorum(&status),
        members: members_of(&app, &status),
        layouts: layouts(&app),
    })
}

fn layouts(app: &App) -> Vec<LayoutLife> {
    let life = |minter: &Arc<crate::minting::Minter>| {
        let layout = minter.layout();
        let assigned = app.raft.state(|state| {
            state
                .leases()
                .filter(|view| view.layout == layout.name() && view.is_live())
                .count()
        });
        LayoutLife {
            name: layout.name().to_owned(),
            exhausted_at: rfc3339(layout.exhausted_at()),
            workers_assigned: u32::try_from(assigned).unwrap_or(u32::MAX),
            workers_capacity: layout.workers(),
        }
    };
    app.minters.all().iter().map(life).collect()
}

/// `GET /v1/cluster/members`
pub(crate) async fn members(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: ListQuery = ask.decode()?;
    let limit = cursor::limit(query.limit)?;
    let after = cursor::name(query.cursor.as_deref())?;
    let prefix = query.prefix.unwrap_or_default();
    let members = members_of(&app, &app.raft.status());
    let items = members
        .into_iter()
        .filter(|member| member.name.starts_with(&prefix));
    let items = items.map(|member| (member.name.clone(), member));
    Answer::json(&cursor::page(items, after.as_deref(), limit))
}

fn change(app: &App, member: &MemberStatus) -> Result<Answer, Problem> {
    Answer::json(&MemberChange {
        name: member.name.clone(),
        id: member.id.0,
        role: Some(role(member.role)),
        quorum: quorum(&app.raft.status()),
    })
}

/// `POST /v1/cluster/members`
pub(crate) async fn add(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let AddMember { name, peer, http } = ask.decode()?;
    validate_name(&name).map_err(|error| invalid(format!("name: {error}")))?;
    let is_address = peer.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !is_address {
        return Err(invalid(format!("peer: {peer:?} is not HOST:PORT")));
    }
    if let Some(http) = &http
        && !(http.starts_with("http://") || http.starts_with("https://"))
    {
        return Err(invalid(format!("http: {http:?} is not a URL")));
    }
    let member = app.raft.member_add(name, peer, http, ask.deadline).await;
    let member = member.map_err(|error| refusals::member(Change::Add, &error))?;
    Ok(change(&app, &member)?.with_status(StatusCode::CREATED))
}

/// `POST /v1/cluster/members/{name}/promote`
pub(crate) async fn promote(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let member = app
        .raft
        .member_promote(ask.name().to_owned(), ask.deadline)
        .await;
    change(
        &app,
        &member.map_err(|error| refusals::member(Change::Promote, &error))?,
    )
}

/// `DELETE /v1/cluster/members/{name}`
pub(crate) async fn remove(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let name = ask.name().to_owned();
    let before = app.raft.status();
    let id = before
        .members
        .iter()
        .find(|member| member.name == name)
        .map(|member| member.id);
    let removed = app.raft.member_remove(name.clone(), ask.deadline).await;
    removed.map_err(|error| refusals::member(Change::Remove, &error))?;
    let id = id.ok_or_else(|| {
        Problem::new(
            ErrorCode::Internal,
            format!("{name} was removed, and its number is not known"),
        )
    })?;
    let quorum = quorum(&app.raft.status());
    Answer::json(&MemberChange {
        name,
        id: id.0,
        role: None,
        quorum,
    })
}

/// `POST /v1/cluster/leader`
pub(crate) async fn move_leader(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let LeaderMove { node } = ask.decode()?;
    let leader = app.raft.leader_move(node, ask.deadline).await;
    let leader = leader.map_err(|error| refusals::member(Change::MoveLeader, &error))?;
    Answer::json(&LeaderMoved {
        leader,
        term: app.raft.status().term,
    })
}
