//! `POST /v1/layouts`, which has two statuses.

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::Problem;

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn create(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    if request.is_dry_run {
        let plan = node.layouts.plan_create(wanted, request.deadline);
        return Response::json(&plan.await?);
    }
    let (layout, is_new) = node.layouts.create(wanted, request.deadline).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Response::json(&layout)?.with_status(status))
}
