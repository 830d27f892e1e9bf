//! `/v1/idempotency`: keys of users.

use std::sync::Arc;

use seqd_api::{CompleteKey, JsonText, KeysQuery, NoFields, Problem};
use serde::Deserialize;

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn begin(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let begun = node
        .keys
        .begin(request.name(), wanted, request.tenant, request.deadline);
    Response::json(&begun.await?)
}

/// The result as it stands in the body.
#[derive(Deserialize)]
struct Written {
    result: Option<JsonText>,
}

pub(super) async fn complete(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted: CompleteKey = request.decode()?;
    let written = serde_json::from_slice::<Written>(&request.body).ok();
    let text = written.and_then(|written| written.result);
    let kept = node
        .keys
        .complete(request.name(), wanted, text, request.deadline);
    Response::json(&kept.await?)
}

pub(super) async fn abandon(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let ended = node.keys.abandon(request.name(), wanted, request.deadline);
    Response::json(&ended.await?)
}

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query = request.decode()?;
    let key = node.keys.get(request.name(), &query, request.deadline);
    Response::json(&key.await?)
}

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: KeysQuery = request.decode()?;
    let page = node.keys.list(&query, request.deadline);
    Response::json(&page.await?)
}

pub(super) async fn delete_matching(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let (query, deadline) = (request.decode::<KeysQuery>()?, request.deadline);
    if request.is_dry_run {
        let plan = node.keys.plan_delete_matching(&query, deadline);
        return Response::json(&plan.await?);
    }
    let deleted = node.keys.delete_matching(&query, deadline);
    Response::json(&deleted.await?)
}

pub(super) async fn delete(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    request.decode::<NoFields>()?;
    let (key, deadline) = (request.name(), request.deadline);
    if request.is_dry_run {
        return Response::json(&node.keys.plan_delete(key, deadline).await?);
    }
    Response::json(&node.keys.delete(key, deadline).await?)
}
