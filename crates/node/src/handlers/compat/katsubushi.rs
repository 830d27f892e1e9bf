//! katsubushi: IDs of `compat.leaf_layout`, as text without a line end or as JSON.

use std::sync::Arc;

use axum::http::Method;
use seqd_api::{ErrorCode, Typed as _, op};

use super::{JSON, TEXT, mint, response};
use crate::http::{Foreign, Response};
use crate::minting::Minted;
use crate::services::Services;

/// The most IDs of one request.
const MOST: i64 = 1000;

pub(super) async fn one(node: Arc<Services>, from: Foreign) -> Response {
    if from.method != Method::GET {
        return response(405, TEXT, "");
    }
    let minted = mint(&node, &from, 1).await;
    match minted.ok().and_then(|minted| minted.ids().next()) {
        Some(id) if wants_json(&from) => response(200, JSON, format!(r#"{{"id":"{id}"}}"#)),
        Some(id) => response(200, TEXT, id.to_string()),
        None => response(500, TEXT, ""),
    }
}

pub(super) async fn many(node: Arc<Services>, from: Foreign) -> Response {
    if from.method != Method::GET {
        return response(405, TEXT, "");
    }
    let count = match from.field("n").filter(|n| !n.is_empty()) {
        None => 1,
        Some(n) => match n.parse::<i64>() {
            Ok(n) if n > MOST => {
                let message =
                    format!("too many IDs requested: {n}, n should be smaller than {MOST}");
                return response(400, TEXT, message);
            }
            Ok(n) if n >= 0 => n.unsigned_abs(),
            _ => return response(400, TEXT, ""),
        },
    };
    let minted = match count {
        0 => Ok(None),
        _ => mint(&node, &from, count).await.map(Some),
    };
    let ids: Vec<String> = match minted {
        Ok(minted) => {
            let ids = minted.iter().flat_map(Minted::ids);
            ids.map(|id| id.to_string()).collect()
        }
        Err(problem) if problem.is(ErrorCode::CountTooLarge) => {
            return response(400, TEXT, &*problem.detail);
        }
        Err(_) => return response(500, TEXT, ""),
    };
    if wants_json(&from) {
        let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        let body = format!("{{\"ids\":[{}]}}\n", ids.join(","));
        return response(200, JSON, body);
    }
    response(200, TEXT, ids.join("\n"))
}

fn wants_json(from: &Foreign) -> bool {
    from.accept().contains("application/json")
}

pub(super) async fn stats(node: Arc<Services>, from: Foreign) -> Response {
    if from.method != Method::GET {
        return response(405, TEXT, "");
    }
    let admitted = from.serve(op::GetVersion::ROW, "", async |_| {
        Ok::<_, seqd_api::Problem>(node.ids.minters.minted())
    });
    let Ok(minted) = admitted.await else {
        return response(500, TEXT, "");
    };
    let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION"));
    let time = node.ids.clock.wall().0 / 1000;
    let body = format!(
        "{{\n  \"pid\": {pid},\n  \"time\": {time},\n  \"version\": \"{version}\",\n  \
         \"get_hits\": {minted},\n  \"get_misses\": 0\n}}\n"
    );
    response(200, JSON, body)
}
