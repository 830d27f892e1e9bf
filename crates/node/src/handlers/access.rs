//! `/v1/access`

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::{NoFields, Problem};

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query = request.decode()?;
    let page = node.access.list(&query, request.deadline);
    Response::json(&page.await?)
}

pub(super) async fn create(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    if request.is_dry_run {
        let plan = node.access.plan_create(wanted, request.deadline);
        return Response::json(&plan.await?);
    }
    let created = node.access.create(wanted, request.deadline).await?;
    Ok(Response::json(&created)?.with_status(StatusCode::CREATED))
}

pub(super) async fn revoke(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let (id, deadline) = (request.name(), request.deadline);
    if request.is_dry_run {
        return Response::json(&node.access.plan_revoke(id, deadline).await?);
    }
    Response::json(&node.access.revoke(id, deadline).await?)
}
