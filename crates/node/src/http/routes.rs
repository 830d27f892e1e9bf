//! The table of paths, and the way that each request takes through its entry.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use seqd_api::{ErrorCode, Problem, paths};
use tokio::time::Instant;

use super::accept::{Media, choose};
use super::answer::Answer;
use super::ask::Ask;
use super::gate::{self, REQUEST_ID, SEQD_NODE};
use super::meter::Meter;
use crate::app::App;
use crate::handlers::{
    cluster, health, ids, layouts, next, segments, sequences, snapshot, uuids, workers,
};

/// Text where nothing is asked for.
const TEXT_FIRST: &[Media] = &[Media::Text, Media::Json];
/// JSON where nothing is asked for.
const JSON_FIRST: &[Media] = &[Media::Json, Media::Text];
const JSON: &[Media] = &[Media::Json];
const BYTES: &[Media] = &[Media::Bytes];
const METRICS: &[Media] = &[Media::Metrics];

/// All paths of the clients' port, with a short way to the hottest.
#[derive(Clone)]
pub(crate) struct Front {
    router: Router,
    id: Arc<Entry>,
}

impl Front {
    pub(crate) fn new(app: &Arc<App>) -> Front {
        let id = Entry::new(app, paths::ID, "GET", TEXT_FIRST);
        Front {
            router: router(app),
            id,
        }
    }

    /// Answers a request. `GET /v1/id` does not pass the router, whose boxes and clones cost as
    /// much as the ID; the router has the path too, for the other methods.
    pub(crate) async fn answer(self, request: Request<Body>) -> Response<Body> {
        if *request.method() == Method::GET && request.uri().path() == paths::ID {
            return self.id.serve(request, ids::one).await;
        }
        let Ok(response) = TowerToHyperService::new(self.router).call(request).await;
        response
    }
}

fn router(app: &Arc<App>) -> Router {
    let mut routes = Routes {
        app,
        router: Router::new(),
    };
    minted(&mut routes);
    counted(&mut routes);
    clustered(&mut routes);
    told(&mut routes);
    routes.finish()
}

/// IDs, UUIDs, and what they are made of.
fn minted(routes: &mut Routes<'_>) {
    routes
        .at(paths::ID, TEXT_FIRST)
        .allocates()
        .get(ids::one)
        .post(ids::one)
        .add();
    routes
        .at(paths::IDS, JSON_FIRST)
        .allocates()
        .get(ids::many)
        .post(ids::many)
        .add();
    routes.at(paths::ID_PARTS, JSON).get(ids::parts).add();
    routes
        .at(paths::UUID, TEXT_FIRST)
        .allocates()
        .get(uuids::one)
        .post(uuids::one)
        .add();
    routes
        .at(paths::UUIDS, JSON_FIRST)
        .allocates()
        .get(uuids::many)
        .post(uuids::many)
        .add();
    routes.at(layouts::LAYOUTS, JSON).get(layouts::list).add();
    routes.at(layouts::LAYOUT, JSON).get(layouts::get).add();
}

/// Sequences.
fn counted(routes: &mut Routes<'_>) {
    routes.at(paths::SEQUENCES, JSON).get(sequences::list).add();
    let one = routes.at(paths::SEQUENCE, JSON);
    one.get(sequences::get)
        .put(sequences::put)
        .delete(sequences::delete)
        .add();
    routes
        .at(paths::SEQUENCE_NEXT, JSON_FIRST)
        .post(next::next)
        .add();
    routes
        .at(paths::SEQUENCE_ADVANCE, JSON)
        .post(sequences::advance)
        .add();
    routes
        .at(segments::GRANTS, JSON)
        .post(segments::grant)
        .add();
    routes
        .at(segments::GRANT, JSON)
        .delete(segments::give_back)
        .add();
}

/// The cluster and its members.
fn clustered(routes: &mut Routes<'_>) {
    routes.at(paths::WORKERS, JSON).get(workers::list).add();
    routes.at(paths::CLUSTER, JSON).get(cluster::show).add();
    routes
        .at(paths::MEMBERS, JSON)
        .get(cluster::members)
        .post(cluster::add)
        .add();
    routes.at(paths::MEMBER, JSON).delete(cluster::remove).add();
    routes
        .at(paths::MEMBER_PROMOTE, JSON)
        .post(cluster::promote)
        .add();
    routes
        .at(paths::LEADER, JSON)
        .post(cluster::move_leader)
        .add();
    routes.at(paths::SNAPSHOT, BYTES).get(snapshot::get).add();
}

/// What a node says of itself.
fn told(routes: &mut Routes<'_>) {
    routes
        .at(paths::CONFIG, JSON_FIRST)
        .get(health::config)
        .add();
    routes.at(paths::LIVEZ, TEXT_FIRST).get(health::livez).add();
    routes
        .at(paths::READYZ, TEXT_FIRST)
        .get(health::readyz)
        .add();
    routes
        .at(paths::METRICS, METRICS)
        .get(health::metrics)
        .add();
    routes
        .at(paths::VERSION, JSON_FIRST)
        .get(health::version)
        .add();
    routes
        .at(paths::PROBLEM, JSON_FIRST)
        .get(health::problem)
        .add();
}

struct Routes<'a> {
    app: &'a Arc<App>,
    router: Router,
}

