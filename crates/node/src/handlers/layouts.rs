//! `/v1/layouts`

use std::sync::Arc;

use seqd_api::{NoFields, Problem};

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.layouts.list(&request.decode()?)?)
}

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    Response::json(&node.layouts.get(request.name())?)
}
