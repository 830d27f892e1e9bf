//! `/v1/locks`

use std::sync::Arc;

use seqd_api::{BreakLockRequest, LockQuery, LocksQuery, Problem};

use crate::access::Right;
use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: LocksQuery = request.decode()?;
    let permitted = node.callers.prefixes(request.caller);
    let page = node.locks.list(&query, &permitted, request.deadline);
    Response::json(&page.await?)
}

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: LockQuery = request.decode()?;
    let lock = node.locks.get(request.name(), &query, request.deadline);
    Response::json(&lock.await?)
}

pub(super) async fn acquire(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (name, asked) = (request.name().to_owned(), request.decode()?);
    let right = Right::new(&node.callers, request.caller);
    let (tenant, deadline) = (request.tenant, request.deadline);
    // The wait may be long, and the head and the body hold the buffer that they were read into.
    drop(request);
    let held = node.locks.acquire(&name, asked, (&right, tenant), deadline);
    Response::json(&held.await?)
}

pub(super) async fn renew(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (name, asked) = (request.name(), request.decode()?);
    let held = node.locks.renew(name, asked, request.deadline);
    Response::json(&held.await?)
}

pub(super) async fn release(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (name, asked) = (request.name(), request.decode()?);
    let released = node.locks.release(name, asked, request.deadline);
    Response::json(&released.await?)
}

pub(super) async fn break_holds(
    node: Arc<Services>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: BreakLockRequest = request.decode()?;
    let (name, deadline) = (request.name(), request.deadline);
    if request.is_dry_run {
        return Response::json(&node.locks.plan_break(name, &asked, deadline).await?);
    }
    let broken = node.locks.break_holds(name, &asked, deadline);
    Response::json(&broken.await?)
}

pub(super) async fn verify(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let (name, asked) = (request.name(), request.decode()?);
    let held = node.locks.verify(name, asked, request.deadline);
    Response::json(&held.await?)
}
