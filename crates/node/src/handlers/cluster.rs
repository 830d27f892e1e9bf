//! `/v1/cluster`: the cluster, its members, its leader.

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::{NoFields, Problem};

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn show(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    Response::json(&node.cluster.show())
}

pub(super) async fn members(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.cluster.members(&request.decode()?)?)
}

pub(super) async fn add(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let added = node
        .cluster
        .add(request.decode()?, request.deadline)
        .await?;
    Ok(Response::json(&added)?.with_status(StatusCode::CREATED))
}

pub(super) async fn promote(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let promoted = node.cluster.promote(request.name(), request.deadline);
    Response::json(&promoted.await?)
}

pub(super) async fn remove(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let removed = node.cluster.remove(request.name(), request.deadline);
    Response::json(&removed.await?)
}

pub(super) async fn move_leader(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let moved = node
        .cluster
        .move_leader(request.decode()?, request.deadline);
    Response::json(&moved.await?)
}
