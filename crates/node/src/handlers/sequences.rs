//! `/v1/sequences`: definitions, values, and forward.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::IF_MATCH;
use seqd_api::{ErrorCode, GetSequenceQuery, NextRequest, NoFields, Problem};

use crate::http::{Media, Request, Response};
use crate::services::{Services, sequence_name};

pub(super) async fn list(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.sequences.list(&request.decode()?)?)
}

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: GetSequenceQuery = request.decode()?;
    let stale = query.stale.unwrap_or(false);
    let name = sequence_name(request.name())?;
    let sequence = node.sequences.get(&name, stale, request.deadline);
    let sequence = sequence.await?;
    Ok(Response::json(&sequence)?.with_etag(sequence.revision))
}

pub(super) async fn put(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let spec = request.decode()?;
    let name = sequence_name(request.name())?;
    let created = node.sequences.create(&name, spec, request.deadline).await?;
    let status = if created.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Response::json(&created.sequence)?
        .with_status(status)
        .with_etag(created.revision))
}

pub(super) async fn delete(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let name = sequence_name(request.name())?;
    let if_revision = if_match(&request)?;
    let deleted = node.sequences.delete(&name, if_revision, request.deadline);
    Response::json(&deleted.await?)
}

/// The revision that the caller's `If-Match` names; `*` and none name none.
fn if_match(request: &Request) -> Result<Option<u64>, Problem> {
    let Some(value) = request.headers.get(IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let bare = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    bare.parse().map(Some).map_err(|_| {
        let detail = format!("{text} is no revision of this sequence");
        Problem::new(ErrorCode::PreconditionFailed, detail)
            .with_hint("If-Match takes the ETag of a GET")
    })
}

pub(super) async fn advance(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let name = sequence_name(request.name())?;
    let advanced = node.sequences.advance(&name, &wanted, request.deadline);
    Response::json(&advanced.await?)
}

pub(super) async fn next(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted: NextRequest = request.decode()?;
    let name = sequence_name(request.name())?;
    let is_text = request.media == Media::Text;
    let next = node
        .sequences
        .next(&name, &wanted, is_text, request.deadline)
        .await?;
    if is_text {
        let mut text = String::new();
        for value in next.each() {
            text.push_str(&value.to_string());
            text.push('\n');
        }
        return Ok(Response::text(text));
    }
    Response::json(&next)
}
