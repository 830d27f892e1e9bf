//! The HTTP routes of Leaf, TinyID, CosId and katsubushi: their paths, parameters and responses,
//! over the services.
//!
//! Each system has a file, which only translates between forms. `compat.routes` enables them one by
//! one; a route that is not enabled does not exist.

mod cosid;
mod katsubushi;
mod leaf;
mod spring;
mod tinyid;

use std::sync::{Arc, Once};

use axum::http::{HeaderValue, StatusCode};
use seqd_api::{ErrorCode, Problem, Typed as _, op};

use crate::config::CompatRoutes;
use crate::http::{Context, Foreign, Response, with_route};
use crate::minting::Minted;
use crate::services::Services;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The folder of TinyID's paths.
pub(super) const TINY_ID: &str = "/tinyid";

/// Adds the routes of the enabled systems.
pub(super) fn with_routes(
    mut router: axum::Router,
    context: &Arc<Context>,
    node: &Arc<Services>,
) -> axum::Router {
    let to = (context, node);
    let enabled = &node.config.compat.routes;
    if enabled.contains(&CompatRoutes::Leaf) {
        router = with_route(router, "/api/segment/get/{tag}", to, leaf::segment);
        router = with_route(router, "/api/snowflake/get/{tag}", to, leaf::snowflake);
        router = with_route(router, "/decodeSnowflakeId", to, leaf::decode);
    }
    if enabled.contains(&CompatRoutes::TinyId) {
        router = with_route(router, "/tinyid/id/nextId", to, tinyid::ids);
        router = with_route(router, "/tinyid/id/nextIdSimple", to, tinyid::ids_simple);
        router = with_route(router, "/tinyid/id/nextSegmentId", to, tinyid::segment);
        let simple = tinyid::segment_simple;
        router = with_route(router, "/tinyid/id/nextSegmentIdSimple", to, simple);
    }
    let has_cosid = enabled.contains(&CompatRoutes::CosId);
    if has_cosid {
        router = with_route(router, "/machines/{namespace}", to, cosid::machines);
        let path = "/segments/distributor/{namespace}/{name}";
        router = with_route(router, path, to, cosid::create_distributor);
        router = with_route(
            router,
            "/segments/{namespace}/{name}",
            to,
            cosid::next_max_id,
        );
        router = with_route(router, "/ids/{name}", to, cosid::id);
        router = with_route(router, "/ids/as-string", to, cosid::id_as_string);
        router = with_route(router, "/ids/as-string/{name}", to, cosid::id_as_string);
    }
    let has_katsubushi = enabled.contains(&CompatRoutes::Katsubushi);
    if has_cosid || has_katsubushi {
        router = with_route(router, "/ids", to, move |node, from: Foreign| async move {
            // Both systems have this path, and only one has a number of IDs.
            if has_cosid && from.field("n").is_none() {
                return cosid::id(node, from).await;
            }
            katsubushi::many(node, from).await
        });
    }
    if has_katsubushi {
        router = with_route(router, "/id", to, katsubushi::one);
        router = with_route(router, "/stats", to, katsubushi::stats);
    }
    router
}

/// Mints IDs of `compat.leaf_layout`.
async fn mint(node: &Services, from: &Foreign, count: u64) -> Result<Minted, Problem> {
    let layout = &node.config.compat.leaf_layout;
    let minted = from.serve(op::GetIds::ROW, "", async |admitted| {
        node.ids.of_layout(layout, count, admitted.deadline).await
    });
    let minted = minted.await;
    if let Err(problem) = &minted
        && problem.is(ErrorCode::NotFound)
    {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "compat.leaf_layout: there is no layout {layout}: seqd layout create {layout} \
                 --epoch TIME creates it"
            );
        });
    }
    minted
}

/// A response with this content type.
fn response(status: u16, kind: HeaderValue, body: impl Into<String>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Response::new(status, kind, body.into())
}
