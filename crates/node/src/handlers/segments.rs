//! `/v1/sequences/{name}/segments`: ranges for client-side allocators.

use std::sync::Arc;

use seqd_api::Problem;

use super::problems::invalid;
use crate::http::{Request, Response};
use crate::services::{Services, sequence_name};

pub(super) async fn grant(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let name = sequence_name(request.name())?;
    let grant = node.segments.grant(name, &wanted, request.deadline);
    Response::json(&grant.await?)
}

pub(super) async fn give_back(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let unused = request.decode()?;
    let name = sequence_name(request.name())?;
    let grant = request.path.get(1).and_then(|text| text.parse().ok());
    let grant = grant.ok_or_else(|| invalid("the path ends in the grant, a number"))?;
    let returned = node
        .segments
        .give_back(name, grant, &unused, request.deadline);
    Response::json(&returned.await?)
}
