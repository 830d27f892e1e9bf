//! `/v1/tokens`: one-time tokens.

use std::sync::Arc;

use seqd_api::Problem;

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
