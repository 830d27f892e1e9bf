//! Leaf of Meituan: a segment tag is a sequence, and snowflake IDs are of `compat.leaf_layout`.

use std::sync::Arc;

use seqd_api::{ErrorCode, IdPartsQuery, NextRequest, Typed as _, op};
use serde_json::json;

use super::{JSON, mint, response, spring};
use crate::http::{Foreign, Response};
use crate::services::{Services, sequence_name};

/// The results with which Leaf reports errors.
const UNKNOWN_KEY: i8 = -2;
const FAILED: i8 = -3;

pub(super) async fn segment(node: Arc<Services>, from: Foreign) -> Response {
    let Ok(name) = sequence_name(from.param()) else {
        return refused(&node, &from, UNKNOWN_KEY);
    };
    let one = NextRequest::default();
    let taken = from.serve(op::NextValues::ROW, from.param(), async |admitted| {
        let next = node.sequences.next(&name, &one, false, admitted.deadline);
        next.await
    });
    match taken.await.map(|next| next.first) {
        Ok(Some(value)) => spring::text(&from, value.to_string()),
        Err(problem) if problem.is(ErrorCode::NotFound) => refused(&node, &from, UNKNOWN_KEY),
        Ok(None) | Err(_) => refused(&node, &from, FAILED),
    }
}

pub(super) async fn snowflake(node: Arc<Services>, from: Foreign) -> Response {
    let minted = mint(&node, &from, 1).await;
    match minted.ok().and_then(|minted| minted.ids().next()) {
        Some(id) => spring::text(&from, id.to_string()),
        None => refused(&node, &from, FAILED),
    }
}

fn refused(node: &Services, from: &Foreign, id: i8) -> Response {
    let message = format!("Result{{id={id}, status=EXCEPTION}}");
    spring::error(node, from, (500, "Internal Server Error"), &message)
}

pub(super) async fn decode(node: Arc<Services>, from: Foreign) -> Response {
    let Some(id) = &from.field("snowflakeId") else {
        let message = "Required String parameter 'snowflakeId' is not present";
        return spring::bad_request(&node, &from, message);
    };
    let query = IdPartsQuery {
        layout: Some(node.config.compat.leaf_layout.clone()),
        ..IdPartsQuery::default()
    };
    let parts = from.serve(op::GetIdParts::ROW, id, async |admitted| {
        node.ids.parts(id, &query, admitted.deadline).await
    });
    let Ok(parts) = parts.await else {
        let message = json!({"errorMsg": "snowflake Id\u{53cd}\u{89e3}\u{6790}\u{53d1}\u{751f}\u{5f02}\u{5e38}!"});
        return response(200, JSON, message.to_string());
    };
    let (ms, time) = (parts.unix_ms, parts.time.replace('T', " "));
    // In the order of the original, which is that of a hash map.
    let body = format!(
        r#"{{"workerId":"{}","sequenceId":"{}","timestamp":"{ms}({})"}}"#,
        parts.worker,
        parts.sequence,
        time.trim_end_matches('Z'),
    );
    response(200, JSON, body)
}
