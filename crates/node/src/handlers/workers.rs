//! `/v1/workers`

use std::sync::Arc;

use seqd_api::Problem;

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.workers.list(&request.decode()?)?)
}
