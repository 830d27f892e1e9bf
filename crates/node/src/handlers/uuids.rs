//! `/v1/uuid` and `/v1/uuids`

use std::sync::Arc;

use seqd_api::{Media, Problem, Typed as _, Uuid, UuidQuery, Uuids, op};

use super::{costly, decode_one};
use crate::http::{Request, Response};
use crate::problems::internal;
use crate::services::Services;

pub(super) async fn one(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: UuidQuery = decode_one(&request, op::GetUuid::ROW, op::GetUuids::ROW.path)?;
    let uuid = node.uuids.make(query.version, None)?.pop();
    let uuid = uuid
        .ok_or_else(|| internal(&"no UUID was made"))?
        .to_string();
    if request.media == Media::Text {
        return Ok(Response::text(uuid + "\n"));
    }
    Response::json(&Uuid { uuid })
}

pub(super) async fn many(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: UuidQuery = request.decode()?;
    let count = query.count.unwrap_or(1);
    let _place = costly::to_write(&node.writing, request.tenant, count).await;
    let uuids = node.uuids.make(query.version, query.count)?;
    let uuids: Vec<String> = uuids.iter().map(ToString::to_string).collect();
    if request.media == Media::Text {
        let mut text = uuids.join("\n");
        text.push('\n');
        return Ok(Response::text(text));
    }
    Response::json(&Uuids { uuids })
}
