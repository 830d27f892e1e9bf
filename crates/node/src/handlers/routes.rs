//! The router of the clients' port, and a fast path to the most frequent operation.

use std::sync::Arc;

use axum::body::Body;
use axum::http;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use seqd_api::{Method, Typed as _, op};

use super::keyed::one_id;
use super::table::table;
use crate::connections::{Answered, Unreadable};
use crate::http::{Context, Endpoint, Stranger, build};
use crate::services::Services;

/// All paths of the clients' port.
#[derive(Clone)]
pub(crate) struct Router {
    stranger: Arc<Stranger>,
    router: axum::Router,
    id: Arc<Endpoint<Services>>,
}

impl Router {
    pub(crate) fn new(context: Context, services: &Arc<Services>) -> Router {
        let context = Arc::new(context);
        Router {
            stranger: Stranger::new(&context),
            router: build(table(), &context, services),
            id: Endpoint::new(&context, services, op::GetId::ROW, Method::Get),
        }
    }

    /// The answer to a request head that cannot be parsed.
    pub(crate) fn unreadable(&self) -> Unreadable {
        let stranger = Arc::clone(&self.stranger);
        Arc::new(move |status| stranger.unreadable(status))
    }

    /// Answers a request. `GET /v1/id` bypasses the router, whose boxes and clones cost as much as
    /// the ID. The router also has the path, for the other methods.
    ///
    /// Each branch boxes its own future, so a box has room for one branch only.
    pub(crate) fn answer(&self, mut request: http::Request<Body>) -> Answered<Body> {
        let stranger = Arc::clone(&self.stranger);
        if *request.method() == http::Method::GET && request.uri().path() == op::GetId::ROW.path {
            let id = Arc::clone(&self.id);
            return Box::pin(async move {
                match stranger.refuse(&mut request).await {
                    Some(refused) => refused,
                    None => id.serve(request, one_id).await,
                }
            });
        }
        let router = self.router.clone();
        Box::pin(async move {
            if let Some(refused) = stranger.refuse(&mut request).await {
                return refused;
            }
            let Ok(response) = TowerToHyperService::new(router).call(request).await;
            response
        })
    }
}
