//! `/v1/workers`

use std::sync::Arc;

use seqd_api::Problem;

use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query = request.decode()?;
    let page = node.workers.list(&query, request.deadline);
    Response::json(&page.await?)
}

pub(super) async fn take(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let lease = node
        .workers
        .take(request.decode()?, request.tenant, request.deadline);
    Response::json(&lease.await?)
}

pub(super) async fn renew(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (layout, worker) = named(&request);
    let lease = node
        .workers
        .renew(layout, worker, request.decode()?, request.deadline);
    Response::json(&lease.await?)
}

pub(super) async fn release(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (layout, worker) = named(&request);
    let released = node
        .workers
        .release(layout, worker, request.decode()?, request.deadline);
    Response::json(&released.await?)
}

/// The layout and the worker in the path.
fn named(request: &Request) -> (&str, &str) {
    let worker = request.path.get(1).map_or("", String::as_str);
    (request.name(), worker)
}