impl<'a> Routes<'a> {
    fn at<'r>(&'r mut self, path: &'static str, media: &'static [Media]) -> Path<'r, 'a> {
        Path {
            routes: self,
            path,
            media,
            allocates: false,
            allow: Vec::new(),
            methods: MethodRouter::new(),
        }
    }

    fn finish(self) -> Router {
        let refuse = refusing(self.app, "unknown", |request| {
            let detail = format!("there is no path {}", request.uri().path());
            let hint = "GET /v1/cluster and /v1/id are good places to begin";
            Answer::problem(&Problem::new(ErrorCode::NotFound, detail).with_hint(hint))
        });
        self.router.fallback(refuse)
    }
}

/// One path on its way into the table.
struct Path<'r, 'a> {
    routes: &'r mut Routes<'a>,
    path: &'static str,
    media: &'static [Media],
    allocates: bool,
    allow: Vec<&'static str>,
    methods: MethodRouter,
}

impl Path<'_, '_> {
    /// GET takes something: HEAD, which would take it and show nothing, is refused.
    fn allocates(mut self) -> Self {
        self.allocates = true;
        self
    }

    fn get<H, F>(self, handler: H) -> Self
    where
        H: Fn(Arc<App>, Ask) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        self.on(MethodFilter::GET, "GET", handler)
    }

    fn post<H, F>(self, handler: H) -> Self
    where
        H: Fn(Arc<App>, Ask) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        self.on(MethodFilter::POST, "POST", handler)
    }

    fn put<H, F>(self, handler: H) -> Self
    where
        H: Fn(Arc<App>, Ask) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        self.on(MethodFilter::PUT, "PUT", handler)
    }

    fn delete<H, F>(self, handler: H) -> Self
    where
        H: Fn(Arc<App>, Ask) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        self.on(MethodFilter::DELETE, "DELETE", handler)
    }

    fn on<H, F>(mut self, filter: MethodFilter, method: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Ask) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let entry = Entry::new(self.routes.app, self.path, method, self.media);
        let serve = move |request: Request<Body>| {
            let (entry, handler) = (Arc::clone(&entry), handler.clone());
            async move { entry.serve(request, handler).await }
        };
        self.methods = self.methods.on(filter, serve);
        self.allow.push(method);
        self
    }

    fn add(self) {
        let Path {
            routes,
            path,
            allocates,
            mut allow,
            mut methods,
            ..
        } = self;
        if allow.contains(&"GET") && !allocates {
            allow.push("HEAD");
        }
        let allow = allow.join(", ");
        let refuse = refusing(routes.app, path, move |request| {
            let detail = format!("{path} takes {allow}, not {}", request.method());
            let problem = Problem::new(ErrorCode::MethodNotAllowed, detail);
            Answer::problem(&problem).with_allow(&allow)
        });
        if allocates {
            methods = methods.merge(on(MethodFilter::HEAD, refuse.clone()));
        }
        let router = std::mem::take(&mut routes.router);
        routes.router = router.route(path, methods.fallback(refuse));
    }
}

/// A handler that refuses whatever comes, with the same headers and counting as any other.
fn refusing(
    app: &Arc<App>,
    path: &'static str,
    refuse: impl Fn(&Request<Body>) -> Answer + Clone + Send + Sync + 'static,
) -> impl Fn(Request<Body>) -> std::future::Ready<Response<Body>> + Clone + Send + Sync + 'static {
    let entry = Entry::new(app, path, "other", JSON);
    move |request| {
        let started = Instant::now();
        let id = entry.app.request_ids.of(request.headers());
        std::future::ready(entry.finish(refuse(&request), id, started))
    }
}

/// One path and method: the way in and out of its handler.
pub(crate) struct Entry {
    app: Arc<App>,
    media: &'static [Media],
    has_path: bool,
    meter: Meter,
}

impl Entry {
    fn new(
        app: &Arc<App>,
        path: &'static str,
        method: &'static str,
        media: &'static [Media],
    ) -> Arc<Entry> {
        let meter = Meter::new(&app.metrics.http, path, method);
        Arc::new(Entry {
            app: Arc::clone(app),
            media,
            has_path: path.contains('{'),
            meter,
        })
    }

    async fn serve<H, F>(&self, request: Request<Body>, handler: H) -> Response<Body>
    where
        H: Fn(Arc<App>, Ask) -> F,
        F: Future<Output = Result<Answer, Problem>>,
    {
        let started = Instant::now();
        let id = self.app.request_ids.of(request.headers());
        let answer = match self.ask(request).await {
            Ok(ask) => handler(Arc::clone(&self.app), ask).await,
            Err(problem) => Err(problem),
        };
        self.finish(
            answer.unwrap_or_else(|problem| Answer::problem(&problem)),
            id,
            started,
        )
    }

    async fn ask(&self, request: Request<Body>) -> Result<Ask, Problem> {
        let cluster = || self.app.raft.status().cluster_id;
        gate::check(request.method(), request.headers(), cluster)?;
        let media = choose(request.headers(), self.media)?;
        let timeout = self.app.config.http.request_timeout;
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let ask = Ask::read(request, media, self.has_path, timeout).await?;
        if is_get && !ask.body.is_empty() {
            let detail = "a GET takes no body: put it into the query, or POST it";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        Ok(ask)
    }

    fn finish(&self, answer: Answer, id: HeaderValue, started: Instant) -> Response<Body> {
        self.meter.answered(answer.status(), started.elapsed());
        let mut response = answer.into_response();
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id);
        headers.insert(SEQD_NODE, self.app.node_header.clone());
        response
    }
}
