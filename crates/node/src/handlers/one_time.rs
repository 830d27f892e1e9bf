//! `/v1/tokens`: one-time tokens.

use std::sync::Arc;

use seqd_api::{NoFields, Problem, TokensQuery};

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn issue(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let issued = node
        .one_time
        .issue(&wanted, request.tenant, request.deadline);
    Response::json(&issued.await?)
}

pub(super) async fn consume(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let consumed = node
        .one_time
        .consume(request.name(), wanted, request.deadline);
    Response::json(&consumed.await?)
}

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: TokensQuery = request.decode()?;
    let page = node.one_time.list(&query, request.deadline);
    Response::json(&page.await?)
}

pub(super) async fn delete_matching(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let (query, deadline) = (request.decode::<TokensQuery>()?, request.deadline);
    if request.is_dry_run {
        let plan = node.one_time.plan_delete_matching(&query, deadline);
        return Response::json(&plan.await?);
    }
    let deleted = node.one_time.delete_matching(&query, deadline);
    Response::json(&deleted.await?)
}

pub(super) async fn delete(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    request.decode::<NoFields>()?;
    let (id, deadline) = (request.name(), request.deadline);
    if request.is_dry_run {
        return Response::json(&node.one_time.plan_delete(id, deadline).await?);
    }
    Response::json(&node.one_time.delete(id, deadline).await?)
}
