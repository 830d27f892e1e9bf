//! `/v1/id` and `/v1/ids`: minting and decoding snowflake IDs.

use std::sync::Arc;

use bytes::Bytes;
use seqd_api::{
    FormatError, IdBody, IdFormat, IdParts, IdPartsQuery, IdQuery, IdText, IdValue, Media, Need,
    Problem, Scope, Typed as _, op,
};
use serde::Serialize;
use serde_json::to_writer;

use super::costly;
use super::decode_one;
use super::keyed::check_with_key;
use crate::http::{Call, Request, Response};
use crate::minting::Minter;
use crate::problems::{internal, invalid};
use crate::services::{ServiceError, Services};

/// Integers up to this many bits are exact as JavaScript numbers.
const NUMERIC_BITS: u32 = 53;

struct IdRequest {
    minter: Arc<Minter>,
    /// `None` is plain decimal, which needs no allocation per ID.
    text: Option<IdText>,
    numeric: bool,
    count: Option<u64>,
}

impl IdRequest {
    /// Reads a request. The minter is looked up last, so that a refused request leases no worker.
    async fn read(node: &Services, request: &Request, is_one: bool) -> Result<IdRequest, Problem> {
        if request.query.is_empty() && request.body.is_empty() {
            return Ok(IdRequest {
                minter: node.ids.minter(None)?,
                text: None,
                numeric: false,
                count: None,
            });
        }
        let query: IdQuery = if is_one {
            decode_one(request, op::GetId::ROW, op::GetIds::ROW.path)?
        } else {
            request.decode()?
        };
        if !is_one {
            node.ids.check_count(query.count)?;
            check_with_key(node, request, (query.count, true))?;
        }
        let found = node.ids.layout(query.layout.as_deref(), request.deadline);
        let (name, bits) = found.await?;
        let is_plain = query.format.is_none() && query.pad.is_none() && query.id_prefix.is_none();
        let numeric = query.numeric.unwrap_or(false);
        if numeric && !is_plain {
            return Err(invalid(
                "numeric cannot be combined with format, pad or id_prefix",
            ));
        }
        if numeric && bits > NUMERIC_BITS {
            let detail = format!(
                "IDs of the layout {name} have {bits} bits: numbers above 2^53 lose precision in \
                 JSON"
            );
            return Err(invalid(detail).with_hint("omit numeric, or use layout=js53"));
        }
        let text = if is_plain {
            None
        } else {
            Some(text_of(&query)?)
        };
        Ok(IdRequest {
            minter: node.ids.minter(query.layout.as_deref())?,
            text,
            numeric,
            count: query.count,
        })
    }

    fn render(&self, id: u64) -> Result<String, Problem> {
        match &self.text {
            None => Ok(id.to_string()),
            Some(text) => text.render(id).map_err(|error| invalid(error.to_string())),
        }
    }
}

fn text_of(query: &IdQuery) -> Result<IdText, Problem> {
    let format = match query.format.as_deref() {
        None => IdFormat::Dec,
        Some(name) => name.parse().map_err(refused)?,
    };
    let pad = query
        .pad
        .map(|pad| usize::try_from(pad).unwrap_or(usize::MAX));
    IdText::new(format, pad, query.id_prefix.as_deref()).map_err(refused)
}

fn refused(error: FormatError) -> Problem {
    invalid(error.to_string())
}

pub(super) async fn one(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = IdRequest::read(&node, &request, true).await?;
    let minted = node.ids.one(&wanted.minter, request.deadline).await?;
    let id = minted.ids().next();
    let id = id.ok_or_else(|| internal(&"no ID was minted"))?;
    let mut rendered = wanted.render(id)?;
    if request.media == Media::Text {
        rendered.push('\n');
        return Ok(Response::text(rendered));
    }
    Response::json(&IdBody {
        id: if wanted.numeric {
            IdValue::Number(id)
        } else {
            IdValue::Text(&rendered)
        },
        layout: wanted.minter.layout().name(),
        worker: minted.worker().0,
        node: node.node(),
    })
}

pub(super) async fn many(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let wanted = IdRequest::read(&node, &request, false).await?;
    let (minter, count) = (&wanted.minter, wanted.count);
    let minted = node.ids.many(minter, count, request.deadline).await?;
    let _place = costly::to_write(&node.writing, request.tenant, count.unwrap_or(1)).await;
    // 19 digits, two quotes and a comma, or a line end: one buffer for the whole response.
    let mut out = Vec::with_capacity(minted.len() * 22 + 128);
    if request.media == Media::Text {
        for id in minted.ids() {
            match &wanted.text {
                None => push_json(&mut out, &id)?,
                Some(_) => out.extend_from_slice(wanted.render(id)?.as_bytes()),
            }
            out.push(b'\n');
        }
        return Ok(Response::text(Bytes::from(out)));
    }
    out.extend_from_slice(b"{\"ids\":[");
    for (at, id) in minted.ids().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match (&wanted.text, wanted.numeric) {
            (None, true) => push_json(&mut out, &id)?,
            (None, false) => {
                out.push(b'"');
                push_json(&mut out, &id)?;
                out.push(b'"');
            }
            (Some(_), _) => push_json(&mut out, &wanted.render(id)?)?,
        }
    }
    out.extend_from_slice(b"],\"layout\":");
    push_json(&mut out, minter.layout().name())?;
    out.extend_from_slice(b",\"worker\":");
    push_json(&mut out, &minted.worker().0)?;
    out.extend_from_slice(b",\"node\":");
    push_json(&mut out, node.node())?;
    out.push(b'}');
    Ok(Response::json_bytes(out))
}

fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Problem> {
    to_writer(out, value).map_err(|error| internal(&error))
}

/// Decodes an ID. The holder of its worker is shown only to callers that may read the workers; all
/// else is computed from the number.
pub(super) async fn parts(
    node: &Services,
    call: &Call<IdPartsQuery>,
) -> Result<IdParts, ServiceError> {
    let parts = node.ids.parts(call.name(), &call.fields, call.deadline);
    let mut parts = parts.await?;
    let sees_workers = Need::Whole(Scope::Read);
    if !node.callers.permits(call.caller, sees_workers, "") {
        parts.holder = None;
        parts.origin = None;
        parts.origin_detail = None;
    }
    Ok(parts)
}
