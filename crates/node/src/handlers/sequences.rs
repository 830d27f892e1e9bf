//! `/v1/sequences`: definitions, values, and moving forward.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::IF_MATCH;
use seqd_api::{GetSequenceQuery, Media, Next, NextRequest, Problem, Sequence, SequenceSpec};
use seqd_state::{SequenceName, Tenant};

use super::costly;
use super::keyed::check_with_key;
use crate::http::{ETag, Request, Response, etag};
use crate::places::Places;
use crate::services::{SequenceError, ServiceError, Services, plan_of_equal, sequence_name};

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: GetSequenceQuery = request.decode()?;
    let stale = query.stale.unwrap_or(false);
    let name = sequence_name(request.name())?;
    let sequence = node.sequences.get(&name, stale, request.deadline);
    let sequence = sequence.await?;
    let tag = tag(&sequence);
    let response = Response::json(&sequence)?.with_etag(tag);
    if tag.is_known(&request.headers) {
        return Ok(response.not_modified());
    }
    Ok(response)
}

fn tag(sequence: &Sequence) -> ETag {
    ETag {
        revision: sequence.revision,
        state: sequence.allocated.unwrap_or_default(),
    }
}

pub(super) async fn put(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let spec = request.decode()?;
    let name = sequence_name(request.name())?;
    let only_new = etag::only_new(&request.headers)?;
    if request.headers.contains_key(IF_MATCH) {
        return confirm(&node, &name, spec, only_new, &request).await;
    }
    let by = (request.tenant, request.deadline);
    if request.is_dry_run {
        let plan = node.sequences.plan_create(&name, spec, only_new, by);
        return Response::json(&plan.await?);
    }
    let created = node.sequences.create(&name, spec, by).await?;
    if only_new && !created.is_new {
        return Err(ServiceError::from(SequenceError::Exists { name }).into());
    }
    let status = if created.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Response::json(&created.sequence)?
        .with_status(status)
        .with_etag(tag(&created.sequence)))
}

/// A PUT with `If-Match`, which creates nothing.
async fn confirm(
    node: &Services,
    name: &SequenceName,
    spec: SequenceSpec,
    only_new: bool,
    request: &Request,
) -> Result<Response, Problem> {
    let if_revision = etag::if_match(&request.headers)?;
    let confirmed = node
        .sequences
        .confirm(name, spec, if_revision, request.deadline);
    let sequence = confirmed.await?;
    if only_new {
        let name = name.clone();
        return Err(ServiceError::from(SequenceError::Exists { name }).into());
    }
    if request.is_dry_run {
        return Response::json(&plan_of_equal(sequence));
    }
    Ok(Response::json(&sequence)?.with_etag(tag(&sequence)))
}

pub(super) async fn patch(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let spec = request.decode()?;
    let name = sequence_name(request.name())?;
    let (if_revision, deadline) = (etag::if_match(&request.headers)?, request.deadline);
    if request.is_dry_run {
        let plan = (node.sequences).plan_update(&name, spec, if_revision, deadline);
        return Response::json(&plan.await?);
    }
    let sequence = node.sequences.update(&name, spec, if_revision, deadline);
    let sequence = sequence.await?;
    Ok(Response::json(&sequence)?.with_etag(tag(&sequence)))
}

pub(super) async fn next(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted: NextRequest = request.decode()?;
    let name = sequence_name(request.name())?;
    let is_text = request.media == Media::Text;
    let is_listed = is_text || wanted.expand.unwrap_or(false);
    check_with_key(&node, &request, (wanted.count, is_listed))?;
    let next = (node.sequences).next(&name, &wanted, is_text, request.deadline);
    write(&node.writing, request.tenant, &next.await?, is_text).await
}

pub(super) async fn grant(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = request.decode()?;
    let name = sequence_name(request.name())?;
    let has_key = request.key.is_some();
    let sequences = &node.sequences;
    let grant = sequences.grant_segment(name, &wanted, has_key, request.deadline);
    Response::json(&grant.await?)
}

async fn write(
    places: &Arc<Places>,
    tenant: Tenant,
    next: &Next,
    is_text: bool,
) -> Result<Response, Problem> {
    let is_listed = is_text || next.values.is_some();
    let count = if is_listed { next.count } else { 1 };
    let _place = costly::to_write(places, tenant, count).await;
    if is_text {
        let mut text = String::new();
        for value in next.each() {
            text.push_str(&value.to_string());
            text.push('\n');
        }
        return Ok(Response::text(text));
    }
    Response::json(next)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seqd_api::{Mode, Range};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_values_are_written_in_turn_and_few_values_or_ranges_at_once() {
        let places = Places::new(1);
        let taken = places.take(Tenant::OPERATOR, 1).await;
        let next = |count: u64, expand: bool| {
            let (first, last) = (1, count.cast_signed());
            Next::new(vec![Range { first, last, count }], 1, Mode::Strict, expand)
        };
        let is_written = async |next: &Next, is_text: bool| {
            let write = write(&places, Tenant::OPERATOR, next, is_text);
            timeout(Duration::from_secs(60), write).await.is_ok()
        };
        assert!(is_written(&next(100, true), true).await);
        assert!(is_written(&next(10_000, false), false).await);
        for (expand, is_text) in [(true, false), (false, true)] {
            let many = next(10_000, expand);
            assert!(!is_written(&many, is_text).await, "it had no place");
        }
        drop(taken);
        let many = next(10_000, true);
        let written = write(&places, Tenant::OPERATOR, &many, false).await;
        assert!(written.is_ok());
    }
}
