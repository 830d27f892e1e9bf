//! `/v1/cluster`: the cluster, its members, its leader.

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::{AddMember, LeaderMove, NoFields, Problem};
use seqd_raft::ChangeOfMembers;

use crate::http::{Request, Response};
use crate::services::{Services, checked};

pub(super) async fn show(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    Response::json(&node.cluster.show())
}

pub(super) async fn members(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.cluster.members(&request.decode()?)?)
}

pub(super) async fn add(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted: AddMember = request.decode()?;
    if request.is_dry_run {
        let AddMember { name, peer, http } = checked(wanted)?;
        return plan(node, request, ChangeOfMembers::Add { name, peer, http }).await;
    }
    let added = node.cluster.add(wanted, request.deadline).await?;
    Ok(Response::json(&added)?.with_status(StatusCode::CREATED))
}

pub(super) async fn promote(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    if request.is_dry_run {
        let name = request.name().to_owned();
        return plan(node, request, ChangeOfMembers::Promote { name }).await;
    }
    let promoted = node.cluster.promote(request.name(), request.deadline);
    Response::json(&promoted.await?)
}

pub(super) async fn reset_workers(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let (name, deadline) = (request.name(), request.deadline);
    if request.is_dry_run {
        return Response::json(&node.workers.plan_reset(name, deadline).await?);
    }
    Response::json(&node.workers.reset(name, deadline).await?)
}

pub(super) async fn remove(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    if request.is_dry_run {
        let name = request.name().to_owned();
        return plan(node, request, ChangeOfMembers::Remove { name }).await;
    }
    let removed = node.cluster.remove(request.name(), request.deadline);
    Response::json(&removed.await?)
}

pub(super) async fn move_leader(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let wanted: LeaderMove = request.decode()?;
    if request.is_dry_run {
        let to = wanted.node;
        return plan(node, request, ChangeOfMembers::MoveLeader { to }).await;
    }
    let moved = node.cluster.move_leader(wanted, request.deadline);
    Response::json(&moved.await?)
}

async fn plan(
    node: Arc<Services>,
    request: Request,
    change: ChangeOfMembers,
) -> Result<Response, Problem> {
    let plan = node.cluster.plan(change, request.deadline);
    Response::json(&plan.await?)
}
