//! The router of the clients' port, with a shortcut to the hot operations.

use std::sync::Arc;

use axum::body::Body;
use axum::http;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use seqd_api::{Method, Typed as _, op};

use super::compat;
use super::keyed::{direct, one_id};
use super::table::table;
use super::{ids, pages, sequences};
use crate::connections::{Answered, ClientConnection, Unreadable};
use crate::http::{Context, Endpoint, Stranger, build};
use crate::services::Services;

/// All paths of the clients' port.
#[derive(Clone)]
pub(crate) struct Router {
    stranger: Arc<Stranger>,
    router: axum::Router,
    /// `None` for the health port.
    hot: Option<Arc<Endpoints>>,
}

/// The endpoints of the hot operations. The router has the same endpoints, for other spellings of
/// their paths.
struct Endpoints {
    get_id: Arc<Endpoint<Services>>,
    post_id: Arc<Endpoint<Services>>,
    get_ids: Arc<Endpoint<Services>>,
    post_ids: Arc<Endpoint<Services>>,
    next: Arc<Endpoint<Services>>,
}

/// A hot operation.
enum Hot<'a> {
    Id(&'a Arc<Endpoint<Services>>),
    Ids(&'a Arc<Endpoint<Services>>),
    Next(&'a Arc<Endpoint<Services>>, String),
}

impl Endpoints {
    fn of(&self, method: &http::Method, path: &str) -> Option<Hot<'_>> {
        let is_post = match *method {
            http::Method::GET => false,
            http::Method::POST => true,
            _ => return None,
        };
        let by_method = |get, post| if is_post { post } else { get };
        if path == op::GetId::ROW.path {
            return Some(Hot::Id(by_method(&self.get_id, &self.post_id)));
        }
        if path == op::GetIds::ROW.path {
            return Some(Hot::Ids(by_method(&self.get_ids, &self.post_ids)));
        }
        let name = next_name(path).filter(|_| is_post)?;
        Some(Hot::Next(&self.next, name.to_owned()))
    }
}

/// The name in the path of `next`, if it is not percent-encoded.
fn next_name(path: &str) -> Option<&str> {
    let (before, after) = op::NextValues::ROW.path.split_once("{name}")?;
    let name = path.strip_prefix(before)?.strip_suffix(after)?;
    (!name.is_empty() && !name.contains(['/', '%'])).then_some(name)
}

impl Router {
    pub(crate) fn new(mut context: Context, services: &Arc<Services>) -> Router {
        let mut open = Vec::new();
        open.extend(services.tiny_id.is_some().then_some(compat::TINY_ID));
        let mut routes = table();
        if services.config.http.pages {
            open.extend(pages::FOLDERS);
            routes.extend(pages::routes());
        } else {
            routes.retain(|route| route.operation.id != op::GetOpenApi::ROW.id);
        }
        context.open_folders = open;
        let context = Arc::new(context);
        let endpoint = |row, method| Endpoint::new(&context, services, row, method);
        let hot = Endpoints {
            get_id: endpoint(op::GetId::ROW, Method::Get),
            post_id: endpoint(op::GetId::ROW, Method::Post),
            get_ids: endpoint(op::GetIds::ROW, Method::Get),
            post_ids: endpoint(op::GetIds::ROW, Method::Post),
            next: endpoint(op::NextValues::ROW, Method::Post),
        };
        Router {
            stranger: Stranger::new(&context),
            router: compat::with_routes(build(routes, &context, services), &context, services),
            hot: Some(Arc::new(hot)),
        }
    }

    /// The paths of the health port.
    pub(crate) fn health(context: Context, services: &Arc<Services>) -> Router {
        let context = Arc::new(context);
        let paths = [op::GetLive::ROW, op::GetReady::ROW, op::GetMetrics::ROW].map(|row| row.path);
        let routes = table().into_iter();
        let routes = routes.filter(|route| paths.contains(&route.operation.path));
        Router {
            stranger: Stranger::new(&context),
            router: build(routes.collect(), &context, services),
            hot: None,
        }
    }

    /// Returns whether a request for this path is hot: an ID, IDs, or any POST of the contract. The
    /// responses to all of these are short.
    pub(crate) fn is_hot(method: &http::Method, path: &str) -> bool {
        match *method {
            http::Method::GET => path == op::GetId::ROW.path || path == op::GetIds::ROW.path,
            http::Method::POST => path.starts_with("/v1/"),
            _ => false,
        }
    }

    /// The response to a request head that cannot be parsed.
    pub(crate) fn unreadable(&self) -> Unreadable {
        let stranger = Arc::clone(&self.stranger);
        Arc::new(move |status| stranger.unreadable(status))
    }

    /// Answers a request. Hot operations bypass the router, whose boxes and clones cost as much as
    /// an ID.
    ///
    /// Each branch boxes its own future, so a box has room for one branch only.
    pub(crate) fn answer(
        &self,
        mut request: http::Request<Body>,
        connection: ClientConnection,
    ) -> Answered<Body> {
        let stranger = Arc::clone(&self.stranger);
        let (method, path) = (request.method(), request.uri().path());
        let hot = self.hot.as_ref();
        match hot.and_then(|hot| hot.of(method, path)) {
            Some(Hot::Id(endpoint)) => {
                let endpoint = Arc::clone(endpoint);
                Box::pin(async move {
                    match stranger.admit(&mut request, connection).await {
                        Ok(sender) => endpoint.serve(request, sender, None, one_id).await,
                        Err(refused) => *refused,
                    }
                })
            }
            Some(Hot::Ids(endpoint)) => {
                let endpoint = Arc::clone(endpoint);
                Box::pin(async move {
                    let sender = match stranger.admit(&mut request, connection).await {
                        Ok(sender) => sender,
                        Err(refused) => return *refused,
                    };
                    let many = |node, request| direct(ids::many, node, request);
                    endpoint.serve(request, sender, None, many).await
                })
            }
            Some(Hot::Next(endpoint, name)) => {
                let endpoint = Arc::clone(endpoint);
                Box::pin(async move {
                    let sender = match stranger.admit(&mut request, connection).await {
                        Ok(sender) => sender,
                        Err(refused) => return *refused,
                    };
                    let next = |node, request| direct(sequences::next, node, request);
                    endpoint.serve(request, sender, Some(name), next).await
                })
            }
            None => {
                let router = self.router.clone();
                Box::pin(async move {
                    let sender = match stranger.admit(&mut request, connection).await {
                        Ok(sender) => sender,
                        Err(refused) => return *refused,
                    };
                    request.extensions_mut().insert(sender);
                    let Ok(response) = TowerToHyperService::new(router).call(request).await;
                    response
                })
            }
        }
    }
}
